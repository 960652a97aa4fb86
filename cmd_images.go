package main

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/printers"

	"edgepod/server/oci"
)

type imagesOptions struct {
	client        *client
	allNamespaces bool
}

func imagesCommand(a *app) *cobra.Command {
	o := &imagesOptions{}
	cmd := &cobra.Command{
		Use:               "images [NAME...]",
		ValidArgsFunction: cobra.NoFileCompletions,
		Short:             "Show the images in the cluster's registry",
		Long: `Shows the tags in the cluster's registry, with their digests and sizes: of the namespace's images, or of those named.

What a namespace's images may take together is said by --registry-quota of "up" and "server", and for one namespace by its
annotation ` + oci.QuotaAnnotation + `. Where that is full, images without a tag make room for new ones, the oldest first,
unless a pod names them by their digest.`,
		Example: "  edgepod images\n  edgepod images -A\n  edgepod images delete app:v1",
		RunE:    func(cmd *cobra.Command, args []string) error { return o.list(cmd.Context(), args) },
	}
	o.client = newClient(a, cmd)
	cmd.Flags().BoolVarP(&o.allNamespaces, "all-namespaces", "A", false, "images of every namespace")
	cmd.AddCommand(deleteImagesCommand(a))
	return cmd
}

func deleteImagesCommand(a *app) *cobra.Command {
	var c *client
	cmd := &cobra.Command{
		Use:               "delete NAME:TAG | NAME@DIGEST...",
		ValidArgsFunction: cobra.NoFileCompletions,
		Short:             "Delete tags, or images with all their tags",
		Long: `Deletes a tag, or by its digest an image with all its tags. What no tag names is removed after some time by itself, unless
a pod names it by its digest; until then it counts for the namespace's quota.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError(cmd, "say which image: NAME:TAG or NAME@DIGEST")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			registry, err := c.registry()
			if err != nil {
				return err
			}
			var errs []error
			for _, arg := range args {
				errs = append(errs, registry.delete(cmd.Context(), arg, a))
			}
			return errors.Join(errs...)
		},
	}
	c = newClient(a, cmd)
	return cmd
}

func (r *registryClient) delete(ctx context.Context, text string, a *app) error {
	ref, err := r.reference(text)
	if err != nil {
		return err
	}
	if !strings.ContainsAny(path.Base(text), ":@") {
		return fmt.Errorf("say which image of %s: NAME:TAG or NAME@DIGEST", text)
	}
	if err := remote.Delete(ref, r.options(ctx)...); err != nil {
		return r.explain("delete "+ref.Name(), err)
	}
	_, err = fmt.Fprintf(a.out, "%s deleted\n", ref.Name())
	return err
}

func (o *imagesOptions) list(ctx context.Context, names []string) error {
	registry, err := o.client.registry()
	if err != nil {
		return err
	}
	repositories, err := o.repositories(ctx, registry, names)
	if err != nil {
		return err
	}
	out := printers.GetNewTabWriter(visible(o.client.app.out))
	var errs []error
	rows := 0
	for _, repository := range repositories {
		lines, err := registry.tags(ctx, repository)
		if err != nil {
			errs = append(errs, registry.explain(repository.Name(), err))
		}
		for _, line := range lines {
			if rows++; rows == 1 {
				fmt.Fprintln(out, "IMAGE\tTAG\tDIGEST\tSIZE")
			}
			fmt.Fprintln(out, line)
		}
	}
	errs = append(errs, out.Flush())
	if rows == 0 && errors.Join(errs...) == nil {
		fmt.Fprintln(o.client.app.errOut, "No images found.")
	}
	return errors.Join(errs...)
}

// repositories returns those named, else all of the namespace, or of every one.
func (o *imagesOptions) repositories(ctx context.Context, r *registryClient, names []string) ([]name.Repository, error) {
	var repositories []name.Repository
	for _, text := range names {
		ref, err := r.reference(text)
		if err != nil {
			return nil, err
		}
		repositories = append(repositories, ref.Context())
	}
	if len(names) > 0 {
		return repositories, nil
	}
	host, err := name.NewRegistry(oci.Host)
	if err != nil {
		return nil, err
	}
	all, err := remote.Catalog(ctx, host, r.options(ctx)...)
	if err != nil {
		return nil, r.explain("images", err)
	}
	for _, repository := range all {
		if o.allNamespaces || strings.HasPrefix(repository, r.namespace+"/") {
			repositories = append(repositories, host.Repo(repository))
		}
	}
	return repositories, nil
}

// tags returns a line for each tag of a repository.
func (r *registryClient) tags(ctx context.Context, repository name.Repository) (lines []string, err error) {
	tags, err := remote.List(repository, r.options(ctx)...)
	if err != nil {
		return nil, err
	}
	slices.Sort(tags)
	for _, tag := range tags {
		described, err := remote.Get(repository.Tag(tag), r.options(ctx)...)
		if err != nil {
			return lines, err
		}
		lines = append(lines, fmt.Sprintf("%s\t%s\t%s\t%s", repository.Name(), tag, described.Digest, sizeOf(described)))
	}
	return lines, nil
}

// sizeOf is what an image's layers take, for people; of an index, how many images it lists.
func sizeOf(d *remote.Descriptor) string {
	if d.MediaType.IsIndex() {
		index, err := d.ImageIndex()
		if err != nil {
			return "?"
		}
		manifest, err := index.IndexManifest()
		if err != nil {
			return "?"
		}
		return fmt.Sprintf("%d images", len(manifest.Manifests))
	}
	image, err := d.Image()
	if err != nil {
		return "?"
	}
	manifest, err := image.Manifest()
	if err != nil {
		return "?"
	}
	size := manifest.Config.Size
	for _, layer := range manifest.Layers {
		size += layer.Size
	}
	return sizeText(size)
}
