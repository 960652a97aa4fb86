// Package upstream is Kubernetes' own code as this project uses it: types with their codecs, defaults, validation, field
// labels and table columns. It is the only importer of k8s.io/kubernetes, whose authors promise nothing to importers:
// whoever wants to replace that module rewrites this package alone.
//
// Objects go in and out in the versions served (v1). Upstream's rules work on its internal forms; the functions here convert,
// which is cheap because both forms share their memory.
package upstream

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/kubernetes/pkg/apis/coordination"
	coordinationv1 "k8s.io/kubernetes/pkg/apis/coordination/v1"
	"k8s.io/kubernetes/pkg/apis/core"
	corev1 "k8s.io/kubernetes/pkg/apis/core/v1"
)

// Scheme knows the types served, those of meta.k8s.io/v1, their defaults, conversions and field labels, and nothing else.
var Scheme = newScheme()

// Codecs decode and encode JSON, YAML and protobuf. Their StrictSerializers return, beside the object, errors about unknown
// and repeated fields that runtime.IsStrictDecodingError knows.
var Codecs = serializer.NewCodecFactory(Scheme)

// Protobuf encodes an object whose apiVersion and kind are set, in the envelope that clients of Kubernetes expect.
var Protobuf runtime.Serializer = protobuf.NewSerializer(Scheme, Scheme)

func newScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		core.AddToScheme, corev1.AddToScheme,
		coordination.AddToScheme, coordinationv1.AddToScheme,
		metav1.AddMetaToScheme,
	} {
		utilruntime.Must(add(s))
	}
	// Status and its like have no group of their own on the wire.
	metav1.AddToGroupVersion(s, schema.GroupVersion{Version: "v1"})
	return s
}

// Default fills in what the object leaves open, in place.
func Default(obj runtime.Object) { Scheme.Default(obj) }

// FieldLabel checks one term of a field selector and returns it in the current spelling.
func FieldLabel(kind schema.GroupVersionKind, label, value string) (string, string, error) {
	return Scheme.ConvertFieldLabel(kind, label, value)
}
