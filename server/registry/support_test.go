package registry

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/google/go-cmp/cmp"
)

// TestSupportSpeaksOfEveryField holds the table to the types: a field that a new version of Kubernetes brings must be judged.
func TestSupportSpeaksOfEveryField(t *testing.T) {
	for path, typ := range map[string]reflect.Type{
		"spec":                                           reflect.TypeFor[corev1.PodSpec](),
		"spec.containers[]":                              reflect.TypeFor[corev1.Container](),
		"spec.securityContext":                           reflect.TypeFor[corev1.PodSecurityContext](),
		"spec.containers[].securityContext":              reflect.TypeFor[corev1.SecurityContext](),
		"spec.containers[].env[].valueFrom":              reflect.TypeFor[corev1.EnvVarSource](),
		"spec.volumes[]":                                 reflect.TypeFor[corev1.VolumeSource](),
		"spec.volumes[].projected.sources[]":             reflect.TypeFor[corev1.VolumeProjection](),
		"spec.affinity":                                  reflect.TypeFor[corev1.Affinity](),
		"spec.affinity.podAffinity":                      reflect.TypeFor[corev1.PodAffinity](),
		"spec.affinity.podAntiAffinity":                  reflect.TypeFor[corev1.PodAntiAffinity](),
		"spec.containers[].securityContext.capabilities": reflect.TypeFor[corev1.Capabilities](),
	} {
		for field := range typ.Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			spoken := slices.ContainsFunc(Support(), func(row SupportRow) bool {
				return row.Path == path+"."+name || strings.HasPrefix(row.Path, path+"."+name+".") || strings.HasPrefix(row.Path, path+"."+name+"[]")
			})
			if !spoken {
				t.Errorf("no row about %s.%s", path, name)
			}
		}
	}
}

func TestSupportRowsAreWellFormed(t *testing.T) {
	seen := map[string]bool{}
	for _, row := range Support() {
		key := row.Path + " " + strings.Join(row.Values, ",")
		if seen[key] {
			t.Errorf("%s has two rows", key)
		}
		seen[key] = true
		if row.Level != Supported && row.Text == "" {
			t.Errorf("%s is %s without a reason", row.Path, row.Level)
		}
		newProbe(row, reflect.TypeFor[corev1.Pod]())
	}
}

func TestWhatIsNotSupportedIsSaid(t *testing.T) {
	f := newFixture(t)
	pod := newPod("p")
	main := &pod.Spec.Containers[0]
	main.LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"true"}}}}
	main.Ports = []corev1.ContainerPort{{ContainerPort: 80}, {ContainerPort: 81, HostPort: 81}}
	main.SecurityContext = &corev1.SecurityContext{
		RunAsUser: new(int64(1000)), Privileged: new(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
	main.Resources.Limits = corev1.ResourceList{corev1.ResourceEphemeralStorage: resource.MustParse("1Gi")}
	pod.Spec.Volumes = []corev1.Volume{
		{Name: "disk", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		{Name: "memory", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}},
	}
	pod.Spec.AutomountServiceAccountToken = new(false)
	result, err := f.Create(context.Background(), f.res("pods"), CreateRequest{Object: pod})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"spec.containers[0].ports[1].hostPort: ports of the node are not opened yet: the pod's containers alone reach the port",
		"spec.containers[0].resources.limits.ephemeral-storage: limits of storage are not enforced yet",
		"spec.containers[0].livenessProbe: probes are not run yet: the container counts as alive while it runs",
		"spec.containers[0].securityContext.runAsUser: WASI has no users: edgepod chooses an unprivileged one for the process",
		"spec.volumes[1].emptyDir.medium: the folder is on disk",
	}
	if diff := cmp.Diff(want, result.Warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

func TestWhatMayNotBeIgnoredIsRefused(t *testing.T) {
	look := podSupport(unsupported)
	tests := []struct {
		path string
		edit func(*corev1.PodSpec)
	}{
		{"spec.hostPID", func(s *corev1.PodSpec) { s.HostPID = true }},
		{"spec.os.name", func(s *corev1.PodSpec) { s.OS = &corev1.PodOS{Name: corev1.Windows} }},
		{"spec.initContainers[1].volumeDevices", func(s *corev1.PodSpec) {
			s.InitContainers = []corev1.Container{{}, {VolumeDevices: []corev1.VolumeDevice{{Name: "d"}}}}
		}},
		{"spec.containers[1].volumeDevices", func(s *corev1.PodSpec) {
			s.Containers = append(s.Containers, corev1.Container{VolumeDevices: []corev1.VolumeDevice{{Name: "d"}}})
		}},
		{"spec.containers[0].securityContext.privileged", func(s *corev1.PodSpec) {
			s.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: new(true)}
		}},
		{"spec.containers[0].env[1].valueFrom.fileKeyRef", func(s *corev1.PodSpec) {
			s.Containers[0].Env = []corev1.EnvVar{{Name: "A"}, {Name: "B", ValueFrom: &corev1.EnvVarSource{FileKeyRef: &corev1.FileKeySelector{}}}}
		}},
		{"spec.containers[0].ports[1].protocol", func(s *corev1.PodSpec) {
			s.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 1}, {ContainerPort: 2, Protocol: corev1.ProtocolSCTP}}
		}},
		{"spec.volumes[1].nfs", func(s *corev1.PodSpec) {
			s.Volumes = []corev1.Volume{{}, {VolumeSource: corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{}}}}
		}},
		{"spec.volumes[0].projected.sources[1].serviceAccountToken", func(s *corev1.PodSpec) {
			s.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
				Sources: []corev1.VolumeProjection{{}, {ServiceAccountToken: &corev1.ServiceAccountTokenProjection{}}},
			}}}}
		}},
		{"spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution", func(s *corev1.PodSpec) {
			s.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{}}}}
		}},
	}
	for _, test := range tests {
		pod := newPod("p")
		test.edit(&pod.Spec)
		v := look(pod)
		if len(v.errs) != 1 || v.errs[0].Field != test.path {
			t.Errorf("%s: got %v", test.path, v.errs)
		}
	}
	if v := look(newPod("p")); len(v.errs)+len(v.warnings) > 0 {
		t.Errorf("a plain pod: %+v", v)
	}
}

// TestRefusalsAreSaidOnce: upstream refuses privileged containers too, in words that help nobody.
func TestRefusalsAreSaidOnce(t *testing.T) {
	f, pod := newFixture(t), newPod("p")
	pod.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: new(true)}
	_, err := f.Create(context.Background(), f.res("pods"), CreateRequest{Object: pod})
	wantStatus(t, err, 422, "Invalid", `Pod "p" is invalid: spec.containers[0].securityContext.privileged: Forbidden: a WASI guest can't be privileged`)
}
