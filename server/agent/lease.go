package agent

import (
	"context"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A lease is renewed every leaseRenewal, and says that the node is alive for leaseSeconds.
const (
	leaseRenewal = 10 * time.Second
	leaseSeconds = 40
)

// keepLease renews the node's lease.
func (a *Agent) keepLease(ctx context.Context) {
	var lease *coordinationv1.Lease
	pause := 200 * time.Millisecond
	for ctx.Err() == nil {
		wait := leaseRenewal
		next, err := a.renewLease(ctx, lease)
		if lease = next; err == nil {
			pause = 200 * time.Millisecond
		} else if ctx.Err() == nil {
			a.Log.Warn("renew the node's lease", "node", a.NodeName, "err", err)
			lease, wait = nil, pause
			pause = min(2*pause, 5*time.Second)
		}
		sleep(ctx, wait)
	}
}

// renewLease writes the lease on top of the one that the API answered last, nil for not known.
func (a *Agent) renewLease(ctx context.Context, lease *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, leaseRenewal)
	defer cancel()
	if lease == nil {
		live := &coordinationv1.Lease{}
		err := a.client.leases.Get().Namespace(corev1.NamespaceNodeLease).Resource("leases").Name(a.NodeName).Do(ctx).Into(live)
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return nil, err
		default:
			lease = live
		}
	}
	seconds := int32(leaseSeconds)
	now := metav1.NowMicro()
	out := &coordinationv1.Lease{}
	if lease == nil {
		lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: a.NodeName, Namespace: corev1.NamespaceNodeLease}}
		lease.Spec = coordinationv1.LeaseSpec{HolderIdentity: &a.NodeName, LeaseDurationSeconds: &seconds, RenewTime: &now}
		return out, a.client.leases.Post().Namespace(lease.Namespace).Resource("leases").Body(lease).Do(ctx).Into(out)
	}
	lease = lease.DeepCopy()
	lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds, lease.Spec.RenewTime = &a.NodeName, &seconds, &now
	return out, a.client.leases.Put().Namespace(lease.Namespace).Resource("leases").Name(lease.Name).Body(lease).Do(ctx).Into(out)
}
