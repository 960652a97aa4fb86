package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"edgepod/server/agent/lifecycle"
	"edgepod/server/agent/pullsecret"
	"edgepod/wasmrt/sandbox"
)

// pullNotice is how long a pull may take before its Event comes: one that is quicker may turn out to have had nothing to do.
const pullNotice = 100 * time.Millisecond

// compileNotice is how long the compiler may take before that is told.
const compileNotice = 100 * time.Millisecond

// compileEvent is how long the compiler may take before an Event of its own says what the pod waits for.
const compileEvent = 2 * time.Second

func (j job) pull(ctx context.Context, a lifecycle.Pull) lifecycle.Result {
	if kept, ok := j.kept(ctx, a); ok {
		j.event(a.Container, corev1.EventTypeNormal, "Pulled", fmt.Sprintf("Container image %q already present on machine", a.Image))
		return lifecycle.Result{Image: kept}
	}
	request := sandbox.PullRequest{
		Ref: a.Image, Namespace: j.pod.Namespace, Policy: cmp.Or(a.Policy, sandbox.PullIfNotPresent), Credentials: j.credentials(),
	}
	pulling := sync.OnceFunc(func() {
		j.event(a.Container, corev1.EventTypeNormal, "Pulling", fmt.Sprintf("Pulling image %q", a.Image))
	})
	notice := time.AfterFunc(pullNotice, pulling)
	compiling := time.AfterFunc(math.MaxInt64, func() {
		j.event(a.Container, corev1.EventTypeNormal, "Compiling", fmt.Sprintf("Compiling image %q to machine code, once on this node", a.Image))
	})
	request.Fetched = func() { compiling.Reset(compileEvent) }
	image, err := j.Runtime.Pull(ctx, request)
	notice.Stop()
	compiling.Stop()
	if err != nil {
		return j.pullFailed(ctx, a, err, pulling)
	}
	message := fmt.Sprintf("Container image %q already present on machine", a.Image)
	j.images.stale.Store(true)
	if !image.Cached {
		pulling()
		took := image.Took.Round(time.Millisecond)
		message = fmt.Sprintf("Successfully pulled image %q in %v (%v including waiting). Image size: %v bytes.", a.Image, took, took, image.Size)
	}
	if image.CompileTook >= compileNotice {
		message = fmt.Sprintf("%s Compiling it took %v.", strings.TrimSuffix(message, ".")+".", image.CompileTook.Round(time.Millisecond))
	}
	j.event(a.Container, corev1.EventTypeNormal, "Pulled", message)
	if image.Note != "" && image.Note != j.resolved[a.Container].Note {
		j.event(a.Container, corev1.EventTypeNormal, "ImageAlias", image.Note)
	}
	return lifecycle.Result{Image: lifecycle.Resolved{
		Ref: a.Image, Digest: image.Digest, ID: image.ID, Config: image.Config, Note: image.Note,
	}}
}

// kept is the image that the container's last attempt was made from, if the next may be made from it without anybody being
// asked: it came from a registry, is here still, and the pull policy does not say to look for a newer one. So a container
// restarts as what it was, also where neither the registry nor the API, with the pull secrets, can be reached.
func (j job) kept(ctx context.Context, a lifecycle.Pull) (lifecycle.Resolved, bool) {
	was := j.resolved[a.Container]
	if a.Policy == sandbox.PullAlways || was.Ref != a.Image || !strings.Contains(was.ID, "@") {
		return was, false
	}
	images, err := j.Runtime.Images(ctx)
	return was, err == nil && slices.ContainsFunc(images, func(i sandbox.StoredImage) bool { return i.Digest == was.Digest })
}

func (j job) pullFailed(ctx context.Context, a lifecycle.Pull, err error, pulling func()) lifecycle.Result {
	r := lifecycle.Result{Err: err, Reason: sandbox.ReasonErrImagePull}
	var image *sandbox.ImageError
	if errors.As(err, &image) {
		r.Reason, r.Err = image.Reason, errors.New(image.Message)
	}
	if ctx.Err() != nil {
		return r
	}
	switch r.Reason {
	case sandbox.ReasonErrImageNeverPull:
		r.Err = fmt.Errorf("Container image %q is not present with pull policy of Never", a.Image)
		j.event(a.Container, corev1.EventTypeWarning, r.Reason, r.Err.Error())
	case sandbox.ReasonInvalidImageName:
		j.event(a.Container, corev1.EventTypeWarning, "InspectFailed", r.Err.Error())
	default:
		pulling()
		j.event(a.Container, corev1.EventTypeWarning, "Failed", fmt.Sprintf("Failed to pull image %q: %v", a.Image, r.Err))
	}
	j.event(a.Container, corev1.EventTypeWarning, "Failed", "Error: "+r.Reason)
	return r
}

// credentials are those of the pod's pull secrets. Of a secret that is not there, or that is none, an event tells; the pull
// is tried without it.
func (j job) credentials() []sandbox.Credential {
	var all []sandbox.Credential
	var missing []string
	for _, name := range pullSecrets(j.pod) {
		secret, err := podSources{j.sources, j.pod.Namespace}.Secret(name)
		if err != nil {
			missing = append(missing, name)
			continue
		}
		found, err := pullsecret.Read(secret)
		if err != nil {
			j.event("", corev1.EventTypeWarning, failedPullSecret, fmt.Sprintf("Image pull secret %s can't be used: %v", name, err))
			continue
		}
		all = append(all, found...)
	}
	if len(missing) > 0 {
		j.event("", corev1.EventTypeWarning, failedPullSecret, fmt.Sprintf(
			"Unable to retrieve some image pull secrets (%s); attempting to pull the image may not succeed.", strings.Join(missing, ", ")))
	}
	pullsecret.Sort(all)
	return all
}

// failedPullSecret is the reason of events about pull secrets.
const failedPullSecret = "FailedToRetrieveImagePullSecret"

// pullSecrets are the names of the pod's pull secrets.
func pullSecrets(pod *corev1.Pod) []string {
	var out []string
	for _, ref := range pod.Spec.ImagePullSecrets {
		if ref.Name != "" {
			out = append(out, ref.Name)
		}
	}
	return out
}
