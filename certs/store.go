package certs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// errChanged reports that another replica has changed the stored data since it was loaded.
var errChanged = errors.New("the stored certificates have changed")

// A Store keeps the keys and certificates that all replicas share, under the keys of a Secret of
// type kubernetes.io/tls and ca.key.
type Store interface {
	// Load returns the stored data and its version: nil and "" if there is none.
	Load(ctx context.Context) (data map[string][]byte, version string, err error)
	// Save replaces the stored data if it still has that version ("": no data). Otherwise it
	// returns an error that says so, and Refresh starts over.
	Save(ctx context.Context, data map[string][]byte, version string) error
}

// Memory is a Store for one process. The zero Memory is empty.
type Memory struct {
	mu   sync.Mutex
	data map[string][]byte
}

// Load returns the stored data.
func (s *Memory) Load(context.Context) (map[string][]byte, string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.data), digest(s.data), nil
}

// Save replaces the stored data.
func (s *Memory) Save(_ context.Context, data map[string][]byte, version string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if version != digest(s.data) {
		return errChanged
	}
	s.data = maps.Clone(data)
	return nil
}

// Directory is a Store in a folder, one file for each key, for one process at a time. Files that do
// not fit together, because a process died while saving, are created again.
type Directory string

var storedKeys = []string{keyCA, keyCAKey, keyCertificate, keyPrivateKey}

// Load reads the files.
func (s Directory) Load(context.Context) (map[string][]byte, string, error) {
	data := map[string][]byte{}
	for _, key := range storedKeys {
		content, err := os.ReadFile(filepath.Join(string(s), key))
		switch {
		case err == nil:
			data[key] = content
		case !errors.Is(err, fs.ErrNotExist):
			return nil, "", fmt.Errorf("cannot read stored certificates: %w", err)
		}
	}
	return data, digest(data), nil
}

// Save writes the files, each atomically.
func (s Directory) Save(ctx context.Context, data map[string][]byte, version string) error {
	_, now, err := s.Load(ctx)
	if err != nil {
		return err
	}
	if now != version {
		return errChanged
	}
	if err := os.MkdirAll(string(s), 0o700); err != nil {
		return fmt.Errorf("cannot store certificates: %w", err)
	}
	for _, key := range storedKeys {
		path := filepath.Join(string(s), key)
		if err := os.WriteFile(path+".new", data[key], 0o600); err != nil {
			return fmt.Errorf("cannot store certificates: %w", err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			return fmt.Errorf("cannot store certificates: %w", err)
		}
	}
	return nil
}

func digest(data map[string][]byte) string {
	if len(data) == 0 {
		return ""
	}
	sum := sha256.New()
	for _, key := range slices.Sorted(maps.Keys(data)) {
		fmt.Fprintf(sum, "%s %d %s", key, len(data[key]), data[key])
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// Secret is a Store in a Secret, for all replicas. The first replica that saves wins; the others
// use its certificates.
type Secret struct {
	Client client.Client        // reads from the API server, not from a cache
	Name   types.NamespacedName // of the Secret
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
	err := s.save(ctx, data, version)
	switch {
	case apierrors.IsAlreadyExists(err), apierrors.IsConflict(err), apierrors.IsNotFound(err) && version != "":
		return errChanged
	case err != nil:
		return fmt.Errorf("cannot write Secret %s: %w", s.Name, err)
	}
	return nil
}

func (s *Secret) save(ctx context.Context, data map[string][]byte, version string) error {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Name.Namespace, Name: s.Name.Name},
		Type:       corev1.SecretTypeTLS, Data: data,
	}
	if version == "" {
		return s.Client.Create(ctx, secret)
	}
	// The type is immutable, and labels belong to the installer.
	if err := s.Client.Get(ctx, s.Name, secret); err != nil {
		return err
	}
	secret.Data, secret.ResourceVersion = data, version
	return s.Client.Update(ctx, secret)
}
