package lifecycle_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"edgepod/server/agent/lifecycle"
)

var update = flag.Bool("update", false, "rewrite want.txt of the cases")

// caseNow is the time of every case.
var caseNow = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

var testNode = lifecycle.Node{
	HostIP:  "192.0.2.1",
	Restart: lifecycle.Backoff{Initial: 10 * time.Second, Max: 300 * time.Second, Reset: 10 * time.Minute},
	Image:   lifecycle.Backoff{Initial: 10 * time.Second, Max: 300 * time.Second, Reset: 10 * time.Minute},
	Retry:   10 * time.Second,
}

// transient is what seen.yaml says beside what a checkpoint holds.
type transient struct {
	Halting  bool              `json:"halting"`
	Busy     []string          `json:"busy"`     // "volumes", "sandbox", "release"
	Pulling  []string          `json:"pulling"`  // containers
	Starting []string          `json:"starting"` // containers
	StopBy   map[string]string `json:"stopBy"`   // container to the time
}

func TestPlanCases(t *testing.T) {
	files, err := filepath.Glob("testdata/plan/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("cases: %v, %v", files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			parts := map[string]*txtar.File{}
			for i := range archive.Files {
				parts[archive.Files[i].Name] = &archive.Files[i]
			}
			pod, seen := readCase(t, parts["pod.yaml"].Data, parts["seen.yaml"].Data)
			got := show(lifecycle.Plan(pod, seen, caseNow))
			if *update {
				parts["want.txt"].Data = []byte(got)
				if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(parts["want.txt"].Data), got); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

// readCase reads a case. A pod.yaml without content is a pod that is gone.
func readCase(t *testing.T, podYAML, seenYAML []byte) (*corev1.Pod, lifecycle.Observed) {
	t.Helper()
	seen := lifecycle.Observed{}
	var more transient
	data, err := yaml.YAMLToJSON(seenYAML)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &seen); err != nil {
		t.Fatalf("seen.yaml: %v", err)
	}
	if err := json.Unmarshal(data, &more); err != nil {
		t.Fatalf("seen.yaml: %v", err)
	}
	apply(t, &seen, more)
	if len(strings.TrimSpace(string(podYAML))) == 0 {
		return nil, seen
	}
	pod := &corev1.Pod{}
	if err := yaml.UnmarshalStrict(podYAML, pod); err != nil {
		t.Fatalf("pod.yaml: %v", err)
	}
	pod.Namespace, pod.UID = "default", "u-1"
	return pod, seen
}

func apply(t *testing.T, seen *lifecycle.Observed, more transient) {
	t.Helper()
	seen.Node, seen.Halting = testNode, more.Halting
	for _, name := range more.Busy {
		switch name {
		case "volumes":
			seen.Volumes.Busy = true
		case "sandbox":
			seen.Sandbox.Busy = true
		case "release":
			seen.Release.Busy = true
		}
	}
	for _, name := range more.Pulling {
		seen.Container(name).Pull.Busy = true
	}
	for _, name := range more.Starting {
		seen.Container(name).Starting = true
	}
	for name, text := range more.StopBy {
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		seen.Container(name).StopBy = at
	}
}

// show prints a step as the cases have it.
func show(step lifecycle.Step) string {
	var out strings.Builder
	st := step.Status
	fmt.Fprintf(&out, "phase %s", st.Phase)
	if st.Reason != "" {
		fmt.Fprintf(&out, " (%s: %s)", st.Reason, st.Message)
	}
	fmt.Fprintf(&out, "\n")
	for _, c := range st.Conditions {
		fmt.Fprintf(&out, "condition %s %s", c.Type, c.Status)
		if c.Reason != "" {
			fmt.Fprintf(&out, " %s", c.Reason)
		}
		if c.Message != "" {
			fmt.Fprintf(&out, ": %s", c.Message)
		}
		fmt.Fprintf(&out, " since %s\n", c.LastTransitionTime.UTC().Format(time.TimeOnly))
	}
	for _, cs := range st.InitContainerStatuses {
		fmt.Fprintf(&out, "init %s\n", showContainer(cs))
	}
	for _, cs := range st.ContainerStatuses {
		fmt.Fprintf(&out, "container %s\n", showContainer(cs))
	}
	for _, a := range step.Actions {
		fmt.Fprintf(&out, "do %s\n", a)
	}
	if !step.Wake.IsZero() {
		fmt.Fprintf(&out, "wake in %s\n", step.Wake.Sub(caseNow))
	}
	return out.String()
}

func showContainer(cs corev1.ContainerStatus) string {
	text := fmt.Sprintf("%s: %s", cs.Name, showState(cs.State))
	if cs.LastTerminationState != (corev1.ContainerState{}) {
		text += ", before: " + showState(cs.LastTerminationState)
	}
	return text + fmt.Sprintf(", restarts %d, ready %t, id %s", cs.RestartCount, cs.Ready, cs.ContainerID)
}

func showState(s corev1.ContainerState) string {
	switch {
	case s.Running != nil:
		return "running since " + s.Running.StartedAt.UTC().Format(time.TimeOnly)
	case s.Terminated != nil:
		text := fmt.Sprintf("terminated %s %d", s.Terminated.Reason, s.Terminated.ExitCode)
		if s.Terminated.Message != "" {
			text += " (" + s.Terminated.Message + ")"
		}
		return text
	case s.Waiting != nil && s.Waiting.Message != "":
		return fmt.Sprintf("waiting %s (%s)", s.Waiting.Reason, s.Waiting.Message)
	case s.Waiting != nil:
		return "waiting " + s.Waiting.Reason
	}
	return "unknown"
}
