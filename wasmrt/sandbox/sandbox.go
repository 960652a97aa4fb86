// Package sandbox holds the words that the agent and the container runtime share: what to run, what is running, and how it ended.
//
// It imports the standard library alone, so that the agent needs no engine and the engine no Kubernetes.
package sandbox

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Runtime starts, finds and ends pod sandboxes on one machine.
//
// All methods may be called from several goroutines. Containers outlive the Runtime: closing it, or the death of its
// process, ends no container; a new Runtime on the same folder finds them again by List.
type Runtime interface {
	// Pull makes an image usable: resolves its reference, fetches what is not here, checks that it is a module this runtime
	// runs, and compiles it where the code cache lacks it. The error is an *ImageError.
	Pull(ctx context.Context, req PullRequest) (Image, error)
	// Images lists the images that are here, in no order.
	Images(ctx context.Context) ([]StoredImage, error)
	// CollectImages removes images that nothing uses. What was removed before an error is told beside it.
	CollectImages(ctx context.Context, req CollectRequest) (Collected, error)
	// Create makes the environment of a pod: its folder, its cgroup. Creating one that exists returns it.
	Create(ctx context.Context, spec Spec) (Sandbox, error)
	// List returns each sandbox that exists, running or not, also those made by an earlier process.
	List(ctx context.Context) ([]Sandbox, error)
	// Owner returns the user whom the containers of the sandbox with this id run as, whether it exists yet or not; ok is
	// false where that is this process's own user. What a container is to read and write must be this user's, or
	// accessible to all.
	Owner(id string) (owner Owner, ok bool)
	// Layers tells which layers of hardening hold on this machine, in the order of their nesting.
	Layers() []Layer
	// Close lets go of what this process holds. Containers run on.
	Close() error
}

// Sandbox is the running environment of one pod, what the runtime interface of Kubernetes calls a PodSandbox.
type Sandbox interface {
	Spec() Spec
	// Start starts one attempt of a container and returns when its guest is about to run or could not be started; an
	// error that describes the image or the specification is an *ImageError or a *StartError.
	Start(ctx context.Context, spec ContainerSpec) (Status, error)
	// Status returns the newest attempts first seen to last, one Status for each attempt whose files still exist.
	Status(ctx context.Context) ([]Status, error)
	// Changed is closed when the status of any container may have changed since the call.
	Changed() <-chan struct{}
	// Stop asks the attempt to stop and kills it when grace has passed; grace 0 kills at once. It returns when the
	// attempt has ended, and nil if it had ended before.
	Stop(ctx context.Context, id string, grace time.Duration) error
	// Stats returns the current usage of the attempt.
	Stats(ctx context.Context, id string) (Stats, error)
	// Forget removes the files of an ended attempt. Its log stays.
	Forget(ctx context.Context, id string) error
	// Remove kills what still runs and removes the sandbox with its volumes' folder left alone. Removing twice is no error.
	Remove(ctx context.Context) error
}

// Owner is a user and its group, by their numbers on this machine.
type Owner struct{ UID, GID int }

// PullPolicy is spelt as imagePullPolicy of the Kubernetes API.
type PullPolicy string

// The policies of the Kubernetes API.
const (
	PullAlways       PullPolicy = "Always"
	PullIfNotPresent PullPolicy = "IfNotPresent"
	PullNever        PullPolicy = "Never"
)

// ClusterRegistry is the host name of the cluster's own registry of images, wherever that is.
const ClusterRegistry = "registry.local"

// PullRequest says which image to make usable.
type PullRequest struct {
	// Ref is the reference as the user wrote it.
	Ref string
	// Namespace of the pod, in whose part of the cluster's own registry short names are looked up; "" looks there not at all.
	Namespace string
	Policy    PullPolicy
	// Credentials are tried in their order where a registry asks for some, those that match it; without any it is asked
	// anonymously.
	Credentials []Credential
	// Fetched, where not nil, is called once the module is here: what remains is to compile it, where that is to be done.
	Fetched func()
}

// Credential is one entry of a Docker configuration file ("auths"), as imagePullSecrets hold them.
type Credential struct {
	// Server is the key of the entry: a registry's host, perhaps with port, path and scheme, perhaps with * in parts of its
	// name; matched as the kubelet does.
	Server string
	// Username and Password, or a token in place of both.
	Username, Password string
	IdentityToken      string
	RegistryToken      string
}

// Image is a module that is ready to run.
type Image struct {
	// Ref is the reference as the user wrote it.
	Ref string `json:"ref"`
	// Digest is "sha256:" and 64 hexadecimal digits, of what the reference resolved to as it was supplied: a registry's
	// manifest, or a file's bytes. It is the image's identity.
	Digest string `json:"digest"`
	// ID is what the API shows as imageID: the repository with the digest where it came from a registry, else the digest.
	ID string `json:"id,omitempty"`
	// Size in bytes, as supplied.
	Size int64 `json:"size"`
	// Config is what the image says of how it is run.
	Config ImageConfig `json:"config,omitzero"`
	// Note is for the user, where the reference stands for something else than it seems to, such as a built-in module.
	Note string `json:"note,omitempty"`
	// Cached tells that the image was here before the call, Compiled that its code had to be compiled in it.
	Cached   bool `json:"cached,omitempty"`
	Compiled bool `json:"compiled,omitempty"`
	// Took is how long the call lasted, of which CompileTook for the compiler.
	Took        time.Duration `json:"took,omitempty"`
	CompileTook time.Duration `json:"compileTook,omitempty"`
}

// ImageConfig is what an image says of how it is run, as in the OCI image configuration; empty where it says nothing.
type ImageConfig struct {
	Entrypoint []string `json:"entrypoint,omitempty"`
	Cmd        []string `json:"cmd,omitempty"`
	// Env holds NAME=value.
	Env        []string `json:"env,omitempty"`
	WorkingDir string   `json:"workingDir,omitempty"`
}

// Spec describes a pod's sandbox.
type Spec struct {
	// ID names the sandbox on this machine: the pod's UID.
	ID string `json:"id"`
	// Namespace, Name and Hostname are the pod's.
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Hostname  string `json:"hostname"`
	// Limits of all containers together; zero fields are unlimited.
	Limits Limits `json:"limits"`
	// AsRoot lets the containers stay root, without its capabilities, for volumes that are root's alone. Otherwise they run
	// as the sandbox's Owner.
	AsRoot bool `json:"asRoot,omitempty"`
	// Annotations are kept for the caller, who finds them again in List.
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Limits of a sandbox or of a container. A zero field means no limit.
type Limits struct {
	// Memory in bytes, of the whole process: the guest's memory, its code and the engine.
	Memory int64 `json:"memory,omitempty"`
	// CPUMilli is the ceiling in thousandths of a core.
	CPUMilli int64 `json:"cpuMilli,omitempty"`
	// CPUShareMilli is the share under contention, in thousandths of a core (the request).
	CPUShareMilli int64 `json:"cpuShareMilli,omitempty"`
	// PIDs is the most threads; the runtime raises it to what the engine needs.
	PIDs int64 `json:"pids,omitempty"`
}

// ContainerSpec describes one attempt of a container.
type ContainerSpec struct {
	// ID names the attempt in its sandbox: container name, "-" and attempt number.
	ID string `json:"id"`
	// Name is the container's name in the pod, Attempt its restart count.
	Name    string `json:"name"`
	Attempt int    `json:"attempt"`
	// Image is a reference that Pull has accepted, Digest the digest it resolved to.
	Image  string `json:"image"`
	Digest string `json:"digest"`
	// Args are the guest's arguments, Args[0] being its name. Env holds NAME=value, in order.
	Args []string `json:"args"`
	Env  []string `json:"env,omitempty"`
	// WorkingDir is the guest's PWD; "" is "/".
	WorkingDir string  `json:"workingDir,omitempty"`
	Mounts     []Mount `json:"mounts,omitempty"`
	// Ports are what the container is declared to listen on. A guest that accepts connections without making listeners
	// itself gets one for each, in this order.
	Ports []Port `json:"ports,omitempty"`
	// Stdin keeps the guest's standard input open until it is to stop; otherwise the input has ended from the beginning.
	Stdin  bool   `json:"stdin,omitempty"`
	Limits Limits `json:"limits"`
	// ReadOnlyRoot makes the guest's root read-only.
	ReadOnlyRoot bool `json:"readOnlyRoot,omitempty"`
	Log          Log  `json:"log"`
	// TerminationMessagePath is the guest path whose content becomes Exit.Message, "" for none;
	// FallbackToLogs takes the log's end instead where that file is empty and the guest failed.
	TerminationMessagePath string `json:"terminationMessagePath,omitempty"`
	FallbackToLogs         bool   `json:"fallbackToLogs,omitempty"`
}

// Mount shows a folder or file of the host in the guest.
type Mount struct {
	// Source is an absolute path of the host, Target an absolute path of the guest.
	Source   string `json:"source"`
	Target   string `json:"target"`
	ReadOnly bool   `json:"readOnly,omitempty"`
}

// Port is one on which a container listens, in the network of its sandbox.
type Port struct {
	// Name may be "". Protocol is TCP or UDP, as the Kubernetes API spells it.
	Name     string `json:"name,omitempty"`
	Protocol string `json:"protocol"`
	Number   uint16 `json:"number"`
}

// Log says where the guest's output goes, in the CRI log format.
type Log struct {
	// Path of the current file; rotated ones are Path.1 (newest) to Path.(MaxFiles-1).
	Path string `json:"path"`
	// MaxBytes of a file (0: 10 MiB) and MaxFiles (0: 5), the current one counted.
	MaxBytes int64 `json:"maxBytes,omitempty"`
	MaxFiles int   `json:"maxFiles,omitempty"`
}

// State of an attempt.
type State string

// The states, in the order in which they come. Created: its process is being made and the guest has not begun.
const (
	StateCreated State = "created"
	StateRunning State = "running"
	StateExited  State = "exited"
)

// Status of one attempt.
type Status struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Attempt int    `json:"attempt"`
	State   State  `json:"state"`
	Image   string `json:"image"`
	Digest  string `json:"digest"`
	// PID of the process and its start time in clock ticks since boot, which together name it for good.
	PID       int    `json:"pid,omitempty"`
	StartTick uint64 `json:"startTick,omitempty"`
	// StartedAt is when the guest began; zero before.
	StartedAt time.Time `json:"startedAt,omitzero"`
	// Exit is set in state exited.
	Exit *Exit `json:"exit,omitempty"`
}

// Exit tells how an attempt ended.
type Exit struct {
	// Code as a shell shows it: the guest's own from 0 to 255 (255 for any beyond), 128+Signal when killed.
	Code int32 `json:"code"`
	// Signal that ended it, 0 for none.
	Signal int32 `json:"signal,omitempty"`
	// Reason in the words of the Kubernetes API: Completed, Error, OOMKilled, ContainerCannotRun, StartError.
	Reason string `json:"reason"`
	// Message for the user: the termination message, the trap with its back-trace, or "".
	Message    string    `json:"message,omitempty"`
	StartedAt  time.Time `json:"startedAt,omitzero"`
	FinishedAt time.Time `json:"finishedAt"`
}

// The reasons of an Exit.
const (
	ReasonCompleted  = "Completed"
	ReasonError      = "Error"
	ReasonOOMKilled  = "OOMKilled"
	ReasonCannotRun  = "ContainerCannotRun"
	ReasonStartError = "StartError"
)

// Stats is the usage of an attempt.
type Stats struct {
	At time.Time `json:"at"`
	// CPU is the time used since the start.
	CPU time.Duration `json:"cpu"`
	// Memory in bytes: of the cgroup, or of the process where there is none.
	Memory int64 `json:"memory"`
	// PIDs is the number of threads.
	PIDs int64 `json:"pids"`
}

// Layer is one layer of hardening.
type Layer struct {
	// Name such as "namespaces", "seccomp", "landlock", "cgroup-memory".
	Name string `json:"name"`
	Held bool   `json:"held"`
	// Reason why it does not hold, and Fix what the user could do.
	Reason string `json:"reason,omitempty"`
	Fix    string `json:"fix,omitempty"`
}

// ImageError says why an image cannot be used. Reason is ErrImagePull, InvalidImageName, ErrImageNeverPull or
// ImageInspectError, as in the waiting state of the Kubernetes API; Message says what to do.
type ImageError struct {
	Reason  string
	Ref     string
	Message string
}

func (e *ImageError) Error() string { return fmt.Sprintf("image %q: %s", e.Ref, e.Message) }

// The reasons of an ImageError.
const (
	ReasonErrImagePull      = "ErrImagePull"
	ReasonInvalidImageName  = "InvalidImageName"
	ReasonErrImageNeverPull = "ErrImageNeverPull"
	ReasonImageInspectError = "ImageInspectError"
)

// StartError says why a container could not be started. Reason is CreateContainerConfigError, CreateContainerError or
// RunContainerError.
type StartError struct {
	Reason  string
	Message string
}

func (e *StartError) Error() string { return e.Message }

// The reasons of a StartError.
const (
	ReasonCreateContainerConfigError = "CreateContainerConfigError"
	ReasonCreateContainerError       = "CreateContainerError"
	ReasonRunContainerError          = "RunContainerError"
)

// ErrNotFound is returned for a container attempt that the sandbox does not know.
var ErrNotFound = errors.New("container not found")
