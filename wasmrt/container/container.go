// Package container is what a container's process runs: it puts together engine, host functions, log and hardening, runs
// one guest and records how it ended.
//
//	parent                         child
//	  clone into cgroup ─────────►  Main: wait for the request
//	  request on descriptor 3 ───►  join the cgroup of memory (version 1), load the code, open volumes
//	                                give up files, identity and capabilities (package harden)
//	                                open the pod's network and make its listeners, make host modules
//	                                give up all system calls but those of a guest
//	  ready or failure ◄──────────  answer on descriptor 4
//	                                run the guest
//	                                write exit.json, end
//
// After the answer the two share nothing but files: the parent may die and come back.
package container

import (
	"time"

	"edgepod/wasmrt/compile"
	"edgepod/wasmrt/sandbox"
)

// The jobs of a child process, its first argument.
const (
	JobRun     = "run"
	JobCompile = "compile"
	JobProbe   = "probe"
)

// The descriptors that a child is started with, beyond the standard three.
const (
	FDRequest = 3
	FDAnswer  = 4
)

// The files in Request.Out.
const (
	StartFile   = "start.json"
	ExitFile    = "exit.json"
	MessageFile = "termination-message"
)

// CodeTrap is the exit code of a guest that trapped, as of a Unix process that aborted: 128 and the number of SIGABRT.
const CodeTrap = 134

// Request is what the parent wants run.
type Request struct {
	Container sandbox.ContainerSpec `json:"container"`
	// Code is the folder of the module's code, Names the file of its function names, or "".
	Code  string `json:"code"`
	Names string `json:"names,omitempty"`
	// Out is the child's own folder, Root the guest's root folder ("" for an empty one).
	Out  string `json:"out"`
	Root string `json:"root,omitempty"`
	// Net is the folder of the pod's network, which becomes the process's root folder and working directory; Hostname the
	// pod's name in it. OwnNetwork tells that the process was born in a network namespace of its own.
	Net        string `json:"net"`
	Hostname   string `json:"hostname,omitempty"`
	OwnNetwork bool   `json:"ownNetwork,omitempty"`
	// Language that the module was built from, as the image store tells, "" for unknown.
	Language string `json:"language,omitempty"`
	// Join are the files to which each thread writes 0 to join the process's cgroup, before all else.
	Join []string `json:"join,omitempty"`
	// UID and GID to become; UserNamespace as in package harden.
	UID           int  `json:"uid"`
	GID           int  `json:"gid"`
	UserNamespace bool `json:"userNamespace"`
	// Pages is the most linear memory, in pages of 64 KiB; Data bounds private memory in bytes where no cgroup does.
	Pages uint32 `json:"pages"`
	Data  uint64 `json:"data,omitempty"`
}

// Answer is the child's word that the guest is about to run, or why not.
type Answer struct {
	StartedAt time.Time       `json:"startedAt,omitzero"`
	Layers    []sandbox.Layer `json:"layers,omitempty"`
	// Failure is a message for the user.
	Failure string `json:"failure,omitempty"`
	// Compiled answers JobCompile.
	Compiled *compile.Result `json:"compiled,omitempty"`
}

// Started is the content of StartFile.
type Started struct {
	StartedAt time.Time `json:"startedAt"`
}
