package certs

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Secret is a Store in a Secret, shared by all replicas. Whoever saves first
// wins; the others take what it saved.
type Secret struct {
	// Client reads from the API server, not from a cache.
	Client client.Client
	// Name of the Secret, with its namespace.
	Name types.NamespacedName
}

// Load reads the Secret.
func (s *Secret) Load(ctx context.Context) (map[string][]byte, string, error) {
	var secret corev1.Secret
	err := s.Client.Get(ctx, s.Name, &secret)
	switch {
	case apierrors.IsNotFound(err):
		return nil, "", nil
	case err != nil:
		return nil, "", fmt.Errorf("cannot read Secret %s: %w", s.Name, err)
	}
	return secret.Data, secret.ResourceVersion, nil
}

// Save creates the Secret, or replaces its data.
func (s *Secret) Save(ctx context.Context, data map[string][]byte, version string) error {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Name.Namespace, Name: s.Name.Name},
		Type:       corev1.SecretTypeTLS, Data: data,
	}
	if version == "" {
		err := s.Client.Create(ctx, secret)
		return s.saved(err, apierrors.IsAlreadyExists(err))
	}
	var now corev1.Secret
	if err := s.Client.Get(ctx, s.Name, &now); err != nil {
		return s.saved(err, apierrors.IsNotFound(err))
	}
	// The type of a Secret is immutable, and labels are the installer's.
	now.Data, now.ResourceVersion = data, version
	err := s.Client.Update(ctx, &now)
	return s.saved(err, apierrors.IsConflict(err) || apierrors.IsNotFound(err))
}

func (s *Secret) saved(err error, changed bool) error {
	switch {
	case changed:
		return ErrChanged
	case err != nil:
		return fmt.Errorf("cannot write Secret %s: %w", s.Name, err)
	}
	return nil
}
