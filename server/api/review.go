package api

import (
	"net/http"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"edgepod/server/registry"
)

// review answers a question that is asked as an object and stored nowhere.
type review func(r *request, object runtime.Object) error

// reviewResources are the questions: who am I, and may I do this. They are what kubectl auth asks.
var reviewResources = []*registry.Resource{
	{
		Kind: authenticationv1.SchemeGroupVersion.WithKind("SelfSubjectReview"), Name: "selfsubjectreviews", Singular: "selfsubjectreview",
		Verbs: []string{"create"}, New: func() runtime.Object { return &authenticationv1.SelfSubjectReview{} },
	},
	{
		Kind: authorizationv1.SchemeGroupVersion.WithKind("SelfSubjectAccessReview"), Name: "selfsubjectaccessreviews", Singular: "selfsubjectaccessreview",
		Verbs: []string{"create"}, New: func() runtime.Object { return &authorizationv1.SelfSubjectAccessReview{} },
	},
}

func reviews() map[*registry.Resource]review {
	return map[*registry.Resource]review{reviewResources[0]: reviewSelf, reviewResources[1]: reviewAccess}
}

var reviewCodecs = serializer.NewCodecFactory(reviewScheme())

func reviewScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	utilruntime.Must(authenticationv1.AddToScheme(s))
	utilruntime.Must(authorizationv1.AddToScheme(s))
	return s
}

// reviewOfOneself tells the questions that everybody with a name may ask.
func reviewOfOneself(act action) bool {
	return act.verb == "create" && (act.group == authenticationv1.GroupName && act.resource == "selfsubjectreviews" ||
		act.group == authorizationv1.GroupName && act.resource == "selfsubjectaccessreviews")
}

func (a *API) serveReview(r *request, answer review) error {
	if r.name != "" {
		return resourceNotFound()
	}
	if r.verb != "create" {
		return methodNotAllowed()
	}
	if err := r.negotiateObject(); err != nil {
		return err
	}
	options, err := r.createOptions()
	if err != nil {
		return err
	}
	body, err := a.body(r)
	if err != nil {
		return err
	}
	object, err := decode(r, reviewCodecs, body, r.resource.Kind, r.resource.New, options.validation)
	if err != nil {
		return err
	}
	if err := answer(r, object); err != nil {
		return err
	}
	object.GetObjectKind().SetGroupVersionKind(r.resource.Kind)
	out := r.out
	out.convert.Kind = ""
	return a.writeRuntime(r, out, http.StatusCreated, object)
}

func reviewSelf(r *request, object runtime.Object) error {
	info := &object.(*authenticationv1.SelfSubjectReview).Status.UserInfo
	info.Username, info.UID, info.Groups = r.caller.Name, r.caller.UID, r.caller.Groups
	for key, values := range r.caller.Extra {
		if info.Extra == nil {
			info.Extra = map[string]authenticationv1.ExtraValue{}
		}
		info.Extra[key] = values
	}
	object.(metav1.Object).SetCreationTimestamp(metav1.NewTime(r.start))
	return nil
}

func reviewAccess(r *request, object runtime.Object) error {
	question := object.(*authorizationv1.SelfSubjectAccessReview)
	if spec := question.Spec; (spec.ResourceAttributes == nil) == (spec.NonResourceAttributes == nil) {
		return apierrors.NewInvalid(r.resource.Kind.GroupKind(), "", field.ErrorList{field.Invalid(field.NewPath("spec"), nil,
			"exactly one of nonResourceAttributes or resourceAttributes must be specified")})
	}
	var act action
	if attr := question.Spec.ResourceAttributes; attr != nil {
		act = action{verb: attr.Verb, group: attr.Group, resource: attr.Resource, subresource: attr.Subresource, namespace: attr.Namespace, nameOfIt: attr.Name}
	} else if attr := question.Spec.NonResourceAttributes; attr != nil {
		act = action{verb: strings.ToLower(attr.Verb), path: attr.Path}
	}
	question.Status.Allowed, question.Status.Reason = allowed(r.caller, act)
	return nil
}
