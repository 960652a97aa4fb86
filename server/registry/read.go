package registry

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"edgepod/server/store"
)

// Get returns an object as it is now.
func (r *Registry) Get(ctx context.Context, res *Resource, namespace, name string) (*Object, error) {
	entry, err := r.store.Get(ctx, res.key(namespace, name))
	if err != nil {
		return nil, statusOf(err, res, name)
	}
	o, err := objectOf(res, entry)
	return o, statusOf(err, res, name)
}

// scanPage is how many entries a list with selectors and a limit looks at in one go.
const scanPage = 500

// List returns the objects that the request selects, as they were at one revision.
func (r *Registry) List(ctx context.Context, res *Resource, req ListRequest) (List, error) {
	sel, err := newSelection(res, req.Namespace, req.Label, req.Field)
	if err != nil {
		return List{}, err
	}
	q, err := r.query(sel, req)
	if err != nil {
		return List{}, err
	}
	if req.Limit > 0 && !sel.everything() {
		return r.scan(ctx, sel, q, req)
	}
	q.Limit = int(req.Limit)
	page, err := r.store.List(ctx, q)
	if err != nil {
		return List{}, r.listError(err, res, q.At, req.Continue)
	}
	list := List{ResourceVersion: strconv.FormatInt(page.Revision, 10)}
	if list.Items, err = sel.filter(page.Entries, nil, 0); err != nil {
		return List{}, statusOf(err, res, "")
	}
	if page.More {
		list.Continue = continueAfter(page.Entries[len(page.Entries)-1].Key, req.Namespace, page.Revision)
		list.Remaining = &page.Remaining
	}
	return list, nil
}

// scan reads on until the limit is reached or nothing is left.
func (r *Registry) scan(ctx context.Context, sel *selection, q store.Query, req ListRequest) (List, error) {
	var list List
	q.Limit = max(scanPage, int(req.Limit))
	for {
		page, err := r.store.List(ctx, q)
		if err != nil {
			return List{}, r.listError(err, sel.res, q.At, req.Continue)
		}
		list.ResourceVersion = strconv.FormatInt(page.Revision, 10)
		if list.Items, err = sel.filter(page.Entries, list.Items, int(req.Limit)); err != nil {
			return List{}, statusOf(err, sel.res, "")
		}
		last := len(page.Entries) - 1
		if len(list.Items) == int(req.Limit) {
			end := sel.res.key(list.Items[req.Limit-1].Meta().GetNamespace(), list.Items[req.Limit-1].Meta().GetName())
			if page.More || page.Entries[last].Key != end {
				list.Continue = continueAfter(end, req.Namespace, page.Revision)
			}
			return list, nil
		}
		if !page.More {
			return list, nil
		}
		q.At, q.After = page.Revision, page.Entries[last].Key
	}
}

// query turns what the request says about revisions into what the store is asked.
//
//	continue     the revision of the token, or the newest where the token says so
//	"", "0"      the newest
//	N            Exact, or with a limit: at N; else: the newest, which must be N or newer
func (r *Registry) query(sel *selection, req ListRequest) (store.Query, error) {
	q := store.Query{Resource: sel.res.GroupResource().String(), Namespace: sel.namespace}
	if req.Continue != "" {
		if req.ResourceVersion != "" && req.ResourceVersion != "0" {
			return q, apierrors.NewBadRequest("specifying resource version is not allowed when using continue")
		}
		token, err := parseContinue(req.Continue)
		if err != nil {
			return q, apierrors.NewBadRequest(fmt.Sprintf("invalid continue token: %v", err))
		}
		q.After, q.At = token.after(sel.res, req.Namespace), max(token.Revision, 0)
		return q, nil
	}
	asked, err := parseRevision(req.ResourceVersion)
	if err != nil || asked == 0 {
		return q, err
	}
	if newest := r.store.Revision(); asked > newest {
		return q, tooLarge(asked, newest)
	}
	if req.ResourceVersionMatch == metav1.ResourceVersionMatchExact || req.ResourceVersionMatch == "" && req.Limit > 0 {
		q.At = asked
	}
	return q, nil
}

func parseRevision(s string) (int64, error) {
	if s == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 {
		return 0, apierrors.NewBadRequest(fmt.Sprintf("resourceVersion: Invalid value: %q: must be a number that a list or an object carried", s))
	}
	return n, nil
}

func (r *Registry) listError(err error, res *Resource, at int64, token string) error {
	switch {
	case errors.Is(err, store.ErrFuture):
		return tooLarge(at, r.store.Revision())
	case errors.Is(err, store.ErrExpired) && token == "":
		return apierrors.NewResourceExpired(textListExpired)
	case errors.Is(err, store.ErrExpired):
		expired := apierrors.NewResourceExpired(textContinueExpired)
		t, _ := parseContinue(token)
		t.Revision = -1
		expired.ErrStatus.Continue = t.String()
		return expired
	}
	return statusOf(err, res, "")
}

// continueToken says where a list goes on, in the format of Kubernetes. Start is the last key seen ("name", or
// "namespace/name" in lists of all namespaces) with a zero byte behind it. A Revision of -1 is the newest.
type continueToken struct {
	Version  string `json:"v"`
	Revision int64  `json:"rv"`
	Start    string `json:"start"`
}

const (
	continueVersion = "meta.k8s.io/v1"
	continueEnd     = "\x00"
)

func continueAfter(key store.Key, requested string, revision int64) string {
	start := key.Name
	if requested == "" && key.Namespace != "" {
		start = key.Namespace + "/" + key.Name
	}
	return continueToken{Version: continueVersion, Revision: revision, Start: start + continueEnd}.String()
}

// String is the token as clients get it.
func (t continueToken) String() string {
	b, err := json.Marshal(t)
	if err != nil {
		panic(err) // of strings and a number
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

func parseContinue(s string) (continueToken, error) {
	var t continueToken
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		return t, fmt.Errorf("continue key is not valid: %w", err)
	}
	if err := json.Unmarshal(b, &t); err != nil {
		return t, fmt.Errorf("continue key is not valid: %w", err)
	}
	start, ended := strings.CutSuffix(t.Start, continueEnd)
	switch {
	case t.Version != continueVersion:
		return t, fmt.Errorf("continue key is not valid: server does not recognize this encoded version %s", t.Version)
	case t.Revision == 0:
		return t, errors.New("continue key is not valid: incorrect encoded start resourceVersion (version meta.k8s.io/v1)")
	case t.Start == "":
		return t, errors.New("continue key is not valid: encoded start key empty (version meta.k8s.io/v1)")
	case !ended, path.Clean("/"+start) != "/"+start:
		return t, fmt.Errorf("continue key is not valid: %s", t.Start)
	}
	return t, nil
}

func (t continueToken) after(res *Resource, requested string) store.Key {
	start := strings.TrimSuffix(t.Start, continueEnd)
	if requested == "" && res.Namespaced {
		namespace, name, _ := strings.Cut(start, "/")
		return res.key(namespace, name)
	}
	return res.key(requested, start)
}
