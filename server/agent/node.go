package agent

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"edgepod/server/pki"
	"edgepod/wasmrt/sandbox"
)

const (
	// hardeningCondition tells which layers of hardening do not hold on this node.
	hardeningCondition = corev1.NodeConditionType("edgepod.dev/Hardening")

	// nodeReport is how often the status is reported without a change.
	nodeReport = 5 * time.Minute
)

// keepNode registers the node and keeps its status up to date.
func (a *Agent) keepNode(ctx context.Context) {
	known := false
	var reported time.Time
	pause := 200 * time.Millisecond
	for ctx.Err() == nil {
		wait := a.Node.Look
		node, written, err := a.reportNode(ctx, known, time.Since(reported) >= nodeReport)
		switch {
		case err == nil:
			if !known {
				a.Log.Info("node is registered", "node", a.NodeName)
				ref := &corev1.ObjectReference{Kind: "Node", Name: a.NodeName, UID: node.UID}
				a.events.Event(ref, corev1.EventTypeNormal, "Starting", "Starting edgepod agent.")
			}
			known, pause = true, 200*time.Millisecond
			if written {
				reported = time.Now()
			}
		case ctx.Err() == nil:
			a.Log.Warn("report node", "node", a.NodeName, "err", err)
			wait = pause
			pause = min(2*pause, 5*time.Second)
		}
		sleep(ctx, wait)
	}
}

// reportNode writes the node if its status differs from what the API has, or if it is due. known tells that the node was
// registered before; one that somebody has deleted since is registered anew.
func (a *Agent) reportNode(ctx context.Context, known, due bool) (*corev1.Node, bool, error) {
	var node *corev1.Node
	var err error
	if known {
		node, err = a.getNode(ctx)
	}
	if !known || apierrors.IsNotFound(err) {
		node, err = a.register(ctx)
		due = true
	}
	if err != nil {
		return nil, false, err
	}
	want := node.DeepCopy()
	want.Status = a.nodeStatus(ctx, node.Status, time.Now(), due)
	if !due && equality.Semantic.DeepEqual(want.Status, node.Status) {
		return node, false, nil
	}
	answer := &corev1.Node{}
	err = a.client.updateStatus(ctx, "nodes", "", a.NodeName, want, answer)
	if apierrors.IsConflict(err) {
		// Somebody labelled or tainted the node meanwhile.
		live, getErr := a.getNode(ctx)
		if getErr != nil {
			return nil, false, getErr
		}
		live.Status = a.nodeStatus(ctx, live.Status, time.Now(), true)
		err = a.client.updateStatus(ctx, "nodes", "", a.NodeName, live, answer)
	}
	return answer, true, err
}

func (a *Agent) getNode(ctx context.Context) (*corev1.Node, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	node := &corev1.Node{}
	return node, a.client.core.Get().Resource("nodes").Name(a.NodeName).Do(ctx).Into(node)
}

// register creates the node's object, or brings the labels and annotations that are ours up to date. Taints and other
// people's labels stay.
func (a *Agent) register(ctx context.Context) (*corev1.Node, error) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: a.NodeName, Labels: map[string]string{}, Annotations: map[string]string{}}}
	a.mark(node)
	node.Status = a.nodeStatus(ctx, node.Status, time.Now(), true)
	call, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	created := &corev1.Node{}
	err := a.client.core.Post().Resource("nodes").Body(node).Do(call).Into(created)
	if !apierrors.IsAlreadyExists(err) {
		return created, err
	}
	live, err := a.getNode(ctx)
	if err != nil {
		return nil, err
	}
	before := live.DeepCopy()
	if a.mark(live); equality.Semantic.DeepEqual(before.ObjectMeta, live.ObjectMeta) {
		return live, nil
	}
	updated := &corev1.Node{}
	return updated, a.client.core.Put().Resource("nodes").Name(a.NodeName).Body(live).Do(call).Into(updated)
}

// mark sets our labels and annotations.
func (a *Agent) mark(node *corev1.Node) {
	if node.Labels == nil {
		node.Labels = map[string]string{}
	}
	if node.Annotations == nil {
		node.Annotations = map[string]string{}
	}
	maps.Copy(node.Labels, a.Node.Labels)
	node.Labels[corev1.LabelOSStable] = a.machine.info.OperatingSystem
	node.Labels[corev1.LabelArchStable] = a.machine.info.Architecture
	node.Labels[corev1.LabelHostname] = a.NodeName
	node.Annotations[pki.ServingCertAnnotation] = a.serving.sha256
}

// nodeStatus is the node's status, with the times kept of conditions that hold on. Heartbeats are renewed where beat is set.
func (a *Agent) nodeStatus(ctx context.Context, old corev1.NodeStatus, now time.Time, beat bool) corev1.NodeStatus {
	st := *old.DeepCopy()
	st.Capacity = a.machine.capacity.DeepCopy()
	st.Allocatable = a.machine.capacity.DeepCopy()
	st.NodeInfo = a.machine.info
	st.NodeInfo.KubeletVersion, st.NodeInfo.ContainerRuntimeVersion = a.Node.KubeletVersion, a.Node.RuntimeVersion
	st.DaemonEndpoints.KubeletEndpoint.Port = a.Node.Port
	st.Addresses = []corev1.NodeAddress{
		{Type: corev1.NodeInternalIP, Address: a.machine.ip}, {Type: corev1.NodeHostName, Address: a.NodeName},
	}
	st.Images = a.listImages(ctx, beat)
	own := append(pressure(a.DataDir), hardening(a.Runtime.Layers()), corev1.NodeCondition{
		Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", Message: "edgepod agent is posting ready status",
	})
	for _, c := range own {
		c.LastHeartbeatTime = metav1.Time{Time: now.Truncate(time.Second)}
		c.LastTransitionTime = c.LastHeartbeatTime
		st.Conditions = withCondition(st.Conditions, c, beat)
	}
	return st
}

// withCondition replaces the condition of c's type, or adds it.
func withCondition(all []corev1.NodeCondition, c corev1.NodeCondition, beat bool) []corev1.NodeCondition {
	i := slices.IndexFunc(all, func(o corev1.NodeCondition) bool { return o.Type == c.Type })
	if i < 0 {
		return append(all, c)
	}
	if all[i].Status == c.Status {
		c.LastTransitionTime = all[i].LastTransitionTime
	}
	if !beat {
		c.LastHeartbeatTime = all[i].LastHeartbeatTime
	}
	all[i] = c
	return all
}

// hardening says which layers are missing and what to do about each.
func hardening(layers []sandbox.Layer) corev1.NodeCondition {
	c := corev1.NodeCondition{
		Type: hardeningCondition, Status: corev1.ConditionTrue, Reason: "AllLayersHold", Message: "every layer of hardening holds on this node",
	}
	var missing []string
	for _, l := range layers {
		if l.Held {
			continue
		}
		text := l.Name + " does not hold"
		if l.Reason != "" {
			text += ": " + l.Reason
		}
		if l.Fix != "" {
			text += fmt.Sprintf(" (%s)", l.Fix)
		}
		missing = append(missing, text)
	}
	if len(missing) > 0 {
		c.Status, c.Reason, c.Message = corev1.ConditionFalse, "LayersMissing", strings.Join(missing, "; ")
	}
	return c
}

// sleep waits, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
