package nameconflict

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtwright/virtwright/lifecycle/partialobject"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/validation/names"
)

// Fields of the index.
const (
	byDataVolume = "virtwright.dev/data-volume-template"
	byIdentifier = "virtwright.dev/identifier"
)

// An Index finds VMs and VMIs by name, DataVolume and identifier in a cache, so that an admission
// request needs no list. Start must run first.
type Index struct {
	Cache cache.Cache
	Live  client.Reader // confirms results of the cache, see [names.NeedsLiveRead]

	ready atomic.Bool
}

// Start fills the index and returns when it is complete.
func (x *Index) Start(ctx context.Context) error {
	err := x.Cache.IndexField(ctx, &partialobject.VirtualMachine{}, byDataVolume, func(object client.Object) []string {
		return slices.DeleteFunc(namesOf(object).DataVolumes, func(name string) bool { return name == "" })
	})
	kinds := []client.Object{&partialobject.VirtualMachine{}, &partialobject.VirtualMachineInstance{}}
	for _, kind := range kinds {
		err = errors.Join(err, x.Cache.IndexField(ctx, kind, byIdentifier, identifierKeys))
	}
	if err != nil {
		return fmt.Errorf("cannot index VMs: %w", err)
	}
	for _, kind := range kinds {
		if _, err := x.Cache.GetInformer(ctx, kind); err != nil { // which returns after a sync
			return fmt.Errorf("cannot watch VMs: %w", err)
		}
	}
	x.ready.Store(true)
	return nil
}

// Ready returns nil once the index has all VMs that existed at start.
func (x *Index) Ready() error {
	if !x.ready.Load() {
		return errors.New("the names of VMs are not loaded yet")
	}
	return nil
}

func identifierKeys(object client.Object) []string {
	var keys []string
	for _, id := range namesOf(object).Identifiers {
		keys = append(keys, identifierKey(id))
	}
	return keys
}

func identifierKey(id names.Identifier) string { return string(id.Kind) + "=" + id.Value }

func namesOf(object runtime.Object) names.Identity {
	if vm, ok := object.(*partialobject.VirtualMachine); ok {
		return vm.Names()
	}
	vmi, _ := object.(*partialobject.VirtualMachineInstance)
	return vmi.Names()
}

// Around returns the VMs and VMIs that m may collide with, as the cache has them.
func (x *Index) Around(ctx context.Context, m *names.Identity) (names.Related, error) {
	seen, err := sameName(ctx, x.Cache, m)
	if err != nil {
		return seen, err
	}
	for _, volume := range m.DataVolumes {
		var vms partialobject.VirtualMachineList
		if err := x.Cache.List(ctx, &vms, client.InNamespace(m.Namespace), client.MatchingFields{byDataVolume: volume}, client.UnsafeDisableDeepCopy); err != nil {
			return seen, fmt.Errorf("cannot look up dataVolumeTemplates: %w", err)
		}
		for i := range vms.Items {
			if vms.Items[i].Name != m.Name {
				seen.DataVolumes = add(seen.DataVolumes, volume, vms.Items[i].Names())
			}
		}
	}
	seen.Uses, err = x.identifierUses(ctx, m)
	return seen, err
}

func add(to map[string][]names.Identity, volume string, m names.Identity) map[string][]names.Identity {
	if to == nil {
		to = map[string][]names.Identity{}
	}
	to[volume] = append(to[volume], m)
	return to
}

// sameName returns the VM with the name of a VMI, or the VMI with the name of a VM.
func sameName(ctx context.Context, from client.Reader, m *names.Identity) (names.Related, error) {
	var seen names.Related
	key := types.NamespacedName{Namespace: m.Namespace, Name: m.Name}
	var err error
	if m.Kind == presets.VirtualMachineInstance {
		seen.VM, err = get(ctx, from, key, &partialobject.VirtualMachine{})
	} else {
		seen.VMI, err = get(ctx, from, key, &partialobject.VirtualMachineInstance{})
	}
	return seen, err
}

func get(ctx context.Context, from client.Reader, key types.NamespacedName, into client.Object) (*names.Identity, error) {
	switch err := from.Get(ctx, key, into); {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("cannot read %T %s: %w", into, key, err)
	}
	m := namesOf(into)
	return &m, nil
}

// identifierUses returns which other VMs use the identifiers of m. A VM and its VMI count as one.
func (x *Index) identifierUses(ctx context.Context, m *names.Identity) (map[names.Identifier]names.Use, error) {
	uses := map[names.Identifier]names.Use{}
	for _, id := range m.Identifiers {
		found := map[types.NamespacedName]bool{}
		for _, list := range []client.ObjectList{&partialobject.VirtualMachineList{}, &partialobject.VirtualMachineInstanceList{}} {
			err := x.Cache.List(ctx, list, client.MatchingFields{byIdentifier: identifierKey(id)}, client.UnsafeDisableDeepCopy)
			if err != nil {
				return nil, fmt.Errorf("cannot look up the %s: %w", id.Kind, err)
			}
			_ = meta.EachListItem(list, func(object runtime.Object) error {
				found[client.ObjectKeyFromObject(object.(client.Object))] = true
				return nil
			})
		}
		delete(found, types.NamespacedName{Namespace: m.Namespace, Name: m.Name})
		if len(found) > 0 {
			uses[id] = useBy(found, m.Namespace)
		}
	}
	return uses, nil
}

// useBy names users in a namespace, and counts the others.
func useBy(users map[types.NamespacedName]bool, namespace string) names.Use {
	var use names.Use
	for key := range users {
		if key.Namespace == namespace {
			use.SameNamespace = append(use.SameNamespace, key.Name)
		} else {
			use.OtherNamespaces++
		}
	}
	slices.Sort(use.SameNamespace)
	return use
}

// Confirm reads the VMs that m collides with from the API server, because the cache may lag.
func (x *Index) Confirm(ctx context.Context, m *names.Identity, seen names.Related) (names.Related, error) {
	now, err := sameName(ctx, x.Live, m)
	if err != nil {
		return seen, err
	}
	now.Uses = seen.Uses
	for volume, others := range seen.DataVolumes {
		for _, other := range others {
			key := types.NamespacedName{Namespace: other.Namespace, Name: other.Name}
			vm, err := get(ctx, x.Live, key, &partialobject.VirtualMachine{})
			if err != nil {
				return seen, err
			}
			if vm != nil && slices.Contains(vm.DataVolumes, volume) {
				now.DataVolumes = add(now.DataVolumes, volume, *vm)
			}
		}
	}
	return now, nil
}
