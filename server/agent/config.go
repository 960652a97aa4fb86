package agent

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"

	"edgepod/server/agent/lifecycle"
	"edgepod/wasmrt/sandbox"
)

// defaultMaxPods is what a /24 of pod addresses holds, with room for the network's own. A pod is a process or two of a few
// megabytes here, so that addresses and memory bound a node before the number that fits one with an engine and images.
const defaultMaxPods = 250

// Config is what an agent needs. NodeName, DataDir, REST and Runtime must be given.
type Config struct {
	// NodeName is the name of the node's object.
	NodeName string
	// DataDir holds the pods' folders and the serving certificate; it is made with mode 0700.
	DataDir string
	// REST is how the API is reached. Its own limits of requests are not used.
	REST *rest.Config
	// Runtime runs the containers. The agent does not close it.
	Runtime sandbox.Runtime
	// Node is what the node's object says beside what the machine says.
	Node NodeConfig
	// Restart is the back-off of restarts (10 s to 5 min, anew after 10 min), ImagePull that of pulls (10 s to 5 min).
	Restart, ImagePull lifecycle.Backoff
	// Retry is the pause before anything else that failed is tried again: 10 s.
	Retry time.Duration
	// Measure is how often volumes that have a limit are compared with it: 10 s.
	Measure time.Duration
	// ImageGC says which images go, and when.
	ImageGC ImageGC
	// HostPaths are folders of this machine that pods may mount, with what is beneath. None: no hostPath volumes.
	HostPaths []string
	// LogMaxBytes of a log file and LogMaxFiles of a container; zero leaves both to the runtime.
	LogMaxBytes int64
	LogMaxFiles int
	// ClientCA is, in PEM, the authority of those who may use the agent's own port; only Serve needs it.
	ClientCA []byte
	// Log is where the agent says what happens; nil discards it.
	Log *slog.Logger
}

// NodeConfig is what the node's object says.
type NodeConfig struct {
	// KubeletVersion and RuntimeVersion are reported in nodeInfo, the latter such as "edgepod-wazero://1.12.0".
	KubeletVersion, RuntimeVersion string
	// IP is the node's address; "" takes the machine's first one that others can reach.
	IP string
	// Port is where Serve listens, 0 for nowhere.
	Port int32
	// Labels are added to the node's own.
	Labels map[string]string
	// Look is how often the machine is looked at, and compared with what the API has: 10 s.
	Look time.Duration
	// MaxPods is the most pods: 250.
	MaxPods int64
	// Capacity replaces amounts that are found on the machine.
	Capacity corev1.ResourceList
}

func (c *Config) validate() error {
	switch {
	case c.NodeName == "":
		return errors.New("agent: the node has no name")
	case len(validation.IsDNS1123Subdomain(c.NodeName)) > 0:
		return fmt.Errorf("agent: %q cannot be a node's name: %s", c.NodeName, validation.IsDNS1123Subdomain(c.NodeName)[0])
	case c.DataDir == "":
		return errors.New("agent: the data folder is not named")
	case c.REST == nil:
		return errors.New("agent: no way to the API is given")
	case c.Runtime == nil:
		return errors.New("agent: no runtime is given")
	}
	dir, err := filepath.Abs(c.DataDir)
	if err != nil {
		return fmt.Errorf("agent: data folder %s: %w", c.DataDir, err)
	}
	c.DataDir = dir
	c.Restart = withDefaults(c.Restart)
	c.ImagePull = withDefaults(c.ImagePull)
	c.Retry = cmp.Or(c.Retry, 10*time.Second)
	c.Measure = cmp.Or(c.Measure, 10*time.Second)
	c.Node.Look = cmp.Or(c.Node.Look, 10*time.Second)
	c.Node.MaxPods = cmp.Or(c.Node.MaxPods, defaultMaxPods)
	c.Node.KubeletVersion = cmp.Or(c.Node.KubeletVersion, "v1.37.2+edgepod")
	c.Node.RuntimeVersion = cmp.Or(c.Node.RuntimeVersion, "edgepod-wazero://unknown")
	if err := c.ImageGC.complete(); err != nil {
		return fmt.Errorf("agent: %w", err)
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return nil
}

func withDefaults(b lifecycle.Backoff) lifecycle.Backoff {
	b.Initial = cmp.Or(b.Initial, 10*time.Second)
	b.Max = max(cmp.Or(b.Max, 5*time.Minute), b.Initial)
	b.Reset = cmp.Or(b.Reset, 10*time.Minute)
	return b
}

func (c *Config) capacity(found corev1.ResourceList) corev1.ResourceList {
	found[corev1.ResourcePods] = *resource.NewQuantity(c.Node.MaxPods, resource.DecimalSI)
	for name, amount := range c.Node.Capacity {
		found[name] = amount
	}
	return found
}
