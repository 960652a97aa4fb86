package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"edgepod/server"
)

// contextName is what a merged kubeconfig calls our cluster, user and context.
const contextName = "edgepod"

func kubeconfigCommand(a *app) *cobra.Command {
	var merge, path bool
	var node string
	cmd := &cobra.Command{
		Use:   "kubeconfig",
		Short: "Print the administrator's kubeconfig, or merge it into your own",
		Long:  "Prints the kubeconfig in the data folder. With --merge, adds its cluster to the kubeconfig that kubectl uses\n(the first file of $KUBECONFIG, else ~/.kube/config) as context \"" + contextName + "\" and makes that the current one;\nother entries stay as they are, and comments are lost, as with `kubectl config`.",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("node") {
				return printNodeKubeconfig(a, node)
			}
			own := kubeconfigPath(a.dataDir)
			data, err := os.ReadFile(own)
			if errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("there is no kubeconfig in %s yet: `edgepod up` makes it", a.dataDir)
			}
			if err != nil {
				return err
			}
			switch {
			case merge:
				return mergeKubeconfig(a, own)
			case path:
				_, err = fmt.Fprintln(a.out, own)
			default:
				_, err = a.out.Write(data)
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&merge, "merge", false, "merge it into the kubeconfig that kubectl uses")
	cmd.Flags().BoolVar(&path, "path", false, "print the file's path alone")
	cmd.Flags().StringVar(&node, "node", "", "print one instead with which the agent of that node joins the cluster")
	cmd.MarkFlagsMutuallyExclusive("merge", "path", "node")
	return cmd
}

func printNodeKubeconfig(a *app, node string) error {
	if err := checkNodeName("--node", node); err != nil {
		return err
	}
	data, err := server.NodeKubeconfig(a.dataDir, node, time.Now())
	if err != nil {
		return err
	}
	_, err = a.out.Write(data)
	return err
}

// mergeKubeconfig adds the cluster, user and context of the file own to the user's kubeconfig, replacing those that an
// earlier merge left there.
func mergeKubeconfig(a *app, own string) error {
	source, err := clientcmd.LoadFromFile(own)
	if err != nil {
		return fmt.Errorf("read %s: %w", own, err)
	}
	current, ok := source.Contexts[source.CurrentContext]
	if !ok {
		return fmt.Errorf("%s has no current context", own)
	}
	access := clientcmd.NewDefaultPathOptions()
	target, err := access.GetStartingConfig()
	if err != nil {
		return fmt.Errorf("read your kubeconfig: %w", err)
	}
	cluster, user := source.Clusters[current.Cluster].DeepCopy(), source.AuthInfos[current.AuthInfo].DeepCopy()
	if cluster == nil || user == nil {
		return fmt.Errorf("%s has no cluster or no user for its current context", own)
	}
	cluster.LocationOfOrigin, user.LocationOfOrigin = "", ""
	target.Clusters[contextName], target.AuthInfos[contextName] = cluster, user
	target.Contexts[contextName] = &api.Context{Cluster: contextName, AuthInfo: contextName, Namespace: current.Namespace}
	target.CurrentContext = contextName
	if err := clientcmd.ModifyConfig(access, *target, false); err != nil {
		return fmt.Errorf("write your kubeconfig: %w", err)
	}
	_, err = fmt.Fprintf(a.out, "Merged into %s; the current context is now %q.\n", access.GetDefaultFilename(), contextName)
	return err
}
