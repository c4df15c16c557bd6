// Package presetusage counts which VMs have which version of each preset.
//
// It reads the caches of VMs and VMIs, which hold the presets that each record names. A change
// of one VM costs its own presets, and a change of a preset costs the versions that VMs have.
package presetusage

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtwright/virtwright/lifecycle/machine"
	"github.com/virtwright/virtwright/presets"
)

// Counts are the VMs that have a preset.
type Counts struct {
	Matched, Outdated int64
	// LastApplied is when the preset last acted, as far as VMs say; zero where none does.
	LastApplied time.Time
}

// An Index counts VMs by preset. Run Start; Of knows nothing before that is done. The presets
// of a VMI count for the VM of its name, as far as the VM does not name them.
type Index struct {
	// Informers watch VMs and VMIs.
	Informers cache.Informers
	// Now is the clock; nil means time.Now.
	Now func() time.Time

	mu      sync.Mutex
	ready   chan struct{}
	uses    map[types.NamespacedName]uses
	counted map[presets.PresetName]*counted
	// changed is called with each preset whose counts changed.
	changed []func(presets.PresetName)
	// excepted are the exceptions of VMs, and users the VMs of exceptions.
	excepted map[types.NamespacedName]exceptionUses
	users    map[types.NamespacedName]*users
	// exceptionChanged is called with each exception whose VMs changed.
	exceptionChanged []func(types.NamespacedName)
}

// uses are the presets of a VM and of the VMI of its name.
type uses struct{ vm, instance []machine.PresetUse }

// counted are the VMs that have a preset, by version.
type counted struct {
	versions    map[string]int64
	lastApplied time.Time
}

// Start fills the index and returns when it is full.
func (x *Index) Start(ctx context.Context) error {
	var synced []toolscache.InformerSynced
	for _, object := range []client.Object{&machine.VirtualMachine{}, &machine.Instance{}} {
		informer, err := x.Informers.GetInformer(ctx, object)
		if err != nil {
			return fmt.Errorf("cannot watch %T: %w", object, err)
		}
		registered, err := informer.AddEventHandler(x.handler())
		if err != nil {
			return fmt.Errorf("cannot watch %T: %w", object, err)
		}
		synced = append(synced, registered.HasSynced)
	}
	if toolscache.WaitForCacheSync(ctx.Done(), synced...) {
		close(x.Ready())
	}
	return nil
}

// Ready is closed once every VM that the cluster had at start is counted.
func (x *Index) Ready() chan struct{} {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.ready == nil {
		x.ready = make(chan struct{})
	}
	return x.ready
}

func isClosed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default: // open or nil
		return false
	}
}

// Subscribe calls f with each preset whose counts change once the index is ready. f must not block.
func (x *Index) Subscribe(f func(presets.PresetName)) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.changed = append(x.changed, f)
}

// Of counts the VMs that have a preset, which now has this hash and generation. It reports
// false while VMs are not counted yet.
func (x *Index) Of(preset presets.PresetName, hash string, generation int64) (Counts, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	var out Counts
	if !isClosed(x.ready) {
		return out, false
	}
	if c := x.counted[preset]; c != nil {
		out.LastApplied = c.lastApplied
		for version, n := range c.versions {
			out.Matched += n
			if !machine.IsPresetVersion(version, hash, generation) {
				out.Outdated += n
			}
		}
	}
	return out, true
}

func (x *Index) handler() toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(o any, _ bool) {
			if object, ok := o.(client.Object); ok {
				x.note(object, presetsOf(object), object.GetCreationTimestamp().Time)
				x.noteExceptions(object, exceptionsOf(object), object.GetCreationTimestamp().Time)
			}
		},
		UpdateFunc: func(before, o any) {
			object, ok := o.(client.Object)
			if now := presetsOf(o); ok && !slices.Equal(presetsOf(before), now) {
				x.note(object, now, x.now())
			}
			if now := exceptionsOf(o); ok && !slices.Equal(exceptionsOf(before), now) {
				x.noteExceptions(object, now, x.now())
			}
		},
		DeleteFunc: func(o any) {
			if missed, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
				o = missed.Obj
			}
			if object, ok := o.(client.Object); ok {
				x.note(object, nil, x.now())
				x.noteExceptions(object, nil, x.now())
			}
		},
	}
}

func presetsOf(object any) []machine.PresetUse {
	switch m := object.(type) {
	case *machine.VirtualMachine:
		return m.Presets
	case *machine.Instance:
		return m.Presets
	}
	return nil
}

func (x *Index) now() time.Time {
	if x.Now == nil {
		return time.Now()
	}
	return x.Now()
}

// note counts a VM or a VMI, which has these presets since a time.
func (x *Index) note(object client.Object, now []machine.PresetUse, since time.Time) {
	key := client.ObjectKeyFromObject(object)
	x.mu.Lock()
	was := x.uses[key]
	is := was
	is.vm, is.instance = replaced(object, was.vm, was.instance, now)
	x.keep(key, is)
	changed := x.count(key.Namespace, was.all(), is.all(), since)
	subscribers := x.changed
	if !isClosed(x.ready) {
		subscribers = nil // they look at all presets then
	}
	x.mu.Unlock()
	tell(subscribers, changed)
}

// replaced returns what a VM and its VMI have once the object, which is either, has this now.
func replaced[T any](object client.Object, vm, instance, now []T) (ofVM, ofInstance []T) {
	if _, ok := object.(*machine.VirtualMachine); ok {
		return now, instance
	}
	return vm, now
}

func tell[K any](subscribers []func(K), keys []K) {
	for _, f := range subscribers {
		for _, key := range keys {
			f(key)
		}
	}
}

// keep stores the presets of a VM; the caller holds the lock.
func (x *Index) keep(key types.NamespacedName, is uses) {
	if len(is.vm)+len(is.instance) == 0 {
		delete(x.uses, key)
		return
	}
	if x.uses == nil {
		x.uses = map[types.NamespacedName]uses{}
	}
	x.uses[key] = is
}

// all are the presets of both; where both name one, the version is the VM's.
func (u uses) all() []machine.PresetUse {
	if len(u.instance) == 0 {
		return u.vm
	}
	out := slices.Clone(u.vm)
	for _, use := range u.instance {
		if !slices.ContainsFunc(u.vm, func(o machine.PresetUse) bool { return o.Ref() == use.Ref() }) {
			out = append(out, use)
		}
	}
	return out
}

// count counts a VM that had presets and has others now. It returns the presets whose counts
// changed; the caller holds the lock.
func (x *Index) count(namespace string, was, is []machine.PresetUse, since time.Time) []presets.PresetName {
	var changed []presets.PresetName
	for _, use := range was {
		if !slices.Contains(is, use) {
			name := presets.NameIn(namespace, use.Ref())
			x.add(name, use.Version(), -1)
			changed = append(changed, name)
		}
	}
	for _, use := range is {
		if !slices.Contains(was, use) {
			name := presets.NameIn(namespace, use.Ref())
			c := x.add(name, use.Version(), 1)
			if since.After(c.lastApplied) {
				c.lastApplied = since
			}
			changed = append(changed, name)
		}
	}
	return changed
}

// add adds n VMs to those that have a version of a preset. Presets that no VM has are
// forgotten.
func (x *Index) add(name presets.PresetName, version string, n int64) *counted {
	c := x.counted[name]
	if c == nil {
		c = &counted{versions: map[string]int64{}}
		if x.counted == nil {
			x.counted = map[presets.PresetName]*counted{}
		}
		x.counted[name] = c
	}
	if c.versions[version] += n; c.versions[version] == 0 {
		delete(c.versions, version)
	}
	if len(c.versions) == 0 {
		delete(x.counted, name)
	}
	return c
}
