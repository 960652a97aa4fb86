package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
)

// fieldManager names what these commands write in an object's managed fields.
const fieldManager = "edgepod"

// client is how the commands that talk to a cluster reach it. The kubeconfig is that of --kubeconfig, else that of
// --data-dir, else that of $KUBECONFIG, else the one in the data folder where there is one, else the user's own.
//
// Discovery is kept in memory, for one command: a cache on disk would hide new kinds from the user for hours.
type client struct {
	app        *app
	cmd        *cobra.Command
	kubeconfig string
	namespace  string

	loader     clientcmd.ClientConfig
	restMapper meta.RESTMapper
	shared     rest.Interface
}

// newClient binds the client's flags to cmd.
func newClient(a *app, cmd *cobra.Command) *client {
	c := &client{app: a, cmd: cmd}
	cmd.Flags().StringVar(&c.kubeconfig, "kubeconfig", "", "kubeconfig file (default $KUBECONFIG, else the data folder's)")
	cmd.Flags().StringVarP(&c.namespace, "namespace", "n", "", "namespace (default that of the kubeconfig)")
	return c
}

func (c *client) config() clientcmd.ClientConfig {
	if c.loader != nil {
		return c.loader
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = c.kubeconfig
	own := kubeconfigPath(c.app.dataDir)
	// A flag goes before the environment, also the one that only names the cluster's folder.
	named := os.Getenv(clientcmd.RecommendedConfigPathEnvVar)
	chosen := c.cmd.Flags().Changed("data-dir")
	switch {
	case c.kubeconfig != "":
	case chosen, named == "" && exists(own):
		rules.ExplicitPath = own
	case named != "" && !strings.ContainsRune(named, filepath.ListSeparator):
		rules.ExplicitPath = named
	}
	overrides := &clientcmd.ConfigOverrides{}
	overrides.Context.Namespace = c.namespace
	c.loader = clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
	return c.loader
}

// Namespace returns the namespace to work in, and whether the user asked for it by the flag.
func (c *client) Namespace() (name string, explicit bool, err error) {
	name, _, err = c.config().Namespace()
	return name, c.namespace != "", noCluster(err)
}

// noCluster replaces the error of a kubeconfig that does not exist.
func noCluster(err error) error {
	var missing *fs.PathError
	if errors.As(err, &missing) && errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("no cluster is known: there is no kubeconfig %s: start a cluster with `edgepod up`, or name one with --kubeconfig, --data-dir or $KUBECONFIG", missing.Path)
	}
	if clientcmd.IsEmptyConfig(err) {
		return errors.New("no cluster is known: start one with `edgepod up`, or name one with --kubeconfig or $KUBECONFIG")
	}
	return err
}

// restConfig returns how to reach the API server. Warnings of the server go to the user.
func (c *client) restConfig() (*rest.Config, error) {
	config, err := c.config().ClientConfig()
	if err != nil {
		return nil, noCluster(err)
	}
	config.UserAgent = "edgepod/" + version
	config.QPS = -1
	config.WarningHandler = rest.NewWarningWriter(c.app.errOut, rest.WarningWriterOptions{Deduplicate: true})
	return config, nil
}

// mapper translates names such as "po" to paths of the API, from what the server says it serves.
func (c *client) mapper() (meta.RESTMapper, error) {
	if c.restMapper != nil {
		return c.restMapper, nil
	}
	config, err := c.restConfig()
	if err != nil {
		return nil, err
	}
	direct, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	cached := memory.NewMemCacheClient(direct)
	c.restMapper = restmapper.NewShortcutExpander(restmapper.NewDeferredDiscoveryRESTMapper(cached), cached, nil)
	return c.restMapper, nil
}

// api returns a client for whole paths of the API, whose answers are read as they come.
func (c *client) api() (rest.Interface, error) {
	if c.shared != nil {
		return c.shared, nil
	}
	config, err := c.restConfig()
	if err != nil {
		return nil, err
	}
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	c.shared, err = rest.UnversionedRESTClientFor(config)
	return c.shared, err
}

// answer returns the body of an answer; an error in it is the server's own words.
func answer(result rest.Result) ([]byte, error) {
	if err := result.Error(); err != nil {
		return nil, err
	}
	return result.Raw()
}

// core returns a client for the core group's paths, with typed bodies.
func (c *client) core() (rest.Interface, error) {
	config, err := c.restConfig()
	if err != nil {
		return nil, err
	}
	return coreClient(config)
}

// explain adds what to do to the errors that a newcomer meets first.
func explain(err error) error {
	var unreachable *url.Error
	if errors.As(err, &unreachable) && errors.Is(err, syscall.ECONNREFUSED) {
		u, parseErr := url.Parse(unreachable.URL)
		if parseErr != nil {
			return err
		}
		return fmt.Errorf("nothing answers at %s://%s: %w; is the cluster running? `edgepod up` starts one", u.Scheme, u.Host, syscall.ECONNREFUSED)
	}
	return err
}
