// Package presetusage counts which VMs have which version of each preset, and which VMs use each
// exception.
//
// It reads the caches of VMs and VMIs, which hold the names in each provenance record. A change of
// a VM costs time for its own presets, and a look-up costs time for the versions that VMs have.
package presetusage

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtwright/virtwright/lifecycle/partialobject"
	"github.com/virtwright/virtwright/lifecycle/presetcache"
	"github.com/virtwright/virtwright/presets"
)

// Counts are the numbers of VMs that have a preset.
type Counts struct {
	Matched, Outdated int64
	LastApplied       time.Time // when a VM last received the preset; zero if no VM has it
}

// An ExceptionUse has the VMs that use an exception.
type ExceptionUse struct {
	VMs      []string  // their names, sorted
	LastUsed time.Time // when a VM last started to use it; zero if no VM uses it
}

// An Index counts VMs by preset and by exception, once Start has returned. What the record of a VMI
// names counts for the VM of its name, unless the record of the VM names it, too.
type Index struct {
	Informers cache.Informers
	Clock     clock.PassiveClock
	// Subscribers receive each preset, or exception, that changes once the index is ready.
	presetcache.Subscribers[presets.PresetName]
	ExceptionSubscribers presetcache.Subscribers[types.NamespacedName]

	mu         sync.Mutex
	ready      chan struct{}
	vms        map[types.NamespacedName]records
	presets    map[presets.PresetName]*presetVMs
	exceptions map[types.NamespacedName]*exceptionVMs
}

// records are those of a VM and of the VMI of its name.
type records struct{ vm, vmi partialobject.Record }

type presetVMs struct {
	versions    map[string]int64
	lastApplied time.Time
}

type exceptionVMs struct {
	names    map[string]bool
	lastUsed time.Time
}

// Start fills the index and returns when it is complete.
func (x *Index) Start(ctx context.Context) error {
	kinds := map[string]client.Object{"VirtualMachine": &partialobject.VirtualMachine{}, "VirtualMachineInstance": &partialobject.VirtualMachineInstance{}}
	synced, err := presetcache.Watch(ctx, x.Informers, kinds, x.note)
	if synced {
		close(x.Ready())
	}
	return err
}

// Ready returns a channel that is closed once every VM that existed at start is counted.
func (x *Index) Ready() chan struct{} {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.ready == nil {
		x.ready = make(chan struct{})
	}
	return x.ready
}

// isReady requires the lock.
func (x *Index) isReady() bool {
	select {
	case <-x.ready:
		return true
	default: // open or nil
		return false
	}
}

// Of counts the VMs that have a preset. VMs with another hash or generation are outdated. It
// returns false until the index is ready.
func (x *Index) Of(preset presets.PresetName, hash string, generation int64) (Counts, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	var out Counts
	if c := x.presets[preset]; c != nil && x.isReady() {
		out.LastApplied = c.lastApplied
		for version, n := range c.versions {
			out.Matched += n
			if !partialobject.IsPresetVersion(version, hash, generation) {
				out.Outdated += n
			}
		}
	}
	return out, x.isReady()
}

// Has reports whether a VM has a generation of a preset. It returns false, false until the index is
// ready.
func (x *Index) Has(preset presets.PresetName, generation int64) (used, known bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if c := x.presets[preset]; c != nil {
		for version := range c.versions {
			used = used || partialobject.HasPresetGeneration(version, generation)
		}
	}
	return used, x.isReady()
}

// Exception returns the VMs that use an exception. It returns false until the index is ready.
func (x *Index) Exception(key types.NamespacedName) (ExceptionUse, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	var out ExceptionUse
	if u := x.exceptions[key]; u != nil {
		out = ExceptionUse{slices.Sorted(maps.Keys(u.names)), u.lastUsed}
	}
	return out, x.isReady()
}

// recorded is implemented by VMs and VMIs.
type recorded interface{ Applied() *partialobject.Record }

func (x *Index) note(_ string, before, after client.Object) {
	was, _ := before.(recorded)
	is, _ := after.(recorded)
	switch {
	case is == nil:
		x.replace(before, partialobject.Record{}, x.Clock.Now())
	case was == nil:
		x.replace(after, *is.Applied(), after.GetCreationTimestamp().Time)
	case !equal(was.Applied(), is.Applied()):
		x.replace(after, *is.Applied(), x.Clock.Now())
	}
}

func equal(a, b *partialobject.Record) bool {
	return slices.Equal(a.Presets, b.Presets) && slices.Equal(a.Exceptions, b.Exceptions)
}

// replace replaces the record of a VM or a VMI, and counts the differences as changes at a time.
func (x *Index) replace(object client.Object, record partialobject.Record, at time.Time) {
	key := client.ObjectKeyFromObject(object)
	x.mu.Lock()
	was := x.vms[key]
	is := was
	if _, ok := object.(*partialobject.VirtualMachine); ok {
		is.vm = record
	} else {
		is.vmi = record
	}
	if x.vms == nil {
		x.vms, x.presets, x.exceptions = map[types.NamespacedName]records{}, map[presets.PresetName]*presetVMs{}, map[types.NamespacedName]*exceptionVMs{}
	}
	if x.vms[key] = is; equal(&is.vm, &is.vmi) && equal(&is.vm, &partialobject.Record{}) {
		delete(x.vms, key)
	}
	changedPresets := x.countPresets(key.Namespace, was.presets(), is.presets(), at)
	changedExceptions := x.countExceptions(key, was.exceptions(), is.exceptions(), at)
	ready := x.isReady()
	x.mu.Unlock()
	if ready { // otherwise subscribers read everything once the index is ready
		x.Notify(changedPresets...)
		x.ExceptionSubscribers.Notify(changedExceptions...)
	}
}

// presets merges both records. If both name a preset, the version in the record of the VM counts.
func (r records) presets() []partialobject.PresetUse {
	if len(r.vmi.Presets) == 0 {
		return r.vm.Presets
	}
	out := slices.Clone(r.vm.Presets)
	for _, use := range r.vmi.Presets {
		if !slices.ContainsFunc(r.vm.Presets, func(o partialobject.PresetUse) bool { return o.Ref() == use.Ref() }) {
			out = append(out, use)
		}
	}
	return out
}

func (r records) exceptions() []string { return slices.Concat(r.vm.Exceptions, r.vmi.Exceptions) }

// countPresets counts a VM with different presets than before and returns the presets that changed.
// It requires the lock.
func (x *Index) countPresets(namespace string, was, is []partialobject.PresetUse, at time.Time) []presets.PresetName {
	var changed []presets.PresetName
	for _, use := range was {
		if !slices.Contains(is, use) {
			name := presets.ParseRef(namespace, use.Ref())
			x.add(name, use.Version(), -1)
			changed = append(changed, name)
		}
	}
	for _, use := range is {
		if !slices.Contains(was, use) {
			name := presets.ParseRef(namespace, use.Ref())
			if c := x.add(name, use.Version(), 1); at.After(c.lastApplied) {
				c.lastApplied = at
			}
			changed = append(changed, name)
		}
	}
	return changed
}

// add adds n to the VMs that have a version of a preset, and drops counts of zero.
func (x *Index) add(name presets.PresetName, version string, n int64) *presetVMs {
	c := x.presets[name]
	if c == nil {
		c = &presetVMs{versions: map[string]int64{}}
		x.presets[name] = c
	}
	if c.versions[version] += n; c.versions[version] == 0 {
		delete(c.versions, version)
	}
	if len(c.versions) == 0 {
		delete(x.presets, name)
	}
	return c
}

// countExceptions counts a VM with different exceptions than before and returns the exceptions that
// changed. It requires the lock.
func (x *Index) countExceptions(vm types.NamespacedName, was, is []string, at time.Time) []types.NamespacedName {
	var changed []types.NamespacedName
	for _, name := range was {
		key := types.NamespacedName{Namespace: vm.Namespace, Name: name}
		if u := x.exceptions[key]; u != nil && u.names[vm.Name] && !slices.Contains(is, name) {
			if delete(u.names, vm.Name); len(u.names) == 0 {
				delete(x.exceptions, key)
			}
			changed = append(changed, key)
		}
	}
	for _, name := range is {
		key := types.NamespacedName{Namespace: vm.Namespace, Name: name}
		u := x.exceptions[key]
		if u == nil {
			u = &exceptionVMs{names: map[string]bool{}}
			x.exceptions[key] = u
		}
		if u.names[vm.Name] {
			continue
		}
		u.names[vm.Name] = true
		if at.After(u.lastUsed) {
			u.lastUsed = at
		}
		changed = append(changed, key)
	}
	return changed
}
