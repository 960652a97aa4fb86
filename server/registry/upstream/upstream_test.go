package upstream

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/google/go-cmp/cmp"
)

func pod() *corev1.Pod {
	return &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", CreationTimestamp: metav1.NewTime(time.Now().Add(-90 * time.Second))},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "a"}}},
	}
}

func TestCodecsAgree(t *testing.T) {
	want := pod()
	want.CreationTimestamp = metav1.Date(2026, 1, 2, 3, 4, 5, 0, time.Local)
	for _, media := range []string{runtime.ContentTypeJSON, runtime.ContentTypeYAML, runtime.ContentTypeProtobuf} {
		info, ok := runtime.SerializerInfoForMediaType(Codecs.SupportedMediaTypes(), media)
		if !ok {
			t.Fatalf("no serializer for %s", media)
		}
		var buf bytes.Buffer
		if err := info.Serializer.Encode(want, &buf); err != nil {
			t.Fatal(err)
		}
		got, kind, err := Codecs.UniversalDeserializer().Decode(buf.Bytes(), nil, nil)
		if err != nil || kind.Kind != "Pod" {
			t.Fatalf("%s: %v, kind %v", media, err, kind)
		}
		got.GetObjectKind().SetGroupVersionKind(*kind)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", media, diff)
		}
	}
}

func TestStrictDecodingNamesFields(t *testing.T) {
	body := []byte(`{"apiVersion":"v1","kind":"Pod","spec":{"container":[],"nodeName":"a","nodeName":"b"}}`)
	for _, media := range []string{runtime.ContentTypeJSON, runtime.ContentTypeYAML} {
		info, _ := runtime.SerializerInfoForMediaType(Codecs.SupportedMediaTypes(), media)
		_, _, err := info.StrictSerializer.Decode(body, nil, nil)
		if !runtime.IsStrictDecodingError(err) || !strings.Contains(err.Error(), `unknown field "spec.container"`) {
			t.Errorf("%s: %v", media, err)
		}
		if _, _, err := info.Serializer.Decode(body, nil, nil); media == runtime.ContentTypeJSON && err != nil {
			t.Errorf("lenient %s: %v", media, err)
		}
	}
}

func TestFieldLabels(t *testing.T) {
	tests := []struct {
		kind           schema.GroupVersionKind
		label          string
		want, complain string
	}{
		{corev1.SchemeGroupVersion.WithKind("Pod"), "spec.nodeName", "spec.nodeName", ""},
		{corev1.SchemeGroupVersion.WithKind("Pod"), "spec.host", "spec.nodeName", ""},
		{corev1.SchemeGroupVersion.WithKind("Pod"), "spec.color", "", "field label not supported: spec.color"},
		{corev1.SchemeGroupVersion.WithKind("Node"), "spec.unschedulable", "spec.unschedulable", ""},
		{corev1.SchemeGroupVersion.WithKind("Event"), "involvedObject.uid", "involvedObject.uid", ""},
		{corev1.SchemeGroupVersion.WithKind("Namespace"), "status.phase", "status.phase", ""},
		{corev1.SchemeGroupVersion.WithKind("Secret"), "type", "type", ""},
		{corev1.SchemeGroupVersion.WithKind("ConfigMap"), "metadata.name", "metadata.name", ""},
		{coordinationv1.SchemeGroupVersion.WithKind("Lease"), "type", "", `"type" is not a known field selector: only "metadata.name", "metadata.namespace"`},
	}
	for _, test := range tests {
		got, _, err := FieldLabel(test.kind, test.label, "x")
		if got != test.want || (err == nil) != (test.complain == "") || err != nil && err.Error() != test.complain {
			t.Errorf("%s %s: got %q, %v", test.kind.Kind, test.label, got, err)
		}
	}
}

func TestValidationNamesFields(t *testing.T) {
	edited := func(change func(*corev1.Pod)) *corev1.Pod {
		p := pod()
		Default(p)
		change(p)
		return p
	}
	plain := edited(func(*corev1.Pod) {})
	plain.ResourceVersion = "1"
	changed := plain.DeepCopy()
	changed.Spec.RestartPolicy = corev1.RestartPolicyNever
	badPod := edited(func(p *corev1.Pod) { p.Spec.Containers[0].ImagePullPolicy = "Sometimes" })
	badErrs, _ := PodCreate(badPod)
	_, warnings := PodCreate(edited(func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"beta.kubernetes.io/os": "linux"} }))
	if len(warnings) != 1 || !strings.Contains(warnings[0], "deprecated since v1.14") {
		t.Errorf("warnings of upstream: %q", warnings)
	}
	meta := metav1.ObjectMeta{Name: "Bad_Name", Namespace: "default"}
	for _, test := range []struct {
		name string
		errs field.ErrorList
		want string
	}{
		{"pod", badErrs, "spec.containers[0].imagePullPolicy"},
		{"pod update", PodUpdate(changed, plain), "spec"},
		{"binding", Binding(&corev1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"}, Target: corev1.ObjectReference{Kind: "Moon", Name: "x"}}), "target.kind"},
		{"log options", PodLogOptions(&corev1.PodLogOptions{Stream: new(corev1.LogStreamAll), TailLines: new(int64(-1))}), "tailLines"},
		{"namespace", NamespaceCreate(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "Bad_Name"}}), "metadata.name"},
		{"node", NodeCreate(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "Bad_Name"}}), "metadata.name"},
		{"config map", ConfigMapCreate(&corev1.ConfigMap{ObjectMeta: meta}), "metadata.name"},
		{"secret", SecretCreate(&corev1.Secret{ObjectMeta: meta, Type: corev1.SecretTypeTLS}), "metadata.name data[tls.crt] data[tls.key]"},
		{"service account", ServiceAccountCreate(&corev1.ServiceAccount{ObjectMeta: meta}), "metadata.name"},
		{"lease", LeaseCreate(&coordinationv1.Lease{ObjectMeta: meta}), "metadata.name"},
		{"event", EventCreate(&corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "e"}, InvolvedObject: corev1.ObjectReference{Namespace: "other"}}), "involvedObject.namespace"},
		{
			"event's labels", EventCreate(&corev1.Event{
				ObjectMeta:     metav1.ObjectMeta{Namespace: "default", Name: "e", Labels: map[string]string{"a b": "c"}},
				InvolvedObject: corev1.ObjectReference{Namespace: "default"},
			}), "metadata.labels",
		},
	} {
		var fields []string
		for _, err := range test.errs {
			fields = append(fields, err.Field)
		}
		if got := strings.Join(fields, " "); got != test.want {
			t.Errorf("%s: errors about %q, want %q: %v", test.name, got, test.want, test.errs)
		}
	}
}

func TestChecksDontTouchTheOldObject(t *testing.T) {
	old := pod()
	Default(old)
	old.ResourceVersion = "1"
	before := old.DeepCopy()
	obj := old.DeepCopy()
	obj.Spec.Containers[0].Image = "b"
	if errs := PodUpdate(obj, old); len(errs) > 0 {
		t.Fatal(errs)
	}
	obj.Status.Phase = corev1.PodRunning
	if errs := PodStatus(obj, old); len(errs) > 0 {
		t.Fatal(errs)
	}
	if diff := cmp.Diff(before, old); diff != "" {
		t.Errorf("the old object changed:\n%s", diff)
	}
}

func TestMetadataIsHeldToTheSameRulesWithoutTheRest(t *testing.T) {
	now := metav1.Now()
	for name, change := range map[string]func(old, p *corev1.Pod){
		"nothing":           func(_, _ *corev1.Pod) {},
		"label":             func(_, p *corev1.Pod) { p.Labels = map[string]string{"a": "b"} },
		"bad label":         func(_, p *corev1.Pod) { p.Labels = map[string]string{"a b": "c d"} },
		"bad annotation":    func(_, p *corev1.Pod) { p.Annotations = map[string]string{"a b": "c d"} },
		"uid":               func(_, p *corev1.Pod) { p.UID = "other" },
		"generateName":      func(_, p *corev1.Pod) { p.GenerateName = "Bad_" },
		"deletion cost":     func(_, p *corev1.Pod) { p.Annotations = map[string]string{corev1.PodDeletionCost: "much"} },
		"mirror":            func(_, p *corev1.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} },
		"mirror taken away": func(old, _ *corev1.Pod) { old.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} },
		"AppArmor": func(_, p *corev1.Pod) {
			p.Annotations = map[string]string{corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix + "main": "x"}
		},
		"tolerations":   func(_, p *corev1.Pod) { p.Annotations = map[string]string{corev1.TolerationsAnnotationKey: "x"} },
		"bad finalizer": func(_, p *corev1.Pod) { p.Finalizers = []string{"x"} },
		"finalizer on its way": func(old, p *corev1.Pod) {
			old.DeletionTimestamp, p.DeletionTimestamp, p.Finalizers = &now, &now, []string{"example.com/x"}
		},
		"owners": func(_, p *corev1.Pod) { p.OwnerReferences = []metav1.OwnerReference{{Kind: "x"}} },
		"two owners that control": func(_, p *corev1.Pod) {
			ref := metav1.OwnerReference{APIVersion: "v1", Kind: "A", Name: "a", UID: "1", Controller: new(true)}
			p.OwnerReferences = []metav1.OwnerReference{ref, ref}
		},
		"no version": func(_, p *corev1.Pod) { p.ResourceVersion = "" },
	} {
		old := pod()
		Default(old)
		old.ResourceVersion = "1"
		p := old.DeepCopy()
		change(old, p)
		got, want := PodMetadata(p.DeepCopy(), old), PodUpdate(p.DeepCopy(), old)
		if got.ToAggregate() == nil != (want.ToAggregate() == nil) || len(got) > 0 && got.ToAggregate().Error() != want.ToAggregate().Error() {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
}

func TestTables(t *testing.T) {
	running := pod()
	running.Status = corev1.PodStatus{
		Phase: corev1.PodRunning,
		ContainerStatuses: []corev1.ContainerStatus{{
			Name: "main", Ready: true, RestartCount: 2, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
		}},
	}
	core := corev1.SchemeGroupVersion
	meta := metav1.ObjectMeta{Namespace: "default", Name: "x"}
	for _, test := range []struct {
		kind schema.GroupVersionKind
		obj  runtime.Object
		want string
	}{
		{core.WithKind("Pod"), running, "Name=web Ready=1/1 Status=Running Restarts=2 Age=90s"},
		{core.WithKind("Namespace"), &corev1.Namespace{ObjectMeta: meta, Status: corev1.NamespaceStatus{Phase: "Active"}}, "Name=x Status=Active Age=<unknown>"},
		{core.WithKind("Node"), &corev1.Node{ObjectMeta: meta}, "Name=x Status=Unknown Roles=<none> Age=<unknown> Version="},
		{core.WithKind("ConfigMap"), &corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"a": "b"}}, "Name=x Data=1 Age=<unknown>"},
		{core.WithKind("Secret"), &corev1.Secret{ObjectMeta: meta, Type: "Opaque"}, "Name=x Type=Opaque Data=0 Age=<unknown>"},
		{core.WithKind("ServiceAccount"), &corev1.ServiceAccount{ObjectMeta: meta}, "Name=x Age=<unknown>"},
		{core.WithKind("Event"), &corev1.Event{ObjectMeta: meta, Type: "Normal", Reason: "Started", Message: "go", InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: "p"}}, "Last Seen=<unknown> Type=Normal Reason=Started Object=pod/p Message=go"},
		{coordinationv1.SchemeGroupVersion.WithKind("Lease"), &coordinationv1.Lease{ObjectMeta: meta, Spec: coordinationv1.LeaseSpec{HolderIdentity: new("me")}}, "Name=x Holder=me Age=<unknown>"},
	} {
		table, err := Table(test.kind, []runtime.Object{test.obj}, &metav1.TableOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got := narrow(table); got != test.want {
			t.Errorf("%s: got %q, want %q", test.kind.Kind, got, test.want)
		}
		partial, ok := table.Rows[0].Object.Object.(*metav1.PartialObjectMetadata)
		if !ok || partial.Kind != "PartialObjectMetadata" || partial.Name != test.obj.(metav1.Object).GetName() {
			t.Errorf("%s: row carries %+v", test.kind.Kind, table.Rows[0].Object.Object)
		}
	}
}

// narrow shows the columns of the first row that kubectl shows without -o wide.
func narrow(table *metav1.Table) string {
	var cells []string
	for i, column := range table.ColumnDefinitions {
		if column.Priority == 0 {
			cells = append(cells, column.Name+"="+strings.TrimSpace(fmt.Sprint(table.Rows[0].Cells[i])))
		}
	}
	return strings.Join(cells, " ")
}

func TestTableOptions(t *testing.T) {
	kind := corev1.SchemeGroupVersion.WithKind("Pod")
	empty, err := Table(kind, nil, &metav1.TableOptions{})
	if err != nil || len(empty.ColumnDefinitions) < 5 || len(empty.Rows) != 0 {
		t.Errorf("table of nothing: %+v, %v", empty, err)
	}
	p := pod()
	whole, err := Table(kind, []runtime.Object{p}, &metav1.TableOptions{NoHeaders: true, IncludeObject: metav1.IncludeObject})
	if err != nil || len(whole.ColumnDefinitions) != 0 || whole.Rows[0].Object.Object != runtime.Object(p) {
		t.Errorf("table with objects and without headers: %+v, %v", whole, err)
	}
	none, err := Table(kind, []runtime.Object{p}, &metav1.TableOptions{IncludeObject: metav1.IncludeNone})
	if err != nil || none.Rows[0].Object.Object != nil {
		t.Errorf("table without objects: %+v, %v", none, err)
	}
	if _, err := Table(kind, []runtime.Object{p}, &metav1.TableOptions{IncludeObject: "Some"}); err == nil {
		t.Error("an unknown includeObject is taken")
	}
}

func BenchmarkPodCreate(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		p := pod()
		Default(p)
		if errs, _ := PodCreate(p); len(errs) > 0 {
			b.Fatal(errs)
		}
	}
}

func BenchmarkTableRow(b *testing.B) {
	objects := []runtime.Object{pod()}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Table(corev1.SchemeGroupVersion.WithKind("Pod"), objects, &metav1.TableOptions{NoHeaders: true}); err != nil {
			b.Fatal(err)
		}
	}
}
