package process_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"edgepod/wasmrt/sandbox"
)

// Programs expect the devices that hold nothing or everything; a folder that a pod mounts in their place is shown as it is.
func TestGuestsFindDevices(t *testing.T) {
	r := open(t, t.TempDir())
	s := create(t, r, "pod1")
	volume := t.TempDir()
	if err := os.WriteFile(filepath.Join(volume, "null"), []byte("of the pod"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		mounts   []sandbox.Mount
		readOnly bool
		args     []string
		code     int32
		out      string
	}{
		"write":   {args: []string{"put", "/dev/null", "away"}},
		"read":    {args: []string{"cat", "/dev/null"}},
		"full":    {args: []string{"put", "/dev/full", "x"}, code: 1},
		"no root": {readOnly: true, args: []string{"put", "/dev/null", "away"}},
		"others":  {args: []string{"cat", "/dev/kmsg"}, code: 1},
		"own":     {mounts: []sandbox.Mount{{Source: volume, Target: "/dev", ReadOnly: true}}, args: []string{"cat", "/dev/null"}, out: "of the pod"},
	} {
		id := strings.ReplaceAll(name, " ", "-")
		c := spec(t, r, id, "guest.wasm", tt.args...)
		c.Mounts, c.ReadOnlyRoot = tt.mounts, tt.readOnly
		start(t, s, c)
		exit := await(t, s, id)
		if got := logged(t, c.Log.Path); exit.Code != tt.code || tt.code == 0 && got != tt.out {
			t.Errorf("%s: %+v, %q; want code %d, %q", name, exit, got, tt.code, tt.out)
		}
	}
}
