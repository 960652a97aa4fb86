package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/spf13/cobra"
	"golang.org/x/term"
	"k8s.io/apimachinery/pkg/api/resource"
)

type pushOptions struct {
	client *client
	dirs   []string
}

func pushCommand(a *app) *cobra.Command {
	o := &pushOptions{}
	cmd := &cobra.Command{
		Use:   "push MODULE NAME[:TAG]",
		Short: "Push a module to the cluster's registry, for pods to name as their image",
		Long: `Pushes a module to the registry of images that every cluster has. Pods of the namespace then name it as NAME[:TAG], on
whichever node they run; its full name is registry.local/NAMESPACE/NAME:TAG. Images in the namespace kube-public are for
the pods of all.

With --dir the image holds folders, too, which the guest finds in its root: for interpreters, say, with their libraries.
In place of a module, a folder with an OCI layout or an archive of "docker save" is pushed as it is.

Other clients (crane, docker, oras) push and pull below /v2/ on the API's address, with any user's name and a token of the
cluster as password.`,
		Example: "  edgepod push app.wasm app:v1\n  edgepod push python.wasm python:3.11 --dir ./lib:/usr/local/lib\n  edgepod push ./layout team/app -n kube-public",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usageError(cmd, "%s takes a module and the name of the image", cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args[0], args[1]) },
	}
	o.client = newClient(a, cmd)
	cmd.Flags().StringArrayVar(&o.dirs, "dir", nil, "FOLDER:/PATH: a folder of this machine that the guest finds at the path")
	return cmd
}

func (o *pushOptions) run(ctx context.Context, source, target string) error {
	registry, err := o.client.registry()
	if err != nil {
		return err
	}
	ref, err := registry.reference(target)
	if err != nil {
		return err
	}
	tag, ok := ref.(name.Tag)
	if !ok {
		return fmt.Errorf("image %q is named by a digest, which follows from the module: say NAME[:TAG]", target)
	}
	p, err := openPushable(source, o.dirs)
	if err != nil {
		return err
	}
	errOut := o.client.app.errOut
	if p.note != "" {
		fmt.Fprintf(errOut, "Note: %s.\n", p.note)
	}
	digest, err := partial.Digest(p.Taggable)
	if err != nil {
		return err
	}
	if err := registry.push(ctx, tag, p.Taggable, errOut); err != nil {
		return registry.explain("push "+tag.Name(), err)
	}
	_, err = fmt.Fprintf(o.client.app.out, "image: %s\ndigest: %s\n", tag.Name(), digest)
	return err
}

// push sends what the registry lacks, and tells a user at a terminal how far it is.
func (r *registryClient) push(ctx context.Context, tag name.Tag, what remote.Taggable, errOut io.Writer) error {
	updates := make(chan v1.Update, 64)
	told := make(chan struct{})
	go func() {
		defer close(told)
		tellProgress(updates, tag.Name(), errOut)
	}()
	err := remote.Push(tag, what, r.options(ctx, remote.WithProgress(updates))...)
	<-told
	return err
}

// tellProgress says how much has been sent until there are no more updates: in one line that changes at a terminal, and
// elsewhere in a line for each quarter of what is large.
func tellProgress(updates <-chan v1.Update, name string, out io.Writer) {
	file, isFile := out.(*os.File)
	terminal := isFile && term.IsTerminal(int(file.Fd()))
	const large = 8 << 20
	quarter := int64(0)
	for update := range updates {
		if update.Total <= 0 || update.Error != nil {
			continue
		}
		line := fmt.Sprintf("Pushing %s: %s of %s", name, sizeText(update.Complete), sizeText(update.Total))
		now := update.Complete * 4 / update.Total
		switch {
		case terminal:
			fmt.Fprintf(out, "\r%s\x1b[K", line)
		case update.Total >= large && now > quarter:
			fmt.Fprintln(out, line)
		}
		quarter = now
	}
	if terminal {
		fmt.Fprint(out, "\r\x1b[K")
	}
}

// sizeText is a number of bytes for people: 2.6Mi.
func sizeText(n int64) string {
	const unit = 1024
	value, names := float64(n), []string{"", "Ki", "Mi", "Gi", "Ti"}
	for len(names) > 1 && value >= unit {
		value, names = value/unit, names[1:]
	}
	if names[0] == "" {
		return resource.NewQuantity(n, resource.DecimalSI).String()
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", value), ".0") + names[0]
}
