package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"edgepod/server/agent"
	"edgepod/wasmrt/image/remote"
)

// imageOptions are where a node gets images from, what making their code may take, and how long it keeps both.
type imageOptions struct {
	dirs       []string
	registries string
	aliases    bool
	maxSize    byteSize
	high, low  int
	maxAge     time.Duration
	keepSize   byteSize

	compileCPU    time.Duration
	compileMemory byteSize
	codeSize      byteSize

	// found is what the file of registries says.
	found remote.Registries
}

// addImageFlags binds the flags. Defaults that are spelt here are those of the parts that the options go to.
func addImageFlags(f *pflag.FlagSet, o *imageOptions) {
	f.StringSliceVar(&o.dirs, "image-dir", nil, "folder whose .wasm files pods may name as images")
	f.StringVar(&o.registries, "registries", "", "YAML file that says how image registries are reached: mirrors, plain HTTP, authorities")
	f.BoolVar(&o.aliases, "image-aliases", true, "let names that tutorials use, such as nginx, stand for built-in images")
	f.Var(&o.maxSize, "image-max-size", "largest image that is pulled, such as 64Mi (default 1Gi, and 256Mi for a module)")
	f.IntVar(&o.high, "image-gc-high-threshold", 85, "percent of the disk in use from which unused images are removed; 100: not for the disk")
	f.IntVar(&o.low, "image-gc-low-threshold", 80, "percent of the disk in use until which they are removed")
	f.DurationVar(&o.maxAge, "image-gc-max-age", 0, "remove images that were unused for so long, such as 720h (default: keep them)")
	f.Var(&o.keepSize, "image-gc-max-size", "remove unused images while all take more than this, such as 2Gi (default: no bound)")
	f.DurationVar(&o.compileCPU, "compile-cpu", 0, "processor time that compiling a module may take, beside a second for each MiB of it (default 10s)")
	f.Var(&o.compileMemory, "compile-memory", "memory that compiling a module may take, beside 16 times its size (default 512Mi)")
	f.Var(&o.codeSize, "code-cache-size", "compiled code that is kept, beside what runs (default 2Gi)")
}

// registriesHelp is the part of the commands' help about the file of registries.
const registriesHelp = `
Images come from registries over HTTPS. --registries names a YAML file for what differs:

  default: registry.example:5000       # of names without a registry; docker.io
  hosts:
    docker.io:
      mirrors: [https://mirror.example/hub]   # asked first, in their order
    registry.example:5000:
      plainHTTP: true                  # no TLS
    "*":                               # all that are not named
      caFile: ca.pem                   # authorities trusted beside the system's; from the file's own folder
      skipVerify: false                # true: accept any certificate
      tokenHosts: [auth.example]       # may get the registry's credentials to issue tokens`

// gc returns the agent's settings for the collection of images.
func (o *imageOptions) gc() agent.ImageGC {
	return agent.ImageGC{HighPercent: o.high, LowPercent: o.low, MaxAge: o.maxAge, MaxSize: int64(o.keepSize)}
}

// check makes the folders absolute and reads the file of registries.
func (o *imageOptions) check() error {
	errs := []error{absoluteFolders("--image-dir", o.dirs)}
	if o.high < 1 || o.high > 100 {
		errs = append(errs, fmt.Errorf("--image-gc-high-threshold %d is not a percentage from 1 to 100", o.high))
	}
	if o.low < 1 || o.low >= o.high {
		errs = append(errs, fmt.Errorf("--image-gc-low-threshold %d is not below --image-gc-high-threshold %d, and at least 1", o.low, o.high))
	}
	if o.maxAge < 0 || o.maxAge > 0 && o.maxAge < time.Hour {
		errs = append(errs, fmt.Errorf("--image-gc-max-age %v is less than an hour", o.maxAge))
	}
	if o.compileCPU < 0 {
		errs = append(errs, fmt.Errorf("--compile-cpu %v is negative", o.compileCPU))
	}
	return errors.Join(append(errs, o.findRegistries())...)
}

// findRegistries reads the file of registries, if one is named.
func (o *imageOptions) findRegistries() (err error) {
	if o.registries == "" {
		return nil
	}
	if o.found, err = readRegistries(o.registries); err != nil {
		return fmt.Errorf("--registries %s: %w", o.registries, err)
	}
	return nil
}

// maxRegistriesFile bounds the file of registries.
const maxRegistriesFile = 1 << 20

// readRegistries reads what the file says, refusing fields that do not exist. Its caFiles are relative to its folder.
func readRegistries(path string) (r remote.Registries, err error) {
	file, err := os.Open(path)
	if err != nil {
		return r, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxRegistriesFile+1))
	if err != nil {
		return r, err
	}
	if len(data) > maxRegistriesFile {
		return r, fmt.Errorf("it is larger than %d bytes", maxRegistriesFile)
	}
	if err := yaml.UnmarshalStrict(data, &r); err != nil {
		return r, err
	}
	for name, host := range r.Hosts {
		if host.CAFile == "" {
			continue
		}
		if !filepath.IsAbs(host.CAFile) {
			host.CAFile = filepath.Join(filepath.Dir(path), host.CAFile)
		}
		if host.CAFile, err = filepath.Abs(host.CAFile); err != nil {
			return r, err
		}
		r.Hosts[name] = host
	}
	return r, r.Validate()
}

const maxByteSize = 1 << 50

// byteSize is a number of bytes, written as Kubernetes does: 64Mi, 2Gi.
type byteSize int64

// String implements pflag.Value; the default is told in words.
func (b *byteSize) String() string {
	if *b == 0 {
		return ""
	}
	return resource.NewQuantity(int64(*b), resource.BinarySI).String()
}

// Set implements pflag.Value.
func (b *byteSize) Set(text string) error {
	amount, err := resource.ParseQuantity(text)
	if err != nil || amount.Value() < 1 || amount.Value() > maxByteSize {
		return errors.New("it must be a number of bytes such as 64Mi, and at most 1Pi")
	}
	*b = byteSize(amount.Value())
	return nil
}

// Type implements pflag.Value.
func (b *byteSize) Type() string { return "size" }
