package registry

import (
	coordinationv1 "k8s.io/api/coordination/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"

	"edgepod/server/registry/upstream"
)

func leases() *Resource {
	return &Resource{
		Kind: coordinationv1.SchemeGroupVersion.WithKind("Lease"),
		Name: "leases", Singular: "lease", Namespaced: true, Verbs: verbsAll,
		New:     func() runtime.Object { return &coordinationv1.Lease{} },
		NewList: func() runtime.Object { return &coordinationv1.LeaseList{} },
		rules: rules{
			create: onCreate(func(obj *coordinationv1.Lease) verdict {
				obj.Spec.Strategy, obj.Spec.PreferredHolder = nil, nil
				return verdict{errs: upstream.LeaseCreate(obj)}
			}),
			update: map[string]func(obj, old runtime.Object) verdict{
				"": onUpdate(func(obj, old *coordinationv1.Lease) verdict {
					obj.Spec.Strategy, obj.Spec.PreferredHolder = old.Spec.Strategy, old.Spec.PreferredHolder
					return verdict{errs: upstream.LeaseUpdate(obj, old)}
				}),
			},
			volatile:        onChange(isRenewal),
			createOnUpdate:  true,
			versionRequired: true,
		},
	}
}

// isRenewal tells that a lease's holder says nothing but that it is still there.
func isRenewal(obj, old *coordinationv1.Lease) bool {
	same := *obj
	same.ResourceVersion = old.ResourceVersion
	same.Spec.RenewTime = old.Spec.RenewTime
	return apiequality.Semantic.DeepEqual(&same, old)
}
