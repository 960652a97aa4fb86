package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/jsonmergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

type applyOptions struct {
	client    *client
	files     []string
	recursive bool
	dryRun    bool
}

func applyCommand(a *app) *cobra.Command {
	o := &applyOptions{}
	cmd := &cobra.Command{
		Use:     "apply -f FILE",
		Short:   "Create objects, or change them to what a file says",
		Example: "  edgepod apply -f pod.yaml\n  edgepod apply -f manifests/\n  cat pod.json | edgepod apply -f -",
		Args:    noArguments,
		RunE:    func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	o.client = newClient(a, cmd)
	addFileFlags(cmd.Flags(), &o.files, &o.recursive)
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "let the server check everything, and change nothing")
	return cmd
}

func (o *applyOptions) run(ctx context.Context) error {
	if len(o.files) == 0 {
		return errors.New("say what to apply: -f FILE, -f FOLDER, or -f - for standard input")
	}
	targets, err := o.client.manifests(o.files, o.recursive)
	if err != nil {
		return err
	}
	var errs []error
	for _, t := range targets {
		done, err := o.apply(ctx, t)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", t, err))
			continue
		}
		if o.dryRun {
			done += " (dry run)"
		}
		if _, err := fmt.Fprintf(o.client.app.out, "%s %s\n", t, done); err != nil {
			return err
		}
	}
	return errors.Join(errs...)
}

// apply brings one object to what its file says, and returns what it did to it.
func (o *applyOptions) apply(ctx context.Context, t target) (done string, err error) {
	if t.name == "" {
		return "", errors.New("an object to apply needs a name")
	}
	modified, err := withLastApplied(t.object)
	if err != nil {
		return "", err
	}
	api, err := o.client.api()
	if err != nil {
		return "", err
	}
	live, err := o.client.get(ctx, t)
	if apierrors.IsNotFound(err) {
		body, err := modified.MarshalJSON()
		if err != nil {
			return "", err
		}
		parent := t
		parent.name = ""
		return "created", o.send(ctx, api.Post().AbsPath(parent.path()...), "application/json", body)
	}
	if err != nil {
		return "", err
	}
	patch, kind, err := threeWayPatch(live, modified)
	if err != nil {
		return "", err
	}
	if string(patch) == "{}" {
		return "unchanged", nil
	}
	return "configured", o.send(ctx, api.Patch(kind).AbsPath(t.path()...), string(kind), patch)
}

// send does a request that writes.
func (o *applyOptions) send(ctx context.Context, req *rest.Request, mediaType string, body []byte) error {
	req.SetHeader("Content-Type", mediaType).Body(body).
		Param("fieldManager", fieldManager).Param("fieldValidation", metav1.FieldValidationStrict)
	if o.dryRun {
		req.Param("dryRun", metav1.DryRunAll)
	}
	return req.Do(ctx).Error()
}

// withLastApplied returns a copy of obj that carries itself in the annotation in which kubectl, too, looks for what the
// file said last time.
func withLastApplied(obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	obj = obj.DeepCopy()
	annotations := obj.GetAnnotations()
	delete(annotations, corev1.LastAppliedConfigAnnotation)
	obj.SetAnnotations(annotations)
	data, err := obj.MarshalJSON()
	if err != nil {
		return nil, err
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[corev1.LastAppliedConfigAnnotation] = string(data)
	obj.SetAnnotations(annotations)
	return obj, nil
}

// threeWayPatch returns the patch that makes live what modified says, dropping what the file said last time and no
// longer does, and leaving alone what others have set.
func threeWayPatch(live, modified *unstructured.Unstructured) (patch []byte, kind types.PatchType, err error) {
	original := []byte(live.GetAnnotations()[corev1.LastAppliedConfigAnnotation])
	current, err := json.Marshal(live)
	if err != nil {
		return nil, "", err
	}
	wanted, err := json.Marshal(modified)
	if err != nil {
		return nil, "", err
	}
	typed, err := scheme.Scheme.New(modified.GroupVersionKind())
	if runtime.IsNotRegisteredError(err) {
		patch, err = jsonmergepatch.CreateThreeWayJSONMergePatch(original, wanted, current)
		return patch, types.MergePatchType, err
	}
	if err != nil {
		return nil, "", err
	}
	lookup, err := strategicpatch.NewPatchMetaFromStruct(typed)
	if err != nil {
		return nil, "", err
	}
	patch, err = strategicpatch.CreateThreeWayMergePatch(original, wanted, current, lookup, true)
	return patch, types.StrategicMergePatchType, err
}
