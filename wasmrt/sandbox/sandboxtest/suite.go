package sandboxtest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"edgepod/wasmrt/sandbox"
)

// Subject is a runtime under test.
type Subject struct {
	Runtime sandbox.Runtime
	// Image is a reference to a guest that does what its arguments after the first say:
	//
	//	exit CODE      end with the code
	//	print OUT ERR  write a line to standard output, a text to standard error, and end
	//	sleep          run until it is stopped
	//	loop           run without ever making a system call
	Image string
	// Reopen returns a new runtime on the same state, as after a restart. The old one is closed.
	Reopen func(*testing.T) sandbox.Runtime
}

// Run tests what every runtime promises. newSubject is called for each test and cleans up with it.
func Run(t *testing.T, newSubject func(*testing.T) *Subject) {
	for name, test := range map[string]func(*testing.T, *Subject){
		"PullGivesADigestAndRemembers":          testPull,
		"ImagesAreListedAndCollectedUnlessUsed": testImages,
		"CreateTwiceIsOneSandbox":               testCreate,
		"ContainerRunsToItsEnd":                 testEnds,
		"StopEndsWithTheStopSignal":             testStop,
		"StopWithoutGraceKills":                 testKill,
		"ChangedWakesAtTheEnd":                  testChanged,
		"StartRefusesWhatIsWrong":               testStartErrors,
		"ForgetTakesEndedAttemptsOnly":          testForget,
		"StatsAreOfRunningContainers":           testStats,
		"RemoveKillsAndMayBeRepeated":           testRemove,
		"EverythingIsFoundAgainAfterRestart":    testReopen,
		"OutputIsInTheLog":                      testLog,
	} {
		t.Run(name, func(t *testing.T) {
			s := newSubject(t)
			defer s.clear(t)
			test(t, s)
		})
	}
}

// clear removes every sandbox that a test has left.
func (s *Subject) clear(t *testing.T) {
	all, err := s.Runtime.List(context.Background())
	if err != nil {
		t.Error(err)
	}
	for _, box := range all {
		if err := box.Remove(context.Background()); err != nil {
			t.Error(err)
		}
	}
}

// patience is how long the suite waits for what should come at once.
const patience = time.Minute

func (s *Subject) create(t *testing.T, id string) sandbox.Sandbox {
	t.Helper()
	box, err := s.Runtime.Create(t.Context(), sandbox.Spec{
		ID: id, Namespace: "default", Name: "pod-" + id, Hostname: "pod-" + id, Annotations: map[string]string{"key": id},
	})
	if err != nil {
		t.Fatalf("create %s: %v", id, err)
	}
	return box
}

func (s *Subject) spec(t *testing.T, id string, words ...string) sandbox.ContainerSpec {
	t.Helper()
	img, err := s.Runtime.Pull(t.Context(), sandbox.PullRequest{Ref: s.Image, Policy: sandbox.PullIfNotPresent})
	if err != nil {
		t.Fatalf("pull %s: %v", s.Image, err)
	}
	return sandbox.ContainerSpec{
		ID: id, Name: "c", Image: s.Image, Digest: img.Digest, Args: append([]string{"guest"}, words...),
		Limits: sandbox.Limits{Memory: 64 << 20},
		Log:    sandbox.Log{Path: filepath.Join(t.TempDir(), "0.log")},
	}
}

func (s *Subject) start(t *testing.T, box sandbox.Sandbox, id string, words ...string) sandbox.Status {
	t.Helper()
	spec := s.spec(t, id, words...)
	st, err := box.Start(t.Context(), spec)
	if err != nil {
		t.Fatalf("start %s: %v", id, err)
	}
	if st.ID != id || st.Name != "c" || st.PID == 0 || st.StartTick == 0 || st.StartedAt.IsZero() || st.Digest != spec.Digest {
		t.Errorf("status of %s after Start: %+v", id, st)
	}
	return st
}

func await(t *testing.T, box sandbox.Sandbox, id string) sandbox.Exit {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		changed := box.Changed()
		st, ok := status(t, box, id)
		if ok && st.State == sandbox.StateExited {
			if st.Exit == nil {
				t.Fatalf("%s has ended without an exit", id)
			}
			return *st.Exit
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatalf("%s did not end: %+v", id, st)
		}
	}
}

func status(t *testing.T, box sandbox.Sandbox, id string) (sandbox.Status, bool) {
	t.Helper()
	all, err := box.Status(t.Context())
	if err != nil {
		t.Fatalf("status: %v", err)
	}
	for _, st := range all {
		if st.ID == id {
			return st, true
		}
	}
	return sandbox.Status{}, false
}

func testPull(t *testing.T, s *Subject) {
	fetched := 0
	first, err := s.Runtime.Pull(t.Context(), sandbox.PullRequest{Ref: s.Image, Policy: sandbox.PullAlways, Fetched: func() { fetched++ }})
	if err != nil || fetched != 1 {
		t.Fatalf("pull: %v; told %d times that the module is here", err, fetched)
	}
	second, err := s.Runtime.Pull(t.Context(), sandbox.PullRequest{Ref: s.Image, Policy: sandbox.PullIfNotPresent})
	if err != nil {
		t.Fatal(err)
	}
	const digestLength = len("sha256:") + 64
	if len(first.Digest) != digestLength || first.Digest != second.Digest || first.Ref != s.Image || first.Size <= 0 {
		t.Errorf("pulled twice: %+v and %+v", first, second)
	}
	if !second.Cached || second.Compiled {
		t.Errorf("second pull: %+v, want cached and not compiled", second)
	}
}

func testCreate(t *testing.T, s *Subject) {
	one := s.create(t, "u1")
	again := s.create(t, "u1")
	s.create(t, "u2")
	if one != again {
		t.Error("creating a sandbox twice gave two")
	}
	if spec := one.Spec(); spec.ID != "u1" || spec.Name != "pod-u1" || spec.Annotations["key"] != "u1" {
		t.Errorf("spec: %+v", spec)
	}
	all, err := s.Runtime.List(t.Context())
	if err != nil || len(all) != 2 {
		t.Errorf("list: %v, %v; want two", all, err)
	}
	if st, err := one.Status(t.Context()); err != nil || len(st) != 0 {
		t.Errorf("status of an empty sandbox: %v, %v", st, err)
	}
}

func testEnds(t *testing.T, s *Subject) {
	box := s.create(t, "u1")
	for id, want := range map[string]sandbox.Exit{
		"zero": {Code: 0, Reason: sandbox.ReasonCompleted},
		"one":  {Code: 1, Reason: sandbox.ReasonError},
		"big":  {Code: 255, Reason: sandbox.ReasonError},
	} {
		st := s.start(t, box, id, "exit", map[string]string{"zero": "0", "one": "1", "big": "255"}[id])
		exit := await(t, box, id)
		if exit.Code != want.Code || exit.Reason != want.Reason || exit.Signal != 0 {
			t.Errorf("%s: %+v, want %+v", id, exit, want)
		}
		if !exit.StartedAt.Equal(st.StartedAt) || exit.FinishedAt.Before(exit.StartedAt) {
			t.Errorf("%s: times %+v, started %s", id, exit, st.StartedAt)
		}
	}
}

func testStop(t *testing.T, s *Subject) {
	box := s.create(t, "u1")
	s.start(t, box, "c-0", "sleep")
	if st, _ := status(t, box, "c-0"); st.State != sandbox.StateRunning || st.Exit != nil {
		t.Errorf("before Stop: %+v", st)
	}
	if err := box.Stop(t.Context(), "c-0", patience); err != nil {
		t.Fatal(err)
	}
	if st, ok := status(t, box, "c-0"); !ok || st.Exit == nil || st.Exit.Code != 143 {
		t.Errorf("after Stop: %+v, want an end with 143", st)
	}
	if err := box.Stop(t.Context(), "c-0", patience); err != nil {
		t.Errorf("second Stop: %v", err)
	}
	if err := box.Stop(t.Context(), "nobody", 0); !errors.Is(err, sandbox.ErrNotFound) {
		t.Errorf("Stop of an unknown container: %v, want ErrNotFound", err)
	}
}

func testKill(t *testing.T, s *Subject) {
	box := s.create(t, "u1")
	s.start(t, box, "c-0", "loop")
	if err := box.Stop(t.Context(), "c-0", 0); err != nil {
		t.Fatal(err)
	}
	if exit := await(t, box, "c-0"); exit.Code != 137 || exit.Signal != 9 || exit.Reason != sandbox.ReasonError {
		t.Errorf("killed: %+v, want 137, signal 9, Error", exit)
	}
}

func testChanged(t *testing.T, s *Subject) {
	box := s.create(t, "u1")
	s.start(t, box, "c-0", "sleep")
	changed := box.Changed()
	select {
	case <-changed:
		t.Error("Changed woke without a change")
	default:
	}
	if err := box.Stop(t.Context(), "c-0", 0); err != nil {
		t.Fatal(err)
	}
	select {
	case <-changed:
	case <-time.After(patience):
		t.Error("Changed did not wake at the container's end")
	}
}

func testStartErrors(t *testing.T, s *Subject) {
	box := s.create(t, "u1")
	s.start(t, box, "c-0", "sleep")
	var start *sandbox.StartError
	if _, err := box.Start(t.Context(), s.spec(t, "c-0", "sleep")); !errors.As(err, &start) {
		t.Errorf("second start of an id: %v, want a StartError", err)
	}
	if _, err := box.Start(t.Context(), s.spec(t, "", "sleep")); !errors.As(err, &start) {
		t.Errorf("start without an id: %v, want a StartError", err)
	}
	if all, err := box.Status(t.Context()); err != nil || len(all) != 1 {
		t.Errorf("status: %+v, %v; want the one that runs", all, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := box.Start(ctx, s.spec(t, "c-1", "sleep")); !errors.Is(err, context.Canceled) {
		t.Errorf("start with a cancelled context: %v", err)
	}
}

func testForget(t *testing.T, s *Subject) {
	box := s.create(t, "u1")
	s.start(t, box, "c-0", "exit", "0")
	await(t, box, "c-0")
	s.start(t, box, "c-1", "sleep")
	all, err := box.Status(t.Context())
	if err != nil || len(all) != 2 || all[0].ID != "c-0" || all[1].ID != "c-1" {
		t.Errorf("status: %+v, %v; want c-0 and c-1 in this order", all, err)
	}
	if err := box.Forget(t.Context(), "c-1"); err == nil {
		t.Error("a running container was forgotten")
	}
	for range 2 {
		if err := box.Forget(t.Context(), "c-0"); err != nil {
			t.Errorf("forget: %v", err)
		}
	}
	if _, ok := status(t, box, "c-0"); ok {
		t.Error("the forgotten container is still there")
	}
}

func testStats(t *testing.T, s *Subject) {
	box := s.create(t, "u1")
	s.start(t, box, "c-0", "loop")
	stats, err := box.Stats(t.Context(), "c-0")
	if err != nil || stats.Memory <= 0 || stats.PIDs <= 0 || stats.At.IsZero() {
		t.Errorf("stats: %+v, %v", stats, err)
	}
	if err := box.Stop(t.Context(), "c-0", 0); err != nil {
		t.Fatal(err)
	}
	await(t, box, "c-0")
	if _, err := box.Stats(t.Context(), "c-0"); !errors.Is(err, sandbox.ErrNotFound) {
		t.Errorf("stats of an ended container: %v, want ErrNotFound", err)
	}
}

func testRemove(t *testing.T, s *Subject) {
	box := s.create(t, "u1")
	s.start(t, box, "c-0", "sleep")
	for range 2 {
		if err := box.Remove(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if all, err := s.Runtime.List(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("list after Remove: %v, %v", all, err)
	}
	if _, err := box.Start(t.Context(), s.spec(t, "c-1", "sleep")); err == nil {
		t.Error("a removed sandbox started a container")
	}
	s.create(t, "u1") // its name is free again
}

func testReopen(t *testing.T, s *Subject) {
	box := s.create(t, "u1")
	s.start(t, box, "done", "exit", "3")
	await(t, box, "done")
	before := s.start(t, box, "runs", "sleep")
	s.Runtime = s.Reopen(t)
	all, err := s.Runtime.List(t.Context())
	if err != nil || len(all) != 1 || all[0].Spec().ID != "u1" || all[0].Spec().Annotations["key"] != "u1" {
		t.Fatalf("list: %v, %v", all, err)
	}
	box = all[0]
	if exit := await(t, box, "done"); exit.Code != 3 {
		t.Errorf("ended before: %+v, want code 3", exit)
	}
	st, ok := status(t, box, "runs")
	if !ok || st.State != sandbox.StateRunning || st.PID != before.PID || st.StartTick != before.StartTick || !st.StartedAt.Equal(before.StartedAt) {
		t.Errorf("runs: %+v, want %+v", st, before)
	}
	if err := box.Stop(t.Context(), "runs", patience); err != nil {
		t.Fatal(err)
	}
	if exit := await(t, box, "runs"); exit.Code != 143 {
		t.Errorf("stopped after the restart: %+v, want 143", exit)
	}
}

func testLog(t *testing.T, s *Subject) {
	box := s.create(t, "u1")
	spec := s.spec(t, "c-0", "print", "to the output", "to the errors")
	if _, err := box.Start(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	await(t, box, "c-0")
	data, err := os.ReadFile(spec.Log.Path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{" stdout F to the output\n", " to the errors"} {
		if !strings.Contains(string(data), want) {
			t.Errorf("log %q, want %q in it", data, want)
		}
	}
	for line := range strings.Lines(string(data)) {
		stamp, _, _ := strings.Cut(line, " ")
		if _, err := time.Parse(time.RFC3339Nano, stamp); err != nil {
			t.Errorf("log line %q: %v", line, err)
		}
	}
}
