package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"edgepod/server/agent"
	"edgepod/wasmrt/image/remote"
)

// parseImageFlags returns the options that the arguments make, checked.
func parseImageFlags(args ...string) (imageOptions, error) {
	var o imageOptions
	f := pflag.NewFlagSet("test", pflag.ContinueOnError)
	addImageFlags(f, &o)
	if err := f.Parse(args); err != nil {
		return o, err
	}
	return o, o.check()
}

func TestImageFlagsBecomeSettings(t *testing.T) {
	o, err := parseImageFlags()
	if err != nil {
		t.Fatal(err)
	}
	if want := (agent.ImageGC{HighPercent: 85, LowPercent: 80}); o.gc() != want || !o.aliases || o.maxSize != 0 {
		t.Errorf("without flags: %+v, %+v", o, o.gc())
	}
	o, err = parseImageFlags("--image-aliases=false", "--image-max-size=64Mi", "--image-gc-high-threshold=50", "--image-gc-low-threshold=40",
		"--image-gc-max-age=720h", "--image-gc-max-size=2Gi")
	if err != nil {
		t.Fatal(err)
	}
	want := agent.ImageGC{HighPercent: 50, LowPercent: 40, MaxAge: 720 * time.Hour, MaxSize: 2 << 30}
	if o.gc() != want || o.aliases || o.maxSize != 64<<20 {
		t.Errorf("with flags: %+v, %+v", o, o.gc())
	}
}

func TestImageFlagsRefuseWhatCannotBeMeant(t *testing.T) {
	for _, test := range []struct{ flag, want string }{
		{"--image-max-size=0", "number of bytes"},
		{"--image-max-size=much", "number of bytes"},
		{"--image-max-size=2Pi", "at most 1Pi"},
		{"--image-gc-high-threshold=0", "percentage"},
		{"--image-gc-high-threshold=101", "percentage"},
		{"--image-gc-low-threshold=85", "not below"},
		{"--image-gc-max-age=1m", "less than an hour"},
		{"--image-gc-max-age=-1h", "less than an hour"},
		{"--image-gc-max-size=-1", "number of bytes"},
		{"--compile-cpu=-1s", "negative"},
		{"--compile-memory=x", "number of bytes"},
		{"--code-cache-size=0", "number of bytes"},
		{"--image-dir=/none/such", "--image-dir"},
		{"--registries=/none/such", "--registries /none/such: "},
	} {
		if _, err := parseImageFlags(test.flag); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want one about %q", test.flag, err, test.want)
		}
	}
}

func TestRegistriesAreReadStrictly(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "registries.yaml")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// The example of the help is what the program reads.
	_, example, ok := strings.Cut(registriesHelp, "differs:\n")
	if !ok {
		t.Fatal("the help has no example")
	}
	write(example)
	got, err := readRegistries(path)
	if err != nil {
		t.Fatal(err)
	}
	want := remote.Registries{Default: "registry.example:5000", Hosts: map[string]remote.Host{
		"docker.io":             {Mirrors: []string{"https://mirror.example/hub"}},
		"registry.example:5000": {PlainHTTP: true},
		"*":                     {CAFile: filepath.Join(dir, "ca.pem"), TokenHosts: []string{"auth.example"}},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("registries (-want +got):\n%s", diff)
	}
	for text, want := range map[string]string{
		"hosts: {a: {mirror: [b]}}":      `unknown field "mirror"`,
		"hosts: {a: {}, a: {}}":          "already set",
		"hosts: [a]":                     "cannot unmarshal",
		"\t":                             "yaml",
		strings.Repeat("#", 1<<20) + "#": "larger",
		"hosts: {a: {mirrors: [b]}}":     `mirror "b" of a is not a URL`,
		"default: a/b":                   `"a/b" is not a host`,
	} {
		write(text)
		if r, err := readRegistries(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: got %+v, %v, want an error about %q", text, r, err, want)
		}
	}
}

func FuzzRegistries(f *testing.F) {
	f.Add([]byte("default: a\nhosts: {'*': {caFile: x}}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "registries.yaml")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := readRegistries(path)
		if err != nil {
			return
		}
		for _, host := range r.Hosts {
			if host.CAFile != "" && !filepath.IsAbs(host.CAFile) {
				t.Errorf("the path of %+v is relative", host)
			}
		}
	})
}
