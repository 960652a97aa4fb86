package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"runtime/debug"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"edgepod/server"
	"edgepod/server/agent"
	"edgepod/wasmrt/sandbox"
)

// cluster is a server and a node's agent in one process, over one data folder.
type cluster struct {
	lock    *lock
	runtime sandbox.Runtime
	server  *server.Server
	agent   *agent.Agent
	log     *slog.Logger
}

// openCluster claims the data folder and puts the parts together. Nothing runs yet.
func openCluster(o clusterOptions, log *slog.Logger) (_ *cluster, err error) {
	c := &cluster{log: log}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.close())
		}
	}()
	if c.lock, err = lockDataDir(o.dataDir, lockPatience); err != nil {
		return nil, err
	}
	if c.server, err = server.New(o.serverConfig(log)); err != nil {
		return nil, err
	}
	access := c.server.AgentConfig(o.nodeName)
	images, err := newRegistryTransport(access)
	if err != nil {
		return nil, err
	}
	if c.runtime, err = newRuntime(o.dataDir, o.runtimeConfig(images, log)); err != nil {
		return nil, err
	}
	config, err := o.agentConfig(access, c.runtime, log)
	if err != nil {
		return nil, err
	}
	if c.agent, err = agent.New(config); err != nil {
		return nil, err
	}
	c.server.Attach(o.nodeName, c.agent.Handler())
	return c, nil
}

// agentConfig returns the settings of the node's agent, which reaches the API by config.
func (o *clusterOptions) agentConfig(config *rest.Config, runtime sandbox.Runtime, log *slog.Logger) (agent.Config, error) {
	if err := rest.LoadTLSFiles(config); err != nil {
		return agent.Config{}, err
	}
	return agent.Config{
		NodeName: o.nodeName, DataDir: filepath.Join(o.dataDir, "node"), REST: config, Runtime: runtime, HostPaths: o.hostPaths,
		ImageGC:  o.images.gc(),
		Node:     agent.NodeConfig{KubeletVersion: version, RuntimeVersion: engineVersion(), IP: o.nodeIP},
		ClientCA: config.CAData, Log: log,
	}, nil
}

// run runs both parts until ctx ends or one of them fails, then stops first the agent and then the server. In between,
// when nothing starts pods any more, it calls afterwards.
func (c *cluster) run(ctx context.Context, afterwards func()) error {
	agentCtx, stopAgent := context.WithCancel(ctx)
	serverCtx, stopServer := context.WithCancel(context.WithoutCancel(ctx))
	defer stopAgent()
	defer stopServer()
	var agentErr, serverErr error
	var wait sync.WaitGroup
	wait.Go(func() {
		defer stopServer()
		agentErr = c.agent.Run(agentCtx)
		if ctx.Err() != nil {
			agentErr = nil
		}
		afterwards()
	})
	wait.Go(func() {
		defer stopAgent()
		serverErr = c.server.Run(serverCtx)
	})
	wait.Wait()
	return errors.Join(agentErr, serverErr)
}

// close gives up what openCluster claimed. Containers run on.
func (c *cluster) close() error {
	var errs []error
	if c.runtime != nil {
		errs = append(errs, c.runtime.Close())
	}
	if c.server != nil {
		errs = append(errs, c.server.Close())
	}
	if c.lock != nil {
		c.lock.release()
	}
	return errors.Join(errs...)
}

// waitForNode returns when the node is Ready.
func waitForNode(ctx context.Context, core rest.Interface, name string) error {
	for {
		w, err := core.Get().Resource("nodes").Param("watch", "true").Param("fieldSelector", "metadata.name="+name).
			Param("sendInitialEvents", "true").Param("resourceVersionMatch", "NotOlderThan").Param("allowWatchBookmarks", "true").
			Watch(ctx)
		if err != nil {
			return fmt.Errorf("wait for node %s: %w", name, err)
		}
		for event := range w.ResultChan() {
			if node, ok := event.Object.(*corev1.Node); ok && nodeReady(node) {
				w.Stop()
				return nil
			}
		}
		w.Stop()
		if ctx.Err() != nil {
			return fmt.Errorf("node %s is not ready: %w", name, ctx.Err())
		}
	}
}

func nodeReady(node *corev1.Node) bool {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// coreClient returns a client for the core group of the API that the configuration leads to.
func coreClient(config *rest.Config) (rest.Interface, error) {
	config = rest.CopyConfig(config)
	config.APIPath, config.GroupVersion, config.QPS = "/api", &corev1.SchemeGroupVersion, -1
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	return rest.RESTClientFor(config)
}

// engineVersion names the engine as a node's containerRuntimeVersion does.
func engineVersion() string {
	info, ok := debug.ReadBuildInfo()
	if ok {
		for _, dependency := range info.Deps {
			if dependency.Path == "github.com/tetratelabs/wazero" {
				return "edgepod-wazero://" + dependency.Version[1:]
			}
		}
	}
	return "edgepod-wazero://unknown"
}

// readyTimeout is how long a cluster may take to start before it is given up.
const readyTimeout = 30 * time.Second
