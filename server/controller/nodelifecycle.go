package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"edgepod/server/registry"
)

// The periods of Kubernetes' node lifecycle controller.
const (
	nodeMonitorPeriod = 5 * time.Second
	nodeMonitorGrace  = 40 * time.Second
)

// NodeLifecycle watches over the nodes' heart-beats: a node that shows no sign of life gets conditions of status Unknown, and
// the taints of a node that is not ready or not reachable follow its condition Ready.
type NodeLifecycle struct {
	config Config
	log    *slog.Logger
	// seen holds when this loop saw a sign of life of a node last, by the clock of this machine: the nodes' clocks may differ.
	seen map[string]heartbeat
}

// heartbeat is a sign of life: the node's Lease was renewed, or its status written by the node itself.
type heartbeat struct {
	lease  string
	status time.Time
	at     time.Time
}

// NewNodeLifecycle returns the loop.
func NewNodeLifecycle(config Config) *NodeLifecycle {
	return &NodeLifecycle{config: config, log: config.logger("nodelifecycle"), seen: map[string]heartbeat{}}
}

// Run implements Loop.
func (n *NodeLifecycle) Run(ctx context.Context) error {
	var wait sync.WaitGroup
	defer wait.Wait()
	changed := make(chan struct{}, 1)
	wait.Go(func() {
		follow(ctx, n.config, n.log, "", "nodes", func(changes []change) {
			if !slices.ContainsFunc(changes, needsTaints) {
				return
			}
			select {
			case changed <- struct{}{}:
			default:
			}
		})
	})
	tick := time.NewTicker(nodeMonitorPeriod)
	defer tick.Stop()
	for ctx.Err() == nil {
		if err := n.sweep(ctx, time.Now()); err != nil && ctx.Err() == nil {
			n.log.Warn("look at nodes", "err", err)
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		case <-changed:
		}
	}
	return nil
}

// needsTaints tells whether the node's taints do not agree with its conditions.
func needsTaints(c change) bool {
	_, node := typed[corev1.Node](c)
	return node != nil && planTaints(node.DeepCopy(), time.Time{})
}

func (n *NodeLifecycle) sweep(ctx context.Context, now time.Time) error {
	list, err := n.config.Verbs.List(ctx, n.config.Verbs.Resource("", "nodes"), registry.ListRequest{})
	if err != nil {
		return err
	}
	var errs []error
	names := map[string]bool{}
	for _, object := range list.Items {
		node := object.Runtime().(*corev1.Node)
		names[node.Name] = true
		if err := n.look(ctx, node, now); err != nil {
			errs = append(errs, fmt.Errorf("node %s: %w", node.Name, err))
		}
	}
	for name := range n.seen {
		if !names[name] {
			delete(n.seen, name)
		}
	}
	return errors.Join(errs...)
}

func (n *NodeLifecycle) look(ctx context.Context, node *corev1.Node, now time.Time) error {
	lost, err := n.lost(ctx, node, now)
	if err != nil {
		return err
	}
	return n.correct(ctx, node, lost, now)
}

// lost tells whether there has been no sign of life of the node for the grace period.
func (n *NodeLifecycle) lost(ctx context.Context, node *corev1.Node, now time.Time) (bool, error) {
	lease, err := n.config.Verbs.Get(ctx, n.config.Verbs.Resource("coordination.k8s.io", "leases"), corev1.NamespaceNodeLease, node.Name)
	beat := heartbeat{status: heardOf(node), at: now}
	switch {
	case err == nil:
		beat.lease = string(lease.Meta().GetUID()) + lease.Meta().GetResourceVersion()
	case !apierrors.IsNotFound(err):
		return false, err
	}
	last, known := n.seen[node.Name]
	if !known || last.lease != beat.lease || !last.status.Equal(beat.status) {
		last = beat
		n.seen[node.Name] = last
	}
	return now.Sub(last.at) >= nodeMonitorGrace, nil
}

// heardOf is when the node itself wrote its status last.
func heardOf(node *corev1.Node) time.Time {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.LastHeartbeatTime.Time
		}
	}
	return time.Time{}
}

// correct writes what the plans ask for, status and taints apart as the API has them.
func (n *NodeLifecycle) correct(ctx context.Context, node *corev1.Node, lost bool, now time.Time) error {
	nodes := n.config.Verbs.Resource("", "nodes")
	if lost && planLost(node.DeepCopy(), now) {
		n.log.Info("node is lost", "node", node.Name)
		result, err := n.config.Verbs.Update(ctx, nodes, registry.UpdateRequest{
			Name: node.Name, Subresource: "status",
			Modify: func(live runtime.Object) (runtime.Object, error) {
				if live := live.(*corev1.Node); heardOf(live).Equal(heardOf(node)) {
					planLost(live, now)
				}
				return live, nil
			},
		})
		if err != nil {
			return ignoreNotFound(err)
		}
		node = result.Object.Runtime().(*corev1.Node)
	}
	if !planTaints(node.DeepCopy(), now) {
		return nil
	}
	_, err := n.config.Verbs.Update(ctx, nodes, registry.UpdateRequest{
		Name: node.Name,
		Modify: func(live runtime.Object) (runtime.Object, error) {
			planTaints(live.(*corev1.Node), now)
			return live, nil
		},
	})
	return ignoreNotFound(err)
}

// heartbeatConditions are those that nobody but the node's agent can vouch for.
var heartbeatConditions = []corev1.NodeConditionType{
	corev1.NodeReady, corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure,
}

// planLost turns the conditions of a node without heart-beat to Unknown and tells whether that changed anything.
func planLost(node *corev1.Node, now time.Time) (changed bool) {
	for _, kind := range heartbeatConditions {
		i := slices.IndexFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == kind })
		if i < 0 {
			if kind != corev1.NodeReady {
				continue
			}
			node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{
				Type: kind, Status: corev1.ConditionUnknown, Reason: "NodeStatusNeverUpdated",
				Message: "Kubelet never posted node status.", LastHeartbeatTime: node.CreationTimestamp, LastTransitionTime: metav1.NewTime(now),
			})
			changed = true
			continue
		}
		condition := &node.Status.Conditions[i]
		if condition.Status == corev1.ConditionUnknown {
			continue
		}
		condition.Status, condition.Reason = corev1.ConditionUnknown, "NodeStatusUnknown"
		condition.Message = "Kubelet stopped posting node status."
		condition.LastTransitionTime = metav1.NewTime(now)
		changed = true
	}
	return changed
}

// planTaints makes the taints that Kubernetes derives from the conditions agree with them, and tells whether that changed
// anything.
func planTaints(node *corev1.Node, now time.Time) (changed bool) {
	ready := corev1.ConditionUnknown
	bad := map[string]bool{}
	for _, condition := range node.Status.Conditions {
		yes := condition.Status == corev1.ConditionTrue
		switch condition.Type {
		case corev1.NodeReady:
			ready = condition.Status
		case corev1.NodeMemoryPressure:
			bad[corev1.TaintNodeMemoryPressure] = yes
		case corev1.NodeDiskPressure:
			bad[corev1.TaintNodeDiskPressure] = yes
		case corev1.NodePIDPressure:
			bad[corev1.TaintNodePIDPressure] = yes
		case corev1.NodeNetworkUnavailable:
			bad[corev1.TaintNodeNetworkUnavailable] = yes
		}
	}
	set := func(key string, effect corev1.TaintEffect, want bool) {
		if setTaint(node, corev1.Taint{Key: key, Effect: effect}, want, now) {
			changed = true
		}
	}
	set(corev1.TaintNodeNotReady, corev1.TaintEffectNoSchedule, ready == corev1.ConditionFalse)
	set(corev1.TaintNodeNotReady, corev1.TaintEffectNoExecute, ready == corev1.ConditionFalse)
	set(corev1.TaintNodeUnreachable, corev1.TaintEffectNoSchedule, ready == corev1.ConditionUnknown)
	set(corev1.TaintNodeUnreachable, corev1.TaintEffectNoExecute, ready == corev1.ConditionUnknown)
	set(corev1.TaintNodeUnschedulable, corev1.TaintEffectNoSchedule, node.Spec.Unschedulable)
	for _, key := range []string{
		corev1.TaintNodeMemoryPressure, corev1.TaintNodeDiskPressure, corev1.TaintNodePIDPressure, corev1.TaintNodeNetworkUnavailable,
	} {
		set(key, corev1.TaintEffectNoSchedule, bad[key])
	}
	return changed
}

func setTaint(node *corev1.Node, taint corev1.Taint, want bool, now time.Time) (changed bool) {
	i := slices.IndexFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == taint.Key && t.Effect == taint.Effect })
	switch {
	case want && i < 0:
		if taint.Effect == corev1.TaintEffectNoExecute {
			at := metav1.NewTime(now)
			taint.TimeAdded = &at
		}
		node.Spec.Taints = append(node.Spec.Taints, taint)
		return true
	case !want && i >= 0:
		node.Spec.Taints = slices.Delete(node.Spec.Taints, i, i+1)
		return true
	}
	return false
}
