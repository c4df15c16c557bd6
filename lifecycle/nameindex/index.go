// Package nameindex knows by name, disk and identifier which machines a cluster
// has: informers keep it, so that a request costs a look-up and no list.
package nameindex

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtwright/virtwright/lifecycle/machine"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/validation/names"
)

// Fields of the index.
const (
	byDisk       = "virtwright.dev/data-volume-template"
	byIdentifier = "virtwright.dev/identifier"
)

// An Index finds machines that another may collide with. Run Start; Around
// finds nothing before.
type Index struct {
	// Cache holds the machines.
	Cache cache.Cache
	// Live confirms what the cache says where that decides, see [names.NeedsLiveRead].
	Live client.Reader

	ready atomic.Bool
}

// NeedLeaderElection says that every replica has its own Index.
func (*Index) NeedLeaderElection() bool { return false }

// Start fills the index and returns when it is full.
func (x *Index) Start(ctx context.Context) error {
	for _, object := range []client.Object{&machine.VirtualMachine{}, &machine.Instance{}} {
		if err := x.Cache.IndexField(ctx, object, byIdentifier, identifiers); err != nil {
			return fmt.Errorf("cannot index machines: %w", err)
		}
	}
	if err := x.Cache.IndexField(ctx, &machine.VirtualMachine{}, byDisk, disks); err != nil {
		return fmt.Errorf("cannot index machines: %w", err)
	}
	// Each informer must have synced.
	for _, object := range []client.Object{&machine.VirtualMachine{}, &machine.Instance{}} {
		if _, err := x.Cache.GetInformer(ctx, object); err != nil {
			return fmt.Errorf("cannot watch machines: %w", err)
		}
	}
	x.ready.Store(true)
	return nil
}

// Ready is nil once the index has every machine that the cluster had at start.
func (x *Index) Ready() error {
	if !x.ready.Load() {
		return errors.New("the names of machines are not loaded yet")
	}
	return nil
}

func disks(object client.Object) []string {
	vm := digest(object)
	return slices.DeleteFunc(vm.DataVolumes, func(name string) bool { return name == "" })
}

func identifiers(object client.Object) []string {
	m := digest(object)
	keys := make([]string, 0, len(m.Identifiers))
	for _, id := range m.Identifiers {
		keys = append(keys, identifierKey(id))
	}
	return keys
}

func identifierKey(id names.Identifier) string { return string(id.What) + "=" + id.Value }

func digest(object client.Object) names.Machine {
	if vm, ok := object.(*machine.VirtualMachine); ok {
		return vm.Machine()
	}
	instance, _ := object.(*machine.Instance)
	return instance.Machine()
}

// Around is what the index knows around m.
func (x *Index) Around(ctx context.Context, m *names.Machine) (names.Surroundings, error) {
	seen, err := x.named(ctx, x.Cache, m)
	if err != nil {
		return seen, err
	}
	for _, disk := range m.DataVolumes {
		var vms machine.VirtualMachineList
		if err := x.Cache.List(ctx, &vms, client.InNamespace(m.Namespace), client.MatchingFields{byDisk: disk}, client.UnsafeDisableDeepCopy); err != nil {
			return seen, fmt.Errorf("cannot look up dataVolumeTemplates: %w", err)
		}
		for i := range vms.Items {
			if vms.Items[i].Name != m.Name {
				seen.Disks = add(seen.Disks, disk, vms.Items[i].Machine())
			}
		}
	}
	seen.Uses, err = x.uses(ctx, m)
	return seen, err
}

func add(to map[string][]names.Machine, disk string, m names.Machine) map[string][]names.Machine {
	if to == nil {
		to = map[string][]names.Machine{}
	}
	to[disk] = append(to[disk], m)
	return to
}

// named finds what has the name of m.
func (x *Index) named(ctx context.Context, from client.Reader, m *names.Machine) (names.Surroundings, error) {
	var seen names.Surroundings
	key := types.NamespacedName{Namespace: m.Namespace, Name: m.Name}
	var err error
	if m.Kind == presets.VirtualMachineInstance {
		seen.VM, err = get(ctx, from, key, &machine.VirtualMachine{})
	} else {
		seen.Instance, err = get(ctx, from, key, &machine.Instance{})
	}
	return seen, err
}

func get(ctx context.Context, from client.Reader, key types.NamespacedName, into client.Object) (*names.Machine, error) {
	switch err := from.Get(ctx, key, into); {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("cannot read %T %s: %w", into, key, err)
	}
	m := digest(into)
	return &m, nil
}

// uses finds who else has the identifiers of m. An instance and its VM are one.
func (x *Index) uses(ctx context.Context, m *names.Machine) (map[names.Identifier]names.Use, error) {
	uses := map[names.Identifier]names.Use{}
	for _, id := range m.Identifiers {
		found := map[types.NamespacedName]bool{}
		for _, list := range []client.ObjectList{&machine.VirtualMachineList{}, &machine.InstanceList{}} {
			if err := x.Cache.List(ctx, list, client.MatchingFields{byIdentifier: identifierKey(id)}, client.UnsafeDisableDeepCopy); err != nil {
				return nil, fmt.Errorf("cannot look up the %s: %w", id.What, err)
			}
			eachKey(list, func(key types.NamespacedName) { found[key] = true })
		}
		delete(found, types.NamespacedName{Namespace: m.Namespace, Name: m.Name})
		if len(found) > 0 {
			uses[id] = useBy(found, m.Namespace)
		}
	}
	return uses, nil
}

func eachKey(list client.ObjectList, visit func(types.NamespacedName)) {
	switch l := list.(type) {
	case *machine.VirtualMachineList:
		for i := range l.Items {
			visit(client.ObjectKeyFromObject(&l.Items[i]))
		}
	case *machine.InstanceList:
		for i := range l.Items {
			visit(client.ObjectKeyFromObject(&l.Items[i]))
		}
	}
}

func useBy(found map[types.NamespacedName]bool, namespace string) names.Use {
	var use names.Use
	for key := range found {
		if key.Namespace == namespace {
			use.Here = append(use.Here, key.Name)
		} else {
			use.Elsewhere++
		}
	}
	slices.Sort(use.Here)
	return use
}

// Confirm reads again, live, what has the name of m and what seen says that m
// collides with: the cache may lag.
func (x *Index) Confirm(ctx context.Context, m *names.Machine, seen names.Surroundings) (names.Surroundings, error) {
	now, err := x.named(ctx, x.Live, m)
	if err != nil {
		return seen, err
	}
	now.Uses = seen.Uses
	for disk, others := range seen.Disks {
		for _, other := range others {
			key := types.NamespacedName{Namespace: other.Namespace, Name: other.Name}
			vm, err := get(ctx, x.Live, key, &machine.VirtualMachine{})
			if err != nil {
				return seen, err
			}
			if vm != nil && slices.Contains(vm.DataVolumes, disk) {
				now.Disks = add(now.Disks, disk, *vm)
			}
		}
	}
	return now, nil
}

// Sharing are the VirtualMachines, other than vm, that have a dataVolumeTemplate of a name that vm has.
func (x *Index) Sharing(ctx context.Context, vm *machine.VirtualMachine) ([]types.NamespacedName, error) {
	m := vm.Machine()
	m.Identifiers = nil
	seen, err := x.Around(ctx, &m)
	var keys []types.NamespacedName
	for _, others := range seen.Disks {
		for _, other := range others {
			keys = append(keys, types.NamespacedName{Namespace: other.Namespace, Name: other.Name})
		}
	}
	return keys, err
}
