package controller

import (
	"context"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"edgepod/server/registry"
)

// ServiceAccounts keeps a ServiceAccount named default in every namespace that is not being deleted.
type ServiceAccounts struct {
	config Config
	log    *slog.Logger
}

// NewServiceAccounts returns the loop.
func NewServiceAccounts(config Config) *ServiceAccounts {
	return &ServiceAccounts{config: config, log: config.logger("serviceaccounts")}
}

// Run implements Loop.
func (s *ServiceAccounts) Run(ctx context.Context) error {
	q := newQueue(s.log, 1, s.reconcile)
	namespaces := func(ctx context.Context) {
		follow(ctx, s.config, s.log, "", "namespaces", func(changes []change) {
			for _, c := range changes {
				q.add("", c.object().Meta().GetName())
			}
		})
	}
	accounts := func(ctx context.Context) {
		follow(ctx, s.config, s.log, "", "serviceaccounts", func(changes []change) {
			for _, c := range changes {
				if c.after == nil && c.before.Meta().GetName() == defaultAccount {
					q.add("", c.before.Meta().GetNamespace())
				}
			}
		})
	}
	return q.run(ctx, namespaces, accounts)
}

// defaultAccount is the account of pods that name none.
const defaultAccount = "default"

func (s *ServiceAccounts) reconcile(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
	namespace, err := s.config.Verbs.Get(ctx, s.config.Verbs.Resource("", "namespaces"), "", key.Name)
	if err != nil || namespace.Meta().GetDeletionTimestamp() != nil {
		return 0, ignoreNotFound(err)
	}
	accounts := s.config.Verbs.Resource("", "serviceaccounts")
	if _, err := s.config.Verbs.Get(ctx, accounts, key.Name, defaultAccount); !apierrors.IsNotFound(err) {
		return 0, err
	}
	_, err = s.config.Verbs.Create(ctx, accounts, registry.CreateRequest{
		Namespace: key.Name,
		Object:    &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: key.Name, Name: defaultAccount}},
	})
	if apierrors.IsAlreadyExists(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return 0, nil
	}
	return 0, ignoreNotFound(err)
}
