package api

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"edgepod/server/registry"
	"edgepod/server/registry/upstream"
)

// action is what somebody wants to do. Of a path that is no resource's, only verb and path are set.
type action struct {
	verb, path                                        string
	group, resource, subresource, namespace, nameOfIt string
}

func (r *request) action() action {
	if r.plural == "" {
		return action{verb: r.verb, path: r.Request().URL.Path}
	}
	act := action{verb: r.verb, group: r.group, resource: r.plural, subresource: r.subresource, namespace: r.namespace, nameOfIt: r.name}
	if r.group == "" && r.plural == "namespaces" {
		act.namespace = r.name
	}
	return act
}

// authorize refuses with 403, in Kubernetes' words, what the caller may not do.
func (a *API) authorize(r *request) error {
	act := r.action()
	allowed, reason := allowed(r.caller, act)
	if node, ok := nodeOf(r.caller); ok && allowed {
		switch reason {
		case onlyOwnPods:
			allowed = a.podIsOn(r, node)
		case onlyNeeded:
			allowed = a.podsNeed(r, node)
		}
	}
	if allowed {
		return nil
	}
	return forbidden(r.caller, act, reason)
}

// authorizeCreate holds nodes to objects of their own name, which the path of a creation does not tell.
func (r *request) authorizeCreate(name string) error {
	node, ok := nodeOf(r.caller)
	if !ok || name == node || r.plural != "nodes" && r.plural != "leases" {
		return nil
	}
	act := r.action()
	act.nameOfIt = name
	return forbidden(r.caller, act, onlyItself)
}

// nodeOf returns the name of the node whose agent the caller is.
func nodeOf(caller registry.Caller) (string, bool) {
	node, ok := strings.CutPrefix(caller.Name, userNodePrefix)
	return node, ok && slices.Contains(caller.Groups, groupNodes) && !slices.Contains(caller.Groups, groupMasters)
}

func forbidden(caller registry.Caller, act action, reason string) error {
	err := fmt.Errorf("%s", escape(act.refusal(caller.Name)))
	if reason != "" {
		err = fmt.Errorf("%w: %s", err, reason)
	}
	return apierrors.NewForbidden(schema.GroupResource{Group: act.group, Resource: act.resource}, act.nameOfIt, err)
}

// escape keeps an error from being taken for HTML.
var escape = strings.NewReplacer(`&`, "&amp;", `<`, "&lt;", `>`, "&gt;").Replace

func (act action) refusal(user string) string {
	if act.resource == "" {
		return fmt.Sprintf("User %q cannot %s path %q", user, act.verb, act.path)
	}
	resource := act.resource
	if act.subresource != "" {
		resource += "/" + act.subresource
	}
	what := fmt.Sprintf("User %q cannot %s resource %q in API group %q", user, act.verb, resource, act.group)
	if act.namespace != "" {
		return fmt.Sprintf("%s in the namespace %q", what, act.namespace)
	}
	return what + " at the cluster scope"
}

// Reasons that narrow what a node may do.
const (
	onlyItself  = "a node may change nothing but itself and its lease"
	onlyOwnPods = "a node may change only pods that are bound to it"
	onlyNeeded  = "a node may read, one by one and by name, only what pods that are bound to it refer to"
)

// allowed decides by the caller's groups: masters do everything, nodes what an agent needs, everybody with a name sees what
// the server serves, and anybody its health. The reasons onlyOwnPods and onlyNeeded with a yes leave the last word to the
// node's pods.
func allowed(caller registry.Caller, act action) (bool, string) {
	switch {
	case slices.Contains(caller.Groups, groupMasters):
		return true, ""
	case act.resource == "":
		return allowedPath(caller, act), ""
	case reviewOfOneself(act):
		return slices.Contains(caller.Groups, groupAuthenticated), ""
	}
	if node, ok := nodeOf(caller); ok {
		return allowedNode(node, act)
	}
	return false, ""
}

func allowedPath(caller registry.Caller, act action) bool {
	if act.verb != "get" && act.verb != "head" {
		return false
	}
	first, _, _ := strings.Cut(strings.TrimPrefix(act.path, "/"), "/")
	switch first {
	case "livez", "readyz", "healthz", "version":
		return true
	case "api", "apis", "openapi":
		return slices.Contains(caller.Groups, groupAuthenticated)
	}
	return false
}

// MayUseImages tells whether the caller may pull images of any namespace, or push and delete them: masters do everything,
// and nodes pull.
func MayUseImages(caller registry.Caller, change bool) bool {
	return slices.Contains(caller.Groups, groupMasters) || !change && slices.Contains(caller.Groups, groupNodes)
}

// nodeRules are the verbs that an agent has on each resource, by "resource[/subresource].group".
var nodeRules = map[string][]string{
	"nodes":                      {"create", "get", "list", "watch", "update", "patch"},
	"nodes/status":               {"get", "update", "patch"},
	"pods":                       {"get", "list", "watch", "delete"},
	"pods/status":                {"get", "update", "patch"},
	"events":                     {"create", "patch", "update"},
	"leases.coordination.k8s.io": {"create", "get", "list", "watch", "update", "patch"},
	"configmaps":                 {"get", "list", "watch"},
	"secrets":                    {"get", "list", "watch"},
	"namespaces":                 {"get", "list", "watch"},
	"serviceaccounts":            {"get", "list", "watch"},
}

func allowedNode(node string, act action) (bool, string) {
	key := act.resource
	if act.subresource != "" {
		key += "/" + act.subresource
	}
	if act.group != "" {
		key += "." + act.group
	}
	if !slices.Contains(nodeRules[key], act.verb) {
		return false, ""
	}
	reads := act.verb == "get" || act.verb == "list" || act.verb == "watch"
	switch act.resource {
	case "leases":
		if act.namespace != corev1.NamespaceNodeLease {
			return false, ""
		}
		return reads || act.verb == "create" || act.nameOfIt == node, onlyItself
	case "nodes":
		return reads || act.verb == "create" || act.nameOfIt == node, onlyItself
	case "pods":
		if !reads {
			return true, onlyOwnPods
		}
	case "configmaps", "secrets":
		return true, onlyNeeded
	}
	return true, ""
}

// podIsOn tells whether the pod that the request names is bound to the node. Of a pod that doesn't exist the verb tells.
func (a *API) podIsOn(r *request, node string) bool {
	object, err := a.Registry.Get(r.Request().Context(), a.Registry.Resource("", "pods"), r.namespace, r.name)
	if err != nil {
		return apierrors.IsNotFound(err)
	}
	return object.Runtime().(*corev1.Pod).Spec.NodeName == node
}

// podsNeed tells whether the request is for one object, by its name, that a pod refers to which is bound to the node.
func (a *API) podsNeed(r *request, node string) bool {
	name := r.name
	if name == "" {
		selector, err := fields.ParseSelector(r.query().Get("fieldSelector"))
		if err != nil {
			return false
		}
		name, _ = selector.RequiresExactMatch("metadata.name")
	}
	if name == "" || r.namespace == "" {
		return false
	}
	pods, err := a.Registry.List(r.Request().Context(), a.Registry.Resource("", "pods"), registry.ListRequest{
		Namespace: r.namespace, Field: fields.OneTermEqualSelector("spec.nodeName", node),
	})
	return err == nil && slices.ContainsFunc(pods.Items, func(o *registry.Object) bool {
		return upstream.PodRefersTo(o.Runtime().(*corev1.Pod), r.plural, name)
	})
}
