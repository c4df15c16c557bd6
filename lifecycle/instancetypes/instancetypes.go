// Package instancetypes reads KubeVirt's instancetypes and preferences, and the ControllerRevisions
// that VMs pin.
package instancetypes

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"kubevirt.io/api/instancetype"
	"kubevirt.io/api/instancetype/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	kjson "sigs.k8s.io/json"

	"github.com/virtwright/virtwright/presets"
)

// Kinds returns an empty object of each kind.
func Kinds() []client.Object {
	var out []client.Object
	for _, kind := range []string{"VirtualMachineInstancetype", "VirtualMachineClusterInstancetype", "VirtualMachinePreference", "VirtualMachineClusterPreference"} {
		out = append(out, object(kind))
	}
	return out
}

func object(kind string) *unstructured.Unstructured {
	out := &unstructured.Unstructured{}
	out.SetGroupVersionKind(v1beta1.SchemeGroupVersion.WithKind(kind))
	return out
}

// A Reader reads the instancetypes and preferences that VMs refer to. It reads from the API server
// if the cache misses an object or does not watch its kind yet. ControllerRevisions are not cached:
// there are two for each VM, and only updates of its spec need them.
type Reader struct {
	Cache cache.Cache
	Live  client.Reader

	mu      sync.RWMutex
	watched sets.Set[string]
}

// Watch adds one of Kinds to the cache, and returns when the cache has synced.
func (r *Reader) Watch(ctx context.Context, kind client.Object) error {
	name := kind.GetObjectKind().GroupVersionKind().Kind
	if _, err := r.Cache.GetInformer(ctx, kind); err != nil {
		return fmt.Errorf("cannot watch %s: %w", name, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.watched == nil {
		r.watched = sets.New[string]()
	}
	r.watched.Insert(name)
	return nil
}

// Spec returns the spec that a VM in a namespace refers to, as decoded JSON; nil if it does not
// exist.
func (r *Reader) Spec(ctx context.Context, namespace string, m presets.Matcher) (map[string]any, error) {
	switch {
	case m.Revision != "":
		return r.revision(ctx, types.NamespacedName{Namespace: namespace, Name: m.Revision}, m, "")
	case m.Stored != "":
		spec, err := r.revision(ctx, types.NamespacedName{Namespace: namespace, Name: m.Stored}, m, m.Name)
		if spec != nil || err != nil {
			return spec, err
		}
	}
	name := types.NamespacedName{Namespace: namespace, Name: m.Name}
	if family(m.Kind) != m.Kind {
		name.Namespace = ""
	}
	found := object(m.Kind)
	err := r.get(ctx, name, found)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	spec, _ := found.Object["spec"].(map[string]any)
	return spec, nil
}

func (r *Reader) get(ctx context.Context, name types.NamespacedName, into *unstructured.Unstructured) error {
	r.mu.RLock()
	watched := r.watched.Has(into.GetKind())
	r.mu.RUnlock()
	if watched {
		err := r.Cache.Get(ctx, name, into)
		if !apierrors.IsNotFound(err) {
			return err
		}
	}
	return r.Live.Get(ctx, name, into)
}

// revision returns the spec in a ControllerRevision, or nil if it cannot be decoded. Unless of is
// empty, the revision must be of the object with that name.
func (r *Reader) revision(ctx context.Context, name types.NamespacedName, m presets.Matcher, of string) (map[string]any, error) {
	found := &appsv1.ControllerRevision{}
	err := r.Live.Get(ctx, name, found)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if of != "" && found.Labels[instancetype.ControllerRevisionObjectNameLabel] != of {
		return nil, nil
	}
	return decode(found.Data.Raw, m.Kind), nil
}

// decode returns the spec in the data of a revision; nil if the kind differs.
func decode(raw []byte, kind string) map[string]any {
	var kept struct {
		APIVersion string          `json:"apiVersion"`
		Kind       string          `json:"kind"`
		Spec       json.RawMessage `json:"spec"`
	}
	if kjson.UnmarshalCaseSensitivePreserveInts(raw, &kept) != nil || kept.APIVersion != v1beta1.SchemeGroupVersion.String() || family(kept.Kind) != family(kind) {
		return nil
	}
	var spec map[string]any
	if kjson.UnmarshalCaseSensitivePreserveInts(kept.Spec, &spec) != nil {
		return nil
	}
	return spec
}

func family(kind string) string { return strings.Replace(kind, "Cluster", "", 1) }
