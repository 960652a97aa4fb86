package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/spf13/cobra"

	"edgepod/wasmrt/guest"
	"edgepod/wasmrt/image"
	"edgepod/wasmrt/image/inspect"
	"edgepod/wasmrt/process"
	"edgepod/wasmrt/sandbox"
)

type inspectOptions struct {
	client *client
	images imageOptions
	output string
	all    bool
}

func inspectCommand(a *app) *cobra.Command {
	o := &inspectOptions{}
	cmd := &cobra.Command{
		Use:   "inspect MODULE|IMAGE",
		Short: "Say what a module or an image consists of and needs, and whether it runs here",
		Long: `Says what a WebAssembly module is made of: its sections, what it imports, by what that is for, what it exports, its memories
and tables, what it was built with, and which extensions of WebAssembly it needs; and whether a pod could run it here, or
why not. Nothing is compiled or run.

It may be a file, a module that ships with edgepod (edgepod.dev/NAME), or an image in a registry, which is named as pods
name it and fetched with the credentials that docker knows.`,
		Example: "  edgepod inspect app.wasm\n  edgepod inspect registry.local/default/app:v1\n  edgepod inspect -o json ghcr.io/team/app:v1",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageError(cmd, "%s takes the name of one module or image", cmd.CommandPath())
			}
			if o.output != "" && o.output != "json" {
				return usageError(cmd, "-o %s is not known: leave it out, or say json", o.output)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args[0]) },
	}
	o.client = newClient(a, cmd)
	f := cmd.Flags()
	f.StringVarP(&o.output, "output", "o", "", "json: everything, for programs")
	f.BoolVar(&o.all, "all", false, "show long lists to their end")
	f.BoolVar(&o.images.aliases, "image-aliases", true, "let names that tutorials use, such as nginx, stand for built-in images")
	f.StringVar(&o.images.registries, "registries", "", "YAML file that says how image registries are reached, as for nodes")
	return cmd
}

func (o *inspectOptions) run(ctx context.Context, arg string) error {
	report, err := o.inspect(ctx, arg)
	if err != nil {
		return err
	}
	out := o.client.app.out
	if o.output == "json" {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(report)
	}
	most := shownAtMost
	if o.all {
		most = 0
	}
	_, err = out.Write([]byte(report.Text(most)))
	return err
}

// shownAtMost is how much of a list is shown to people who did not ask for all.
const shownAtMost = 40

// inspect looks at the module through an image store of its own, in a temporary folder.
func (o *inspectOptions) inspect(ctx context.Context, arg string) (*inspect.Report, error) {
	dir, err := os.MkdirTemp("", "edgepod-inspect-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	config := image.Config{
		Dir: dir, ImageDirs: []string{"/"}, Builtins: guest.Modules(), Offered: process.Offered, Aliases: o.images.aliases,
		Limits: image.Limits{Module: inspectLimit},
	}
	if err := o.images.findRegistries(); err != nil {
		return nil, err
	}
	config.Registries = o.images.found
	req := sandbox.PullRequest{Ref: fileReference(arg), Policy: sandbox.PullAlways}
	if !filepath.IsAbs(req.Ref) {
		o.findCluster(&config, &req)
		req.Credentials = localCredentials(ctx, req.Ref)
	}
	store, err := image.Open(config)
	if err != nil {
		return nil, err
	}
	report, err := store.Inspect(ctx, req)
	var refused *sandbox.ImageError
	if errors.As(err, &refused) {
		err = fmt.Errorf("inspect %s: %s", arg, refused.Message)
	}
	return report, errors.Join(err, store.Close())
}

// inspectLimit is the largest module that is looked at: reading takes little memory.
const inspectLimit = 1 << 30

// fileReference is the argument as a path, where there is such a file; other names mean what they mean in pods.
func fileReference(arg string) string {
	if !looksLikePath(arg) && !exists(arg) {
		return arg
	}
	path, err := filepath.Abs(arg)
	if err != nil {
		return arg
	}
	return path
}

// findCluster lets names mean images in the cluster's registry, where a cluster is known.
func (o *inspectOptions) findCluster(config *image.Config, req *sandbox.PullRequest) {
	registry, err := o.client.registry()
	if err != nil {
		return // without a cluster there is no registry of its own
	}
	config.Cluster, req.Namespace = registry.transport, registry.namespace
}

// localCredentials are those that docker's configuration has for the registry of an image.
func localCredentials(ctx context.Context, ref string) []sandbox.Credential {
	parsed, err := name.ParseReference(ref)
	if err != nil {
		return nil // said by who reads it next
	}
	auth, err := authn.Resolve(ctx, authn.DefaultKeychain, parsed.Context())
	if err != nil || auth == authn.Anonymous {
		return nil
	}
	c, err := authn.Authorization(ctx, auth)
	if err != nil {
		return nil
	}
	return []sandbox.Credential{{
		Server: parsed.Context().RegistryStr(), Username: c.Username, Password: c.Password,
		IdentityToken: c.IdentityToken, RegistryToken: c.RegistryToken,
	}}
}
