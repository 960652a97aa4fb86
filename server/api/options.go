package api

import (
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	internalscheme "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme"
	internalvalidation "k8s.io/apimachinery/pkg/apis/meta/internalversion/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	tablevalidation "k8s.io/apimachinery/pkg/apis/meta/v1beta1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"edgepod/server/registry"
)

func decodeQuery(values url.Values, into runtime.Object) error {
	if len(values) == 0 {
		return nil
	}
	if err := internalscheme.ParameterCodec.DecodeParameters(values, metav1.SchemeGroupVersion, into); err != nil {
		return badRequest("%v", err)
	}
	return nil
}

func invalidOptions(kind string, errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	return apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: kind}, "", errs)
}

// listOptions are those of list, watch and deletecollection.
func (r *request) listOptions(watch bool) (*internalversion.ListOptions, error) {
	options := &internalversion.ListOptions{}
	if err := decodeQuery(r.query(), options); err != nil {
		return nil, err
	}
	options.Watch = watch
	explicit := options.SendInitialEvents
	internalversion.SetListOptionsDefaults(options, true)
	if err := invalidOptions("ListOptions", internalvalidation.ValidateListOptions(options, true)); err != nil {
		return nil, err
	}
	options.SendInitialEvents = explicit
	return options, nil
}

// writeOptions are what create, update and patch take in their query.
type writeOptions struct {
	manager    string
	validation string
	dryRun     bool
}

func (r *request) createOptions() (writeOptions, error) {
	options := &metav1.CreateOptions{}
	if err := decodeQuery(r.query(), options); err != nil {
		return writeOptions{}, err
	}
	if err := invalidOptions("CreateOptions", metav1validation.ValidateCreateOptions(options)); err != nil {
		return writeOptions{}, err
	}
	return r.write(options.FieldManager, options.FieldValidation, options.DryRun), nil
}

func (r *request) updateOptions() (writeOptions, error) {
	options := &metav1.UpdateOptions{}
	if err := decodeQuery(r.query(), options); err != nil {
		return writeOptions{}, err
	}
	if err := invalidOptions("UpdateOptions", metav1validation.ValidateUpdateOptions(options)); err != nil {
		return writeOptions{}, err
	}
	return r.write(options.FieldManager, options.FieldValidation, options.DryRun), nil
}

func (r *request) patchOptions(patch types.PatchType) (writeOptions, error) {
	options := &metav1.PatchOptions{}
	if err := decodeQuery(r.query(), options); err != nil {
		return writeOptions{}, err
	}
	if err := invalidOptions("PatchOptions", metav1validation.ValidatePatchOptions(options, patch)); err != nil {
		return writeOptions{}, err
	}
	return r.write(options.FieldManager, options.FieldValidation, options.DryRun), nil
}

// write completes options: the manager is that of the User-Agent where none is named, and unknown fields are warned of.
func (r *request) write(manager, validation string, dryRun []string) writeOptions {
	if manager == "" {
		manager = managerOf(r.Request().UserAgent())
	}
	if validation == "" {
		validation = metav1.FieldValidationWarn
	}
	return writeOptions{manager: manager, validation: validation, dryRun: len(dryRun) != 0}
}

// managerOf is the first word of a User-Agent, without what no manager's name may hold.
func managerOf(agent string) string {
	for i, c := range agent {
		if c == '/' || i >= metav1validation.FieldManagerMaxLength {
			return agent[:i]
		}
		if c < ' ' || c > '~' {
			return agent[:i]
		}
	}
	return agent
}

// deleteOptions are in the body, or in the query where there is no body.
func (a *API) deleteOptions(r *request) (*metav1.DeleteOptions, error) {
	options := &metav1.DeleteOptions{}
	body, err := a.body(r)
	if err != nil {
		return nil, err
	}
	if len(body) == 0 {
		err = decodeQuery(r.query(), options)
	} else {
		err = a.decodeDeleteOptions(r, body, options)
	}
	if err != nil {
		return nil, err
	}
	options.IgnoreStoreReadErrorWithClusterBreakingPotential = nil
	return options, invalidOptions("DeleteOptions", metav1validation.ValidateDeleteOptions(options))
}

// decodeDeleteOptions takes them as v1, as of meta.k8s.io and as of the resource's group, as clients send them.
func (a *API) decodeDeleteOptions(r *request, body []byte, into *metav1.DeleteOptions) error {
	info, err := contentType(r.Request(), a.deleteCodecs)
	if err != nil {
		return err
	}
	if info.MediaType == mediaYAML.String() {
		if err := boundYAML(body); err != nil {
			return badRequest("%v", err)
		}
	}
	kind := schema.GroupVersionKind{Version: "v1", Kind: "DeleteOptions"}
	obj, found, err := info.Serializer.Decode(body, &kind, into)
	if err != nil {
		return badRequest("%v", err)
	}
	if obj != runtime.Object(into) || found.Kind != kind.Kind {
		return badRequest("decoded object cannot be converted to DeleteOptions")
	}
	return nil
}

func (r *request) tableOptions() (*metav1.TableOptions, error) {
	options := &metav1.TableOptions{}
	if err := decodeQuery(r.query(), options); err != nil {
		return nil, err
	}
	switch errs := tablevalidation.ValidateTableOptions(options); len(errs) {
	case 0:
		return options, nil
	case 1:
		return nil, badRequest("Unable to convert to Table as requested: %v", errs[0])
	default:
		return nil, badRequest("Unable to convert to Table as requested: %v", errs)
	}
}

// optionsScheme knows the options that are bodies, in every group and version served.
func optionsScheme(resources []*registry.Resource) *runtime.Scheme {
	s := runtime.NewScheme()
	metav1.AddToGroupVersion(s, schema.GroupVersion{Version: "v1"})
	metav1.AddToGroupVersion(s, metav1.SchemeGroupVersion)
	for _, res := range resources {
		metav1.AddToGroupVersion(s, res.Kind.GroupVersion())
	}
	return s
}
