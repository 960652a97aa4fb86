package registry

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"edgepod/server/registry/upstream"
)

func events() *Resource {
	return &Resource{
		Kind: corev1.SchemeGroupVersion.WithKind("Event"),
		Name: "events", Singular: "event", ShortNames: []string{"ev"}, Namespaced: true, Verbs: verbsAll,
		New:     func() runtime.Object { return &corev1.Event{} },
		NewList: func() runtime.Object { return &corev1.EventList{} },
		rules: rules{
			create: onCreate(func(obj *corev1.Event) verdict { return verdict{errs: upstream.EventCreate(obj)} }),
			update: map[string]func(obj, old runtime.Object) verdict{
				"": onUpdate(func(obj, old *corev1.Event) verdict { return verdict{errs: upstream.EventUpdate(obj, old)} }),
			},
			field:          onField(eventField),
			createOnUpdate: true,
			ownsNothing:    true,
		},
	}
}

func eventField(event *corev1.Event, name string) string {
	switch name {
	case "involvedObject.kind":
		return event.InvolvedObject.Kind
	case "involvedObject.namespace":
		return event.InvolvedObject.Namespace
	case "involvedObject.name":
		return event.InvolvedObject.Name
	case "involvedObject.uid":
		return string(event.InvolvedObject.UID)
	case "involvedObject.apiVersion":
		return event.InvolvedObject.APIVersion
	case "involvedObject.resourceVersion":
		return event.InvolvedObject.ResourceVersion
	case "involvedObject.fieldPath":
		return event.InvolvedObject.FieldPath
	case "reason":
		return event.Reason
	case "reportingComponent":
		return event.ReportingController
	case "source":
		if event.Source.Component == "" {
			return event.ReportingController
		}
		return event.Source.Component
	case "type":
		return event.Type
	}
	return ""
}
