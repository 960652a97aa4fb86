package sandboxtest_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"edgepod/wasmrt/sandbox"
	"edgepod/wasmrt/sandbox/sandboxtest"
)

func TestFakeStopWaitsForGraceOfStubbornContainer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		f := sandboxtest.NewFake()
		f.IgnoreStop("web", true)
		s, err := f.Create(ctx, sandbox.Spec{ID: "u1"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Start(ctx, sandbox.ContainerSpec{ID: "web-0", Name: "web"}); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := s.Stop(ctx, "web-0", 30*time.Second); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != 30*time.Second {
			t.Errorf("Stop took %s, want 30s", took)
		}
		st, _ := s.Status(ctx)
		if len(st) != 1 || st[0].Exit == nil || st[0].Exit.Code != 137 || st[0].Exit.Reason != sandbox.ReasonError {
			t.Errorf("status after Stop: %+v, want one exit of code 137", st)
		}
	})
}

func TestFakeFailsAsTold(t *testing.T) {
	ctx := t.Context()
	f := sandboxtest.NewFake()
	wantPull := &sandbox.ImageError{Reason: sandbox.ReasonErrImagePull, Ref: "x", Message: "no"}
	f.FailPull("x", wantPull)
	if _, err := f.Pull(ctx, sandbox.PullRequest{Ref: "x", Policy: sandbox.PullAlways}); !errors.Is(err, error(wantPull)) {
		t.Errorf("Pull: %v, want %v", err, wantPull)
	}
	wantStart := &sandbox.StartError{Reason: sandbox.ReasonRunContainerError, Message: "no"}
	f.FailStart("a", wantStart)
	s, err := f.Create(ctx, sandbox.Spec{ID: "u"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Start(ctx, sandbox.ContainerSpec{ID: "a-0", Name: "a"}); !errors.Is(err, error(wantStart)) {
		t.Errorf("Start: %v, want %v", err, wantStart)
	}
}

func TestFakeWritesOutputInLogFormat(t *testing.T) {
	ctx := t.Context()
	f := sandboxtest.NewFake()
	s, err := f.Create(ctx, sandbox.Spec{ID: "u"})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "logs", "0.log")
	spec := sandbox.ContainerSpec{ID: "a-0", Name: "a", Log: sandbox.Log{Path: path}}
	if _, err := s.Start(ctx, spec); err != nil {
		t.Fatal(err)
	}
	if err := f.Output("u", "a-0", "stdout", "hello"); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil || !strings.HasSuffix(string(data), " stdout F hello\n") {
		t.Errorf("log: %q, %v", data, err)
	}
}
