package simulate

import (
	"context"
	"iter"
	"runtime"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"
	kjson "sigs.k8s.io/json"

	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/validation/names"
	"github.com/virtwright/virtwright/webhooks"
)

// unnamed reports whether the API server will generate the name.
func unnamed(name string) bool { return name == "" || strings.HasSuffix(name, "*") }

// existingVMs are validated VMs, indexed so that lookups stay fast with many VMs.
type existingVMs struct {
	named map[types.NamespacedName][]*names.Identity
	disks map[types.NamespacedName][]*names.Identity
	users map[names.Identifier][]*names.Identity
	// stored are VMs of a cluster until they are validated.
	stored map[storedKey]*names.Identity
}

type storedKey struct {
	kind presets.Kind
	types.NamespacedName
}

func keyOf(m *names.Identity) storedKey {
	return storedKey{m.Kind, types.NamespacedName{Namespace: m.Namespace, Name: m.Name}}
}

var _ webhooks.Names = (*existingVMs)(nil)

func newExistingVMs() *existingVMs {
	return &existingVMs{
		named: map[types.NamespacedName][]*names.Identity{}, disks: map[types.NamespacedName][]*names.Identity{},
		users: map[names.Identifier][]*names.Identity{}, stored: map[storedKey]*names.Identity{},
	}
}

// store adds a VM of a cluster, if it can be decoded. Validating that VM later replaces it.
func (o *existingVMs) store(m VM) {
	var out names.Identity
	var err error
	if m.Kind == presets.VirtualMachine {
		var vm kubevirtv1.VirtualMachine
		err = kjson.UnmarshalCaseSensitivePreserveInts(m.JSON, &vm)
		out = names.OfVirtualMachine(&vm)
	} else {
		var vmi kubevirtv1.VirtualMachineInstance
		err = kjson.UnmarshalCaseSensitivePreserveInts(m.JSON, &vmi)
		out = names.OfVirtualMachineInstance(&vmi)
	}
	if err == nil {
		o.stored[keyOf(&out)] = &out
		o.add(&out)
	}
}

// restore puts back a stored VM after its change is rejected.
func (o *existingVMs) restore(t *turn) {
	if t.stored != nil {
		o.remove(t.judged)
		o.add(t.stored)
	}
}

// forget removes a VM that was only tried.
func (o *existingVMs) forget(t *turn) {
	if t.judged != nil {
		o.remove(t.judged)
	}
}

// Confirm returns the same VMs.
func (o *existingVMs) Confirm(_ context.Context, _ *names.Identity, seen names.Related) (names.Related, error) {
	return seen, nil
}

// Around waits for the VMs before m, then adds m under the name that messages show.
func (o *existingVMs) Around(ctx context.Context, m *names.Identity) (names.Related, error) {
	shown := *m
	if t := turnOf(ctx); t != nil {
		t.wait()
		shown.Name, t.judged = t.name, &shown
	}
	if stored := o.stored[keyOf(m)]; stored != nil {
		o.remove(stored)
		if t := turnOf(ctx); t != nil {
			t.stored = stored
		}
	}
	defer o.add(&shown)
	out := names.Related{DataVolumes: map[string][]names.Identity{}, Uses: map[names.Identifier]names.Use{}}
	isSame := func(other *names.Identity) bool { // a VMI and its VM do not collide
		return other.Namespace == m.Namespace && other.Name == m.Name && !unnamed(m.Name)
	}
	if !unnamed(m.Name) {
		for _, other := range o.named[types.NamespacedName{Namespace: m.Namespace, Name: m.Name}] {
			named(&out, other)
		}
	}
	for _, disk := range m.DataVolumes {
		for _, other := range o.disks[types.NamespacedName{Namespace: m.Namespace, Name: disk}] {
			if !isSame(other) {
				out.DataVolumes[disk] = append(out.DataVolumes[disk], *other)
			}
		}
	}
	for _, id := range m.Identifiers {
		for _, other := range o.users[names.Identifier{Kind: id.Kind, Value: id.Value}] {
			if !isSame(other) {
				share(out.Uses, id, m, other)
			}
		}
	}
	for id, use := range out.Uses {
		slices.Sort(use.SameNamespace)
		use.SameNamespace = slices.Compact(use.SameNamespace)
		out.Uses[id] = use
	}
	return out, nil
}

// add adds a VM. Its record is only needed while it is validated.
func (o *existingVMs) add(m *names.Identity) {
	m.Provenance = ""
	at := types.NamespacedName{Namespace: m.Namespace, Name: m.Name}
	o.named[at] = append(o.named[at], m)
	for i, disk := range m.DataVolumes {
		if disk != "" && !slices.Contains(m.DataVolumes[:i], disk) {
			at.Name = disk
			o.disks[at] = append(o.disks[at], m)
		}
	}
	added := map[names.Identifier]bool{}
	for _, id := range m.Identifiers {
		if id.Field = ""; !added[id] {
			added[id] = true
			o.users[id] = append(o.users[id], m)
		}
	}
}

func (o *existingVMs) remove(m *names.Identity) {
	at := types.NamespacedName{Namespace: m.Namespace, Name: m.Name}
	o.named[at] = withoutVM(o.named[at], m)
	for _, disk := range m.DataVolumes {
		at.Name = disk
		o.disks[at] = withoutVM(o.disks[at], m)
	}
	for _, id := range m.Identifiers {
		id.Field = ""
		o.users[id] = withoutVM(o.users[id], m)
	}
}

func withoutVM(all []*names.Identity, m *names.Identity) []*names.Identity {
	return slices.DeleteFunc(all, func(other *names.Identity) bool { return other == m })
}

func named(out *names.Related, other *names.Identity) {
	if other.Kind == presets.VirtualMachine {
		out.VM = other
		return
	}
	out.VMI = other
}

func share(uses map[names.Identifier]names.Use, id names.Identifier, m, other *names.Identity) {
	use := uses[id]
	if other.Namespace == m.Namespace {
		use.SameNamespace = append(use.SameNamespace, other.Name)
	} else {
		use.OtherNamespaces++
	}
	uses[id] = use
}

// A turn keeps the order of VMs that are validated concurrently: collisions with earlier VMs are
// looked up when all of them are known.
type turn struct {
	name string
	// before is closed when all earlier VMs are known; nil for none.
	before <-chan struct{}
	done   chan struct{}
	once   sync.Once
	// judged is the VM, and stored what the cluster has of it; nil for a new VM.
	stored, judged *names.Identity
}

func (t *turn) wait() {
	if t.before != nil {
		<-t.before
	}
}

// end lets the next VM look for collisions, after all earlier VMs.
func (t *turn) end() {
	t.wait()
	t.once.Do(func() { close(t.done) })
}

type turnKey struct{}

func turnOf(ctx context.Context) *turn {
	t, _ := ctx.Value(turnKey{}).(*turn)
	return t
}

// inTurn returns the turn of the request, or a new one that does not wait.
func inTurn(ctx context.Context, m VM) (context.Context, *turn) {
	t := turnOf(ctx)
	if t == nil {
		t = &turn{done: make(chan struct{})}
		ctx = context.WithValue(ctx, turnKey{}, t)
	}
	t.name = m.Name
	return ctx, t
}

// InOrder calls do concurrently and yields the results in the order of the inputs. Requests with
// the context of do see the VMs of earlier inputs.
func InOrder[I, O any](ctx context.Context, inputs iter.Seq[I], do func(context.Context, I) O) iter.Seq[O] {
	return func(yield func(O) bool) {
		stop := make(chan struct{})
		pending := make(chan chan O, 4*runtime.GOMAXPROCS(0)) // so that no core waits for a slow input
		var workers sync.WaitGroup
		defer workers.Wait()
		defer close(stop)
		workers.Go(func() {
			defer close(pending)
			slots := make(chan struct{}, runtime.GOMAXPROCS(0))
			var before <-chan struct{}
			for input := range inputs {
				result, t := make(chan O, 1), &turn{before: before, done: make(chan struct{})}
				before = t.done
				select {
				case pending <- result:
				case <-stop:
					return
				}
				slots <- struct{}{}
				workers.Go(func() {
					defer func() { <-slots }()
					result <- do(context.WithValue(ctx, turnKey{}, t), input)
					t.end()
				})
			}
		})
		for result := range pending {
			if !yield(<-result) {
				return
			}
		}
	}
}
