package registry

import (
	"context"
	"fmt"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/google/go-cmp/cmp"
)

func TestCreateFillsInWhatTheServerSets(t *testing.T) {
	f := newFixture(t)
	pod := newPod("web")
	pod.UID, pod.Generation, pod.SelfLink = "mine", 7, "/mine"
	pod.CreationTimestamp = metav1.Unix(1, 0)
	pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = new(metav1.Unix(2, 0)), new(int64(3))
	pod.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "me"}}
	pod.Status.Phase = corev1.PodRunning
	got := f.create("pods", pod).Runtime().(*corev1.Pod)

	if got.UID == "" || got.UID == "mine" {
		t.Errorf("uid is %q, want one that the server made", got.UID)
	}
	if !got.CreationTimestamp.Time.Equal(f.now) {
		t.Errorf("creationTimestamp is %v, want %v", got.CreationTimestamp, f.now)
	}
	if got.DeletionTimestamp != nil || got.DeletionGracePeriodSeconds != nil || got.SelfLink != "" || got.ManagedFields != nil {
		t.Errorf("kept what only the server sets: %+v", got.ObjectMeta)
	}
	if got.Generation != 1 {
		t.Errorf("generation is %d, want 1", got.Generation)
	}
	if got.Kind != "Pod" || got.APIVersion != "v1" || got.ResourceVersion == "" {
		t.Errorf("kind %q, apiVersion %q, resourceVersion %q", got.Kind, got.APIVersion, got.ResourceVersion)
	}
	want := corev1.PodStatus{Phase: corev1.PodPending, QOSClass: corev1.PodQOSBestEffort}
	if diff := cmp.Diff(want, got.Status); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
}

func TestCreateAdmitsPodsAsKubernetesDoes(t *testing.T) {
	f := newFixture(t)
	got := f.create("pods", newPod("web")).Runtime().(*corev1.Pod).Spec
	lost := func(key string) corev1.Toleration {
		return corev1.Toleration{
			Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute,
			TolerationSeconds: new(int64(300)),
		}
	}
	want := corev1.PodSpec{
		Containers: []corev1.Container{{
			Name: "main", Image: "edgepod.dev/hello", ImagePullPolicy: corev1.PullAlways,
			TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: corev1.TerminationMessageReadFile,
		}},
		RestartPolicy: corev1.RestartPolicyAlways, TerminationGracePeriodSeconds: new(int64(30)),
		DNSPolicy: corev1.DNSClusterFirst, ServiceAccountName: "default", DeprecatedServiceAccount: "default",
		SecurityContext: &corev1.PodSecurityContext{}, SchedulerName: "default-scheduler",
		Tolerations: []corev1.Toleration{lost("node.kubernetes.io/not-ready"), lost("node.kubernetes.io/unreachable")},
		Priority:    new(int32(0)), PreemptionPolicy: new(corev1.PreemptLowerPriority), EnableServiceLinks: new(true),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}

	own := newPod("own")
	own.Spec.PriorityClassName = "system-node-critical"
	own.Spec.DeprecatedServiceAccount = "builder"
	own.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	own.Spec.Containers[0].Resources.Limits = corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("0.5"), corev1.ResourceMemory: resource.MustParse("64Mi"),
	}
	pod := f.create("pods", own).Runtime().(*corev1.Pod)
	if *pod.Spec.Priority != 2000001000 || pod.Spec.ServiceAccountName != "builder" || len(pod.Spec.Tolerations) != 1 {
		t.Errorf("priority %d, service account %q, tolerations %v", *pod.Spec.Priority, pod.Spec.ServiceAccountName, pod.Spec.Tolerations)
	}
	if pod.Status.QOSClass != corev1.PodQOSGuaranteed {
		t.Errorf("qosClass is %s, want Guaranteed: limits default the requests", pod.Status.QOSClass)
	}
}

func TestPodsTakeThePullSecretsOfTheirServiceAccountUnlessTheyNameTheirOwn(t *testing.T) {
	f := newFixture(t)
	f.create("serviceaccounts", &corev1.ServiceAccount{
		ObjectMeta:       metav1.ObjectMeta{Name: "builder", Namespace: "default"},
		ImagePullSecrets: []corev1.LocalObjectReference{{Name: "one"}, {Name: "two"}},
	})
	for account, want := range map[string]string{"builder": "[{one} {two}]", "default": "[]", "absent": "[]"} {
		pod := newPod(account)
		pod.Spec.ServiceAccountName = account
		got := f.create("pods", pod).Runtime().(*corev1.Pod).Spec.ImagePullSecrets
		if fmt.Sprint(got) != want {
			t.Errorf("pull secrets of a pod of account %s: %v, want %s", account, got, want)
		}
	}
	pod := newPod("own")
	pod.Spec.ServiceAccountName, pod.Spec.ImagePullSecrets = "builder", []corev1.LocalObjectReference{{Name: "mine"}}
	if got := f.create("pods", pod).Runtime().(*corev1.Pod).Spec.ImagePullSecrets; fmt.Sprint(got) != "[{mine}]" {
		t.Errorf("pull secrets of a pod with its own: %v", got)
	}
}

func TestCreateKeepsSecretsInData(t *testing.T) {
	f := newFixture(t)
	got := f.create("secrets", &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "s"},
		Data:       map[string][]byte{"a": []byte("1"), "b": []byte("1")},
		StringData: map[string]string{"b": "2"},
	}).Runtime().(*corev1.Secret)
	want := map[string][]byte{"a": []byte("1"), "b": []byte("2")}
	if diff := cmp.Diff(want, got.Data); diff != "" || got.StringData != nil || got.Type != corev1.SecretTypeOpaque {
		t.Errorf("type %q, stringData %v, data (-want +got):\n%s", got.Type, got.StringData, diff)
	}
}

func TestCreateRefuses(t *testing.T) {
	f := newFixture(t)
	f.create("configmaps", newConfigMap("taken"))
	f.create("configmaps", &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "going", Finalizers: []string{"example.com/hold"}}})
	f.delete("configmaps", "default", "going", &metav1.DeleteOptions{})
	f.create("namespaces", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "closing"}})
	f.delete("namespaces", "", "closing", &metav1.DeleteOptions{})
	edit := func(change func(*corev1.Pod)) *corev1.Pod {
		pod := newPod("p")
		change(pod)
		return pod
	}
	tests := []struct {
		name      string
		resource  string
		namespace string
		object    runtime.Object
		code      int32
		reason    metav1.StatusReason
		message   string
	}{
		{
			"a name that is taken", "configmaps", "default", newConfigMap("taken"), 409, metav1.StatusReasonAlreadyExists,
			`configmaps "taken" already exists`,
		},
		{
			"a name that is on its way out", "configmaps", "default", newConfigMap("going"), 409, metav1.StatusReasonAlreadyExists,
			`object is being deleted: configmaps "going" already exists`,
		},
		{
			"a namespace that doesn't exist", "configmaps", "nowhere", &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}}, 404, metav1.StatusReasonNotFound,
			`namespaces "nowhere" not found`,
		},
		{
			"a namespace that terminates", "configmaps", "closing", &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}}, 403, metav1.StatusReasonForbidden,
			`configmaps "c" is forbidden: unable to create new content in namespace closing because it is being terminated`,
		},
		{
			"another namespace than the request's", "configmaps", "kube-system", newConfigMap("c"), 400, metav1.StatusReasonBadRequest,
			"the namespace of the provided object does not match the namespace sent on the request",
		},
		{
			"no namespace", "configmaps", "", &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}}, 400, metav1.StatusReasonBadRequest,
			"an empty namespace may not be set during creation",
		},
		{
			"a resourceVersion", "configmaps", "default", &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c", ResourceVersion: "1"}}, 400, metav1.StatusReasonBadRequest,
			"resourceVersion should not be set on objects to be created",
		},
		{
			"another kind", "pods", "default", newConfigMap("c"), 400, metav1.StatusReasonBadRequest,
			`ConfigMap in version "v1" cannot be handled as a Pod`,
		},
		{
			"no name", "configmaps", "default", &corev1.ConfigMap{}, 422, metav1.StatusReasonInvalid,
			`ConfigMap "" is invalid: metadata.name: Required value: name or generateName is required`,
		},
		{
			"a name with a slash", "configmaps", "default", newConfigMap("a/b"), 422, metav1.StatusReasonInvalid,
			`ConfigMap "a/b" is invalid: metadata.name: Invalid value: "a/b": a lowercase RFC 1123 subdomain must consist of`,
		},
		{
			"a pod without containers", "pods", "default", edit(func(p *corev1.Pod) { p.Spec.Containers = nil }), 422, metav1.StatusReasonInvalid,
			`Pod "p" is invalid: spec.containers: Required value`,
		},
		{
			"a negative limit", "pods", "default", edit(func(p *corev1.Pod) {
				p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("-1Mi")}
			}), 422, metav1.StatusReasonInvalid,
			`Pod "p" is invalid: [spec.containers[0].resources.limits[memory]: Invalid value: "-1Mi": must be greater than or equal to 0,`,
		},
		{
			"an unknown priority class", "pods", "default", edit(func(p *corev1.Pod) { p.Spec.PriorityClassName = "gold" }), 403, metav1.StatusReasonForbidden,
			`pods "p" is forbidden: no PriorityClass with name gold was found`,
		},
		{
			"a priority of one's own", "pods", "default", edit(func(p *corev1.Pod) { p.Spec.Priority = new(int32(5)) }), 403, metav1.StatusReasonForbidden,
			`pods "p" is forbidden: the integer value of priority (5) must not be provided in pod spec; priority admission controller computed 0 from the given PriorityClass name`,
		},
		{
			"a field that may not be ignored", "pods", "default", edit(func(p *corev1.Pod) { p.Spec.HostNetwork = true }), 422, metav1.StatusReasonInvalid,
			`Pod "p" is invalid: spec.hostNetwork: Forbidden: a WASI guest has no access to the network of its host`,
		},
		{
			"a lease for no time", "leases", "default", &coordinationv1.Lease{
				ObjectMeta: metav1.ObjectMeta{Name: "l"}, Spec: coordinationv1.LeaseSpec{LeaseDurationSeconds: new(int32(0))},
			}, 422, metav1.StatusReasonInvalid, `Lease.coordination.k8s.io "l" is invalid: spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0`,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := f.Create(context.Background(), f.res(test.resource), CreateRequest{Namespace: test.namespace, Object: test.object})
			wantStatus(t, err, test.code, test.reason, test.message)
		})
	}
}

func TestTerminatingNamespaceIsTheCause(t *testing.T) {
	f := newFixture(t)
	f.create("namespaces", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "closing"}})
	f.delete("namespaces", "", "closing", &metav1.DeleteOptions{})
	_, err := f.Create(context.Background(), f.res("pods"), CreateRequest{Namespace: "closing", Object: &corev1.Pod{}})
	if !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		t.Errorf("error %v lacks the cause %s", err, corev1.NamespaceTerminatingCause)
	}
}

func TestInvalidNamesEachCause(t *testing.T) {
	f := newFixture(t)
	pod := newPod("p")
	pod.Spec.RestartPolicy = "Sometimes"
	pod.Spec.Containers[0].Name = "A"
	_, err := f.Create(context.Background(), f.res("pods"), CreateRequest{Object: pod})
	var fields []string
	for _, cause := range err.(apierrors.APIStatus).Status().Details.Causes {
		fields = append(fields, fmt.Sprintf("%s %s", cause.Type, cause.Field))
	}
	want := []string{"FieldValueInvalid spec.containers[0].name", "FieldValueNotSupported spec.restartPolicy"}
	if diff := cmp.Diff(want, fields); diff != "" {
		t.Errorf("causes of %v (-want +got):\n%s", err, diff)
	}
}

func TestGeneratedNamesAreShortAndFree(t *testing.T) {
	f := newFixture(t)
	seen := map[string]bool{}
	for range 50 {
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "job-"}}
		seen[f.create("configmaps", cm).Meta().GetName()] = true
	}
	for name := range seen {
		if len(name) != len("job-")+5 || !strings.HasPrefix(name, "job-") {
			t.Errorf("generated name %q, want job- and five characters", name)
		}
	}
	if len(seen) != 50 {
		t.Errorf("%d names for 50 objects", len(seen))
	}
	long := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: strings.Repeat("a", 100)}}
	if name := f.create("configmaps", long).Meta().GetName(); len(name) != 63 {
		t.Errorf("generated name has %d characters, want 63: %q", len(name), name)
	}
	// The label that names a namespace must know the generated name too.
	ns := f.create("namespaces", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "team-"}})
	if ns.Meta().GetLabels()["kubernetes.io/metadata.name"] != ns.Meta().GetName() {
		t.Errorf("namespace %s has labels %v", ns.Meta().GetName(), ns.Meta().GetLabels())
	}
}

func TestDryRunStoresNothing(t *testing.T) {
	f := newFixture(t)
	ctx, before := context.Background(), f.store.Revision()
	result, err := f.Create(ctx, f.res("configmaps"), CreateRequest{Object: newConfigMap("c"), DryRun: true})
	if err != nil {
		t.Fatal(err)
	}
	if meta := result.Object.Meta(); meta.GetUID() == "" || meta.GetResourceVersion() != "" || strings.Contains(string(result.Object.JSON()), "resourceVersion") {
		t.Errorf("dry run created %s", result.Object.JSON())
	}
	if f.store.Revision() != before {
		t.Error("a dry run was stored")
	}
	f.create("configmaps", newConfigMap("c"))
	before = f.store.Revision()
	_, err = f.Create(ctx, f.res("configmaps"), CreateRequest{Object: newConfigMap("c"), DryRun: true})
	wantStatus(t, err, 409, metav1.StatusReasonAlreadyExists, `configmaps "c" already exists`)
	_, err = f.Update(ctx, f.res("configmaps"), UpdateRequest{
		Namespace: "default", Name: "c", DryRun: true,
		Modify: func(live runtime.Object) (runtime.Object, error) {
			live.(*corev1.ConfigMap).Data["key"] = "other"
			return live, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	gone := f.delete("configmaps", "default", "c", &metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
	if !gone.Gone || f.store.Revision() != before || f.get("configmaps", "default", "c").Runtime().(*corev1.ConfigMap).Data["key"] != "value" {
		t.Error("a dry run changed the store, or did not say what it would have done")
	}
}

func TestSystemNamespacesExistOnce(t *testing.T) {
	f := newFixture(t)
	before := f.store.Revision()
	if _, err := New(Config{Store: f.store}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"default", "kube-system", "kube-public", "kube-node-lease"} {
		f.get("namespaces", "", name)
	}
	if f.store.Revision() != before {
		t.Error("a second registry on the same store wrote to it")
	}
}
