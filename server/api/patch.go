package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"slices"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/mergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"edgepod/server/registry"
)

// patchTypes are the forms of patches that are taken, in the order in which errors name them.
var patchTypes = []string{string(types.JSONPatchType), string(types.MergePatchType), string(types.StrategicMergePatchType)}

// maxPatchOperations is how many operations a JSON patch may have, and maxPatchCopies how many of them may be copies.
const (
	maxPatchOperations = 10_000
	maxPatchCopies     = 100
)

func (a *API) patch(r *request) error {
	kind, err := patchType(r.Request())
	if err != nil {
		return err
	}
	if err := r.negotiateObject(); err != nil {
		return err
	}
	body, err := a.body(r)
	if err != nil {
		return err
	}
	options, err := r.patchOptions(kind)
	if err != nil {
		return err
	}
	p := &patcher{resource: r.resource, namespace: r.namespace, name: r.name, validation: options.validation, limit: int(a.Limits.Body)}
	if err := p.read(kind, body); err != nil {
		return err
	}
	return a.modify(r, options, nil, p.apply, func() int {
		r.warn(p.warnings...)
		return http.StatusOK
	})
}

func patchType(req *http.Request) (types.PatchType, error) {
	name, _, err := mime.ParseMediaType(req.Header.Get("Content-Type"))
	if err != nil || !slices.Contains(patchTypes, name) {
		return "", unsupportedMediaType(patchTypes...)
	}
	return types.PatchType(name), nil
}

// patcher applies one patch, to as many states of the object as conflicts make it see.
type patcher struct {
	resource        *registry.Resource
	namespace, name string
	validation      string
	limit           int // of the patched object, in bytes

	operations jsonpatch.Patch // a JSON patch
	merge      map[string]any  // a merge patch
	strategic  map[string]any  // a strategic merge patch
	unknown    []error         // what strict reading of the patch itself found
	touched    touched

	warnings []string
}

// read takes the patch apart once.
func (p *patcher) read(kind types.PatchType, body []byte) error {
	var err error
	switch kind {
	case types.JSONPatchType:
		if p.operations, err = p.readOperations(body); err != nil {
			return err
		}
		if n := len(p.operations); n > maxPatchOperations {
			return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("The allowed maximum operations in a JSON patch is %d, got %d", maxPatchOperations, n))
		}
		p.touched = touchedByOperations(p.operations)
		if n := copies(p.operations); n > maxPatchCopies {
			return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("The allowed maximum of copies in a JSON patch is %d, got %d", maxPatchCopies, n))
		}
	case types.MergePatchType:
		if err = p.readStrict(body, &p.merge); err != nil {
			return badRequest("error decoding patch: %v", err)
		}
		if p.merge == nil {
			return badRequest("error decoding patch: it must be an object")
		}
		p.touched = touchedByKeys(p.merge)
	default:
		p.strategic = map[string]any{}
		if err = p.readStrict(body, &p.strategic); err != nil {
			return badRequest("%v", err)
		}
		p.touched = touchedByKeys(p.strategic)
	}
	return nil
}

// jsonPatchOp is the form of an operation, for strict reading.
type jsonPatchOp struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	From  string `json:"from"`
	Value any    `json:"value"`
}

func (p *patcher) readOperations(body []byte) (jsonpatch.Patch, error) {
	var shape []jsonPatchOp
	if err := p.readStrict(body, &shape); err != nil {
		return nil, badRequest("error decoding patch: %v", err)
	}
	for i, err := range p.unknown {
		p.unknown[i] = fmt.Errorf("json patch %w", err)
	}
	operations, err := jsonpatch.DecodePatch(body)
	if err != nil {
		return nil, badRequest("%v", err)
	}
	return operations, nil
}

func (p *patcher) readStrict(body []byte, into any) (err error) {
	if p.validation == metav1.FieldValidationIgnore {
		return kjson.UnmarshalCaseSensitivePreserveInts(body, into)
	}
	p.unknown, err = kjson.UnmarshalStrict(body, into)
	return err
}

// apply is the registry's Modify.
func (p *patcher) apply(live runtime.Object) (runtime.Object, error) {
	p.warnings = nil
	patched, err := p.patched(live)
	if err != nil {
		return nil, err
	}
	accessor, err := meta.Accessor(patched)
	if err != nil {
		return nil, err
	}
	if err := matchName(p.name, accessor); err != nil {
		return nil, err
	}
	if err := matchNamespace(p.namespace, accessor); err != nil {
		return nil, err
	}
	if kind := patched.GetObjectKind().GroupVersionKind(); kind != p.resource.Kind {
		return nil, invalidPatch(kind.String(), fmt.Sprintf("%s in version %q cannot be handled as a %s: a patch may not change what an object is",
			kind.Kind, kind.GroupVersion(), p.resource.Kind.Kind))
	}
	return patched, nil
}

// patched takes apart only what the patch touches, and puts it back into the live object.
func (p *patcher) patched(live runtime.Object) (runtime.Object, error) {
	part := p.resource.New()
	if p.touched == nil || !p.touched.copyFields(part, live) {
		return p.patchAll(live)
	}
	part.GetObjectKind().SetGroupVersionKind(p.resource.Kind)
	part, err := p.patchAll(part)
	if err != nil {
		return nil, err
	}
	p.touched.copyFields(live, part)
	return live, nil
}

func (p *patcher) patchAll(live runtime.Object) (runtime.Object, error) {
	if p.strategic != nil {
		return p.applyStrategic(live)
	}
	after, err := p.document(live)
	if err != nil {
		return nil, err
	}
	patched := p.resource.New()
	if p.validation == metav1.FieldValidationIgnore {
		err = kjson.UnmarshalCaseSensitivePreserveInts(after, patched)
		return patched, p.outcome(string(after), nil, err)
	}
	unknown, err := kjson.UnmarshalStrict(after, patched)
	return patched, p.outcome(string(after), unknown, err)
}

// document is the live object in JSON, patched.
func (p *patcher) document(live runtime.Object) ([]byte, error) {
	if p.merge != nil {
		document, err := runtime.DefaultUnstructuredConverter.ToUnstructured(live)
		if err != nil {
			return nil, err
		}
		mergeObject(document, p.merge)
		return json.Marshal(document)
	}
	before, err := json.Marshal(live)
	if err != nil {
		return nil, err
	}
	return p.operate(before)
}

// operate applies a JSON patch. Operations that copy can double a document each: they are applied one by one, and the
// document is measured between them.
func (p *patcher) operate(document []byte) ([]byte, error) {
	rest := p.operations
	for len(rest) > 0 {
		n := slices.IndexFunc(rest, func(op jsonpatch.Operation) bool { return op.Kind() == "copy" })
		if n = n + 1; n == 0 {
			n = len(rest)
		}
		var err error
		if document, err = careful(func() ([]byte, error) { return rest[:n].Apply(document) }); err != nil {
			return nil, apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", groupless, "", err.Error(), 0, false)
		}
		if len(document) > p.limit {
			return nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("the patched object is larger than %d bytes", p.limit))
		}
		rest = rest[n:]
	}
	return document, nil
}

// copies counts the operations of a patch that copy.
func copies(operations jsonpatch.Patch) (n int) {
	for _, op := range operations {
		if op.Kind() == "copy" {
			n++
		}
	}
	return n
}

// applyStrategic merges maps rather than text. The patch is copied first, because merging eats its directives.
func (p *patcher) applyStrategic(live runtime.Object) (runtime.Object, error) {
	before, err := runtime.DefaultUnstructuredConverter.ToUnstructured(live)
	if err != nil {
		return nil, err
	}
	patch := runtime.DeepCopyJSON(p.strategic)
	after, err := careful(func() (map[string]any, error) {
		return strategicpatch.StrategicMergeMapPatch(before, patch, p.resource.New())
	})
	if err != nil {
		return nil, strategicError(err)
	}
	patched := p.resource.New()
	err = runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(after, patched, p.validation != metav1.FieldValidationIgnore)
	var unknown []error
	if strict, ok := runtime.AsStrictDecodingError(err); ok {
		unknown, err = strict.Errors(), nil
	}
	return patched, p.outcome(fmt.Sprintf("%+v", patch), unknown, err)
}

// careful calls a library that panics on some patches, and makes an error of that.
func careful[T any](call func() (T, error)) (result T, err error) {
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("the patch does not fit the object: %v", value)
		}
	}()
	return call()
}

func strategicError(err error) error {
	switch {
	case errors.Is(err, mergepatch.ErrBadJSONDoc), errors.Is(err, mergepatch.ErrBadPatchFormatForPrimitiveList),
		errors.Is(err, mergepatch.ErrBadPatchFormatForRetainKeys), errors.Is(err, mergepatch.ErrBadPatchFormatForSetElementOrderList),
		errors.Is(err, mergepatch.ErrUnsupportedStrategicMergePatchFormat):
		return badRequest("%v", err)
	}
	return statusError(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, err.Error())
}

func invalidPatch(value, text string) error {
	return apierrors.NewInvalid(schema.GroupKind{}, "", field.ErrorList{field.Invalid(field.NewPath("patch"), value, text)})
}

// outcome tells what the patched object is: not readable, or with fields that are unknown.
func (p *patcher) outcome(value string, unknown []error, err error) error {
	unknown = append(slices.Clone(p.unknown), unknown...)
	if err == nil && len(unknown) > 0 && p.validation == metav1.FieldValidationStrict {
		err = runtime.NewStrictDecodingError(unknown)
	}
	if err != nil {
		return invalidPatch(value, err.Error())
	}
	for _, err := range unknown {
		p.warnings = append(p.warnings, err.Error())
	}
	return nil
}
