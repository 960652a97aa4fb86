package registry

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/types"
)

type rules struct{}

// Registry implements Verbs over a store.
type Registry struct{}

var errUnfinished = errors.New("verb is being written")

func (r *Registry) Resources() []*Resource                { return nil }
func (r *Registry) Resource(group, name string) *Resource { return nil }
func (r *Registry) Create(ctx context.Context, res *Resource, req CreateRequest) (Result, error) {
	return Result{}, errUnfinished
}
func (r *Registry) Get(ctx context.Context, res *Resource, namespace, name string) (*Object, error) {
	return nil, errUnfinished
}
func (r *Registry) List(ctx context.Context, res *Resource, req ListRequest) (List, error) {
	return List{}, errUnfinished
}
func (r *Registry) Watch(ctx context.Context, res *Resource, req WatchRequest) (Watcher, error) {
	return nil, errUnfinished
}
func (r *Registry) Update(ctx context.Context, res *Resource, req UpdateRequest) (Result, error) {
	return Result{}, errUnfinished
}
func (r *Registry) Delete(ctx context.Context, res *Resource, req DeleteRequest) (Result, error) {
	return Result{}, errUnfinished
}
func (r *Registry) DeleteCollection(ctx context.Context, res *Resource, list ListRequest, req DeleteRequest) (List, error) {
	return List{}, errUnfinished
}
func (r *Registry) Bind(ctx context.Context, namespace, pod string, uid types.UID, node string) error {
	return errUnfinished
}
