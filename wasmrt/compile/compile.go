// Package compile turns modules into machine code, once for each digest, in short-lived worker processes with limits, and
// keeps the code.
//
// The cache folder has one folder for each module and engine:
//
//	DIR/KEY/code.json                          which file is the code, and its SHA-256
//	DIR/KEY/wazero-VERSION-ARCH-OS/ENTRY       the code, as the engine wrote it
//
// It appears under KEY at once, by a rename, and never changes. Containers read it and check the sum, since the engine
// trusts what it finds there.
package compile

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
)

// Features of WebAssembly that modules may use: version 2, threads' atomics, tail calls and extended constants. Exception
// handling stays off: the engine restores locals wrongly on a catch.
const Features = api.CoreFeaturesV2 | experimental.CoreFeaturesThreads | experimental.CoreFeaturesTailCall |
	experimental.CoreFeaturesExtendedConst

// EngineConfig is what the worker and the containers must agree on, or the cached code is not found.
func EngineConfig(cache wazero.CompilationCache) wazero.RuntimeConfig {
	return wazero.NewRuntimeConfigCompiler().WithCoreFeatures(Features).WithCompilationCache(cache).WithDebugInfoEnabled(true)
}

// Code is the compiled form of a module.
type Code struct {
	// Dir is the engine's cache folder.
	Dir string `json:"-"`
	// Entry is the file of the code in it, Sum its SHA-256 in hexadecimal, Size its length.
	Entry string `json:"entry"`
	Sum   string `json:"sum"`
	Size  int64  `json:"size"`
}

// Job is what a worker is told.
type Job struct {
	// Module is the file to compile, Sum its SHA-256 in hexadecimal.
	Module string `json:"module"`
	Sum    string `json:"sum"`
	// Out is an empty folder that the worker may write to.
	Out string `json:"out"`
	// UID and GID to become, where the worker starts as root; UserNamespace as in package harden.
	UID           int  `json:"uid"`
	GID           int  `json:"gid"`
	UserNamespace bool `json:"userNamespace"`
	// CPU seconds and bytes of memory that the worker may use.
	CPU    uint64 `json:"cpu"`
	Memory uint64 `json:"memory"`
}

// Result is what a worker answers: the code, or why the module is refused.
type Result struct {
	Code
	Error string `json:"error,omitempty"`
}

// key names the code of a module: other bytes, another engine or another processor give another key.
func key(sum string) string {
	h := sha256.New()
	fmt.Fprintf(h, "1 %s %s %x %s %s", sum, engineVersion(), uint64(Features), runtime.GOARCH, processor())
	return hex.EncodeToString(h.Sum(nil))
}

var engineVersion = sync.OnceValue(func() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dep := range info.Deps {
			if dep.Path == "github.com/tetratelabs/wazero" {
				return dep.Version
			}
		}
	}
	return "unknown"
})

// processor tells machines apart whose processors have other features, which the engine's code depends on.
var processor = sync.OnceValue(func() string {
	data, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(data)) {
		name, value, _ := strings.Cut(line, ":")
		if name = strings.TrimSpace(name); name == "flags" || name == "Features" {
			return strings.TrimSpace(value)
		}
	}
	return ""
})
