package api

import (
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"edgepod/server/registry"
	"edgepod/server/registry/upstream"
)

func (a *API) create(r *request) error {
	if err := r.negotiateObject(); err != nil {
		return err
	}
	options, err := r.createOptions()
	if err != nil {
		return err
	}
	object, err := a.decodeBody(r, options.validation)
	if err != nil {
		return err
	}
	if err := r.authorizeCreate(object.(metav1.Object).GetName()); err != nil {
		return err
	}
	if err := matchNamespace(r.namespace, object.(metav1.Object)); err != nil {
		return err
	}
	result, err := a.Registry.Create(r.Request().Context(), r.resource, registry.CreateRequest{
		Caller: r.caller, Namespace: r.namespace, Object: object, FieldManager: options.manager, DryRun: options.dryRun,
	})
	r.warn(result.Warnings...)
	if err != nil {
		return err
	}
	return a.writeObject(r, http.StatusCreated, result.Object)
}

// decodeBody makes the body an object of the resource's type.
func (a *API) decodeBody(r *request, validation string) (runtime.Object, error) {
	if _, err := contentType(r.Request(), upstream.Codecs); err != nil {
		return nil, err
	}
	body, err := a.body(r)
	if err != nil {
		return nil, err
	}
	return decode(r, upstream.Codecs, body, r.resource.Kind, r.resource.New, validation)
}

// matchName holds a changed object to the name in its path.
func matchName(name string, object metav1.Object) error {
	switch object.GetName() {
	case name:
		return nil
	case "":
		return badRequest("the name of the object (%s based on URL) was undeterminable: name must be provided", name)
	}
	return badRequest("the name of the object (%s) does not match the name on the URL (%s)", object.GetName(), name)
}

// matchNamespace sets the object's namespace to the path's: none where it lives in none, whatever it says.
func matchNamespace(namespace string, object metav1.Object) error {
	if own := object.GetNamespace(); own != "" && namespace != "" && own != namespace {
		return badRequest("the namespace of the provided object does not match the namespace sent on the request")
	}
	object.SetNamespace(namespace)
	return nil
}

func (a *API) update(r *request) error {
	if err := r.negotiateObject(); err != nil {
		return err
	}
	options, err := r.updateOptions()
	if err != nil {
		return err
	}
	object, err := a.decodeBody(r, options.validation)
	if err != nil {
		return err
	}
	accessor := object.(metav1.Object)
	if err := matchName(r.name, accessor); err != nil {
		return err
	}
	if err := matchNamespace(r.namespace, accessor); err != nil {
		return err
	}
	code := http.StatusOK
	replace := func(live runtime.Object) (runtime.Object, error) {
		if code = http.StatusOK; live.(metav1.Object).GetUID() == "" {
			code = http.StatusCreated
		}
		return object, nil
	}
	return a.modify(r, options, uidPrecondition(accessor), replace, func() int { return code })
}

// uidPrecondition of an object that says which of those that had its name it is about.
func uidPrecondition(object metav1.Object) *metav1.Preconditions {
	if object.GetUID() == "" {
		return nil
	}
	return metav1.NewUIDPreconditions(string(object.GetUID()))
}

// modify changes the object of the path, or its subresource, and answers with what it has become. Changed is called
// between, and says with which code.
func (a *API) modify(r *request, options writeOptions, want *metav1.Preconditions, change func(live runtime.Object) (runtime.Object, error), changed func() int) error {
	result, err := a.Registry.Update(r.Request().Context(), r.resource, registry.UpdateRequest{
		Caller: r.caller, Namespace: r.namespace, Name: r.name, Subresource: r.subresource,
		Modify: change, Preconditions: want, FieldManager: options.manager, DryRun: options.dryRun, MayCreate: r.verb == "update",
	})
	code := changed()
	r.warn(result.Warnings...)
	if err != nil {
		return err
	}
	return a.writeObject(r, code, result.Object)
}

func (a *API) delete(r *request) error {
	if err := r.negotiateObject(); err != nil {
		return err
	}
	options, err := a.deleteOptions(r)
	if err != nil {
		return err
	}
	result, err := a.Registry.Delete(r.Request().Context(), r.resource, registry.DeleteRequest{
		Caller: r.caller, Namespace: r.namespace, Name: r.name, Options: options,
	})
	r.warn(result.Warnings...)
	if err != nil {
		return err
	}
	code := http.StatusOK
	//lint:ignore SA1019 old clients ask in this way, and this answer is theirs
	if !result.Gone && options.OrphanDependents != nil && !*options.OrphanDependents {
		code = http.StatusAccepted
	}
	if !result.Gone || returnsDeleted[r.resource.GroupResource().String()] {
		return a.writeObject(r, code, result.Object)
	}
	out := r.out
	out.convert.Kind = ""
	return a.writeRuntime(r, out, code, &metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess,
		Details: &metav1.StatusDetails{
			Name: r.name, Group: r.group, Kind: r.plural, UID: result.Object.Meta().GetUID(),
		},
	})
}

// returnsDeleted are the resources whose deletion is answered with the object also when it is gone at once.
var returnsDeleted = map[string]bool{"pods": true, "namespaces": true, "serviceaccounts": true}

func (a *API) deleteCollection(r *request) error {
	if err := r.negotiateObject(); err != nil {
		return err
	}
	selection, err := r.listOptions(false)
	if err != nil {
		return err
	}
	options, err := a.deleteOptions(r)
	if err != nil {
		return err
	}
	list, err := a.Registry.DeleteCollection(r.Request().Context(), r.resource, listRequest(r, selection), registry.DeleteRequest{
		Caller: r.caller, Namespace: r.namespace, Options: options,
	})
	if err != nil {
		return err
	}
	return a.writeList(r, list)
}
