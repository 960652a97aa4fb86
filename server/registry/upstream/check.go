package upstream

import (
	"context"

	"k8s.io/apimachinery/pkg/api/validate"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1validation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/pkg/features"
)

// object is a pointer to a served type.
type object[V any] interface {
	*V
	runtime.Object
	metav1.Object
}

// check runs rules on the internal forms of an object and of the one that it is to replace (nil for a creation), and after
// that the rules that upstream generates from its types' tags. What the rules change in the object they change in obj.
func check[I, V any, P object[V]](obj, old P, subresource string, rules func(obj, old *I) field.ErrorList) field.ErrorList {
	var internal, internalOld *I
	internal = new(I)
	if err := Scheme.Convert(obj, internal, nil); err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	var errs field.ErrorList
	if old != nil {
		internalOld = new(I)
		if err := Scheme.Convert(old, internalOld, nil); err != nil {
			return field.ErrorList{field.InternalError(nil, err)}
		}
		errs = metadataUpdate(obj, old)
	}
	errs = append(errs, rules(internal, internalOld)...)
	back := new(V)
	if err := Scheme.Convert(internal, back, nil); err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	*obj = *back
	errs = withGenerated(obj, old, subresource, errs)
	if old == nil && len(errs) == 0 {
		return metadata(obj)
	}
	return errs
}

// metadata holds every kind to what metadata may say at all. Most kinds have stricter rules of their own, but not all.
func metadata(obj metav1.Object) field.ErrorList {
	return metav1validation.ValidateObjectMetaAccessor(obj, obj.GetNamespace() != "", pathSegment, field.NewPath("metadata"))
}

// metadataUpdate holds every kind to what metadata may change at all.
func metadataUpdate(obj, old metav1.Object) field.ErrorList {
	return append(metadata(obj), metav1validation.ValidateObjectMetaAccessorUpdate(obj, old, field.NewPath("metadata"))...)
}

func pathSegment(name string, prefix bool) []string {
	if prefix {
		return content.IsPathSegmentPrefix(name)
	}
	return content.IsPathSegmentName(name)
}

// withGenerated adds the errors of the generated validation, and leaves out written ones that say the same.
func withGenerated[V any, P object[V]](obj, old P, subresource string, errs field.ErrorList) field.ErrorList {
	ctx := context.Background()
	var subresources []string
	if subresource != "" {
		subresources = []string{subresource}
	}
	options := map[string]bool{
		string(features.InPlacePodVerticalScalingSchedulerPreemption): utilfeature.DefaultFeatureGate.Enabled(features.InPlacePodVerticalScalingSchedulerPreemption),
	}
	var generated field.ErrorList
	if old == nil {
		generated = Scheme.Validate(ctx, options, obj, subresources...)
	} else {
		generated = Scheme.ValidateUpdate(ctx, options, obj, old, subresources...)
	}
	if len(errs) == 0 && len(generated) == 0 {
		return nil
	}
	enforced := validate.FilterEnforcedDeclarativeErrors(ctx, generated, true)
	return append(validate.FilterCoveredHandwrittenErrors(ctx, errs.MarkFromImperative(), enforced, true), enforced...)
}
