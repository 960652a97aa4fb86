package upstream

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	podutil "k8s.io/kubernetes/pkg/api/pod"
	podv1 "k8s.io/kubernetes/pkg/api/v1/pod"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/core/helper/qos"
	"k8s.io/kubernetes/pkg/apis/core/validation"
)

// PodCreate validates a new pod, clears fields of features that are off, completes resources of the pod as a whole and
// sets status.qosClass. The warnings are upstream's own about the pod's fields.
func PodCreate(pod *corev1.Pod) (field.ErrorList, []string) {
	var warnings []string
	errs := check(pod, nil, "", func(pod, _ *core.Pod) field.ErrorList {
		podutil.DropDisabledPodFields(pod, nil)
		podutil.DefaultPodLevelResources(pod)
		pod.Status.QOSClass = qos.GetPodQOS(pod)
		warnings = podWarnings(pod)
		return validation.ValidatePodCreate(pod, podOptions(pod, nil))
	})
	return errs, warnings
}

// PodRefersTo tells whether the pod names the secret or the config map, by the resource's plural, which its node must be able to
// read then.
func PodRefersTo(pod *corev1.Pod, resource, name string) bool {
	found := false // by some of the references, upstream's own answers do not go by what the visitor says
	visit := func(referred string) bool {
		found = found || referred == name
		return !found
	}
	switch resource {
	case "secrets":
		podv1.VisitPodSecretNames(pod, visit)
	case "configmaps":
		podv1.VisitPodConfigmapNames(pod, visit)
	}
	return found
}

// PodUpdate validates a change of a pod.
func PodUpdate(pod, old *corev1.Pod) field.ErrorList {
	return check(pod, old, "", func(pod, old *core.Pod) field.ErrorList {
		podutil.DropDisabledPodFields(pod, old)
		return validation.ValidatePodUpdate(pod, old, podOptions(pod, old))
	})
}

// PodMetadata validates a change of a pod that touches neither its spec nor its status, and finds what PodUpdate would find: a
// spec that was valid and is the same is not looked at again.
func PodMetadata(pod, old *corev1.Pod) field.ErrorList {
	path := field.NewPath("metadata")
	errs := metadataUpdate(pod, old)
	errs = append(errs, validation.ValidateObjectMetaUpdate(&pod.ObjectMeta, &old.ObjectMeta, path)...)
	errs = append(errs, validation.ValidateObjectMeta(&pod.ObjectMeta, true, validation.ValidatePodName, path)...)
	if len(pod.Annotations) > 0 || len(old.Annotations) > 0 {
		errs = append(errs, podAnnotations(pod, old, path.Child("annotations"))...)
	}
	bare := &corev1.Pod{TypeMeta: pod.TypeMeta, ObjectMeta: pod.ObjectMeta}
	bareOld := &corev1.Pod{TypeMeta: old.TypeMeta, ObjectMeta: old.ObjectMeta}
	return withGenerated(bare, bareOld, "", errs)
}

// podAnnotations validates those annotations that mean something to pods.
func podAnnotations(pod, old *corev1.Pod, path *field.Path) field.ErrorList {
	var internal, internalOld core.Pod
	if err := errors.Join(Scheme.Convert(pod, &internal, nil), Scheme.Convert(old, &internalOld, nil)); err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	options := podOptions(&internal, &internalOld)
	errs := validation.ValidatePodSpecificAnnotations(internal.Annotations, &internal.Spec, path, options)
	return append(errs, validation.ValidatePodSpecificAnnotationUpdates(&internal, &internalOld, path, options)...)
}

// PodStatus validates a change of a pod's status.
func PodStatus(pod, old *corev1.Pod) field.ErrorList {
	return check(pod, old, "status", func(pod, old *core.Pod) field.ErrorList {
		podutil.DropDisabledPodFields(pod, old)
		return validation.ValidatePodStatusUpdate(pod, old, podOptions(pod, old))
	})
}

// Binding validates what binds a pod to a node.
func Binding(binding *corev1.Binding) field.ErrorList {
	return check(binding, nil, "", func(binding, _ *core.Binding) field.ErrorList {
		return validation.ValidatePodBinding(binding)
	})
}

// PodLogOptions validates the query of pods/log.
func PodLogOptions(options *corev1.PodLogOptions) field.ErrorList {
	var internal core.PodLogOptions
	if err := Scheme.Convert(options, &internal, nil); err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	return validation.ValidatePodLogOptions(&internal, true)
}

func podOptions(pod, old *core.Pod) validation.PodValidationOptions {
	var options validation.PodValidationOptions
	if old == nil {
		options = podutil.GetValidationOptionsFromPodSpecAndMeta(&pod.Spec, nil, &pod.ObjectMeta, nil)
	} else {
		options = podutil.GetValidationOptionsFromPodSpecAndMeta(&pod.Spec, &old.Spec, &pod.ObjectMeta, &old.ObjectMeta)
	}
	options.ResourceIsPod = true
	return options
}

func podWarnings(pod *core.Pod) []string {
	var warnings []string
	if msgs := utilvalidation.IsDNS1123Label(pod.Name); len(msgs) != 0 {
		warnings = append(warnings, fmt.Sprintf("metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is recommended: %v", msgs))
	}
	return append(warnings, podutil.GetWarningsForPod(context.Background(), pod, nil)...)
}
