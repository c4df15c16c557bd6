// Package clients connects the webhooks with a cluster: it registers them, reads objects for them,
// and writes events. The webhooks themselves need no client, so the command line and a browser run
// them, too.
package clients

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
	"github.com/virtwright/virtwright/webhooks"
)

// CachedNamespaces reads the Namespaces of a cluster.
type CachedNamespaces struct {
	// Cache is read first.
	Cache client.Reader
	// Live is read for a namespace that the cache does not know yet.
	Live client.Reader
}

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

// NamespaceMetadata returns an empty namespace of the type that caches must hold.
func NamespaceMetadata() *metav1.PartialObjectMetadata {
	empty := &metav1.PartialObjectMetadata{}
	empty.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	return empty
}

// LiveOwners reads the VMs that own VMIs from API servers, once for each VMI that is created.
type LiveOwners struct {
	Client rest.Interface
}

// Of reads the VM that the controller reference of a VMI names, with all its fields.
func (o *LiveOwners) Of(ctx context.Context, namespace string, vmi []byte) ([]byte, error) {
	ref := webhooks.ControllingVM(vmi)
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
		return nil, fmt.Errorf("cannot read VirtualMachine %s/%s: %w", namespace, ref.Name, err)
	}
	var found metav1.PartialObjectMetadata
	if err := json.Unmarshal(raw, &found); err != nil {
		return nil, fmt.Errorf("cannot decode VirtualMachine %s/%s: %w", namespace, ref.Name, err)
	}
	if found.UID != ref.UID {
		return nil, nil
	}
	return raw, nil
}
