package api

import (
	"net/http"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"edgepod/server/registry/upstream"
)

func newBinding() runtime.Object { return &corev1.Binding{} }

// bind serves pods/binding, by which schedulers say where a pod runs.
func (a *API) bind(r *request) error {
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
	kind := corev1.SchemeGroupVersion.WithKind("Binding")
	object, err := decode(r, upstream.Codecs, body, kind, newBinding, options.validation)
	if err != nil {
		return err
	}
	binding := object.(*corev1.Binding)
	if binding.Name != r.name {
		return badRequest("name in URL does not match name in Binding object")
	}
	if err := matchNamespace(r.namespace, binding); err != nil {
		return err
	}
	if errs := upstream.Binding(binding); len(errs) > 0 {
		return apierrors.NewInvalid(kind.GroupKind(), binding.Name, errs)
	}
	if !options.dryRun {
		if err := a.Registry.Bind(r.Request().Context(), r.namespace, r.name, binding.UID, binding.Target.Name); err != nil {
			return err
		}
	}
	out := r.out
	out.convert.Kind = ""
	return a.writeRuntime(r, out, http.StatusCreated, &metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess, Code: http.StatusCreated,
	})
}
