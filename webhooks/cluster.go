package webhooks

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtwright/virtwright/presets"
)

// CachedNamespaces are the Namespaces of a cluster.
type CachedNamespaces struct {
	// Cache is asked first.
	Cache client.Reader
	// Live is asked for what the cache does not know yet.
	Live client.Reader
}

var _ Namespaces = (*CachedNamespaces)(nil)

// Get returns a namespace. Its maps are the cache's and must not be changed.
func (n *CachedNamespaces) Get(ctx context.Context, name string) (presets.Namespace, error) {
	namespace := NamespaceMetadata()
	err := n.Cache.Get(ctx, types.NamespacedName{Name: name}, namespace)
	if apierrors.IsNotFound(err) {
		err = n.Live.Get(ctx, types.NamespacedName{Name: name}, namespace)
	}
	if err != nil {
		return presets.Namespace{}, err
	}
	return presets.Namespace{Name: name, Labels: namespace.Labels, Annotations: namespace.Annotations}, nil
}

// NamespaceMetadata is an empty namespace of the form in which namespaces are read.
func NamespaceMetadata() *metav1.PartialObjectMetadata {
	empty := &metav1.PartialObjectMetadata{}
	empty.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	return empty
}

// LiveOwners are the Owners of a cluster, read when they are needed: once for
// each instance that starts. What virtwright does not know of a VM survives.
type LiveOwners struct {
	Client rest.Interface
}

var _ Owners = (*LiveOwners)(nil)

// Of reads the VM that an owner reference of the instance names.
func (o *LiveOwners) Of(ctx context.Context, namespace string, instance []byte) ([]byte, error) {
	ref := controllingVM(instance)
	if ref == nil {
		return nil, nil
	}
	raw, err := o.Client.Get().AbsPath("/apis/kubevirt.io/v1").
		Namespace(namespace).Resource("virtualmachines").Name(ref.Name).
		SetHeader("Accept", "application/json").Do(ctx).Raw()
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("VirtualMachine %s/%s: %w", namespace, ref.Name, err)
	}
	var found metav1.PartialObjectMetadata
	if err := json.Unmarshal(raw, &found); err != nil {
		return nil, fmt.Errorf("cannot read what the API server sent: %w", err)
	}
	if found.UID != ref.UID {
		return nil, nil
	}
	return raw, nil
}
