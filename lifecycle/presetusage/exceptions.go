package presetusage

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtwright/virtwright/lifecycle/machine"
)

// ExceptionUse are the VMs that use an exception.
type ExceptionUse struct {
	// VMs are their names, sorted.
	VMs []string
	// LastUsed is when a VM last came to use it, as far as VMs say; zero where none does.
	LastUsed time.Time
}

// exceptionUses are the exceptions that a VM and the VMI of its name use.
type exceptionUses struct{ vm, instance []string }

// users are the VMs that use an exception.
type users struct {
	vms      map[string]bool
	lastUsed time.Time
}

// Exception says which VMs use an exception. It reports false while VMs are not counted yet.
func (x *Index) Exception(key types.NamespacedName) (ExceptionUse, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	u := x.users[key]
	if u == nil {
		return ExceptionUse{}, isClosed(x.ready)
	}
	return ExceptionUse{slices.Sorted(maps.Keys(u.vms)), u.lastUsed}, isClosed(x.ready)
}

// SubscribeExceptions calls f with each exception whose VMs change once the index is ready. f must
// not block.
func (x *Index) SubscribeExceptions(f func(types.NamespacedName)) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.exceptionChanged = append(x.exceptionChanged, f)
}

func exceptionsOf(object any) []string {
	switch m := object.(type) {
	case *machine.VirtualMachine:
		return m.Exceptions
	case *machine.Instance:
		return m.Exceptions
	}
	return nil
}

// noteExceptions counts a VM or a VMI, which uses these exceptions since a time.
func (x *Index) noteExceptions(object client.Object, now []string, since time.Time) {
	vm := client.ObjectKeyFromObject(object)
	x.mu.Lock()
	was := x.excepted[vm]
	is := was
	is.vm, is.instance = replaced(object, was.vm, was.instance, now)
	if x.excepted == nil {
		x.excepted, x.users = map[types.NamespacedName]exceptionUses{}, map[types.NamespacedName]*users{}
	}
	if x.excepted[vm] = is; len(is.vm)+len(is.instance) == 0 {
		delete(x.excepted, vm)
	}
	changed := x.use(vm, slices.Concat(was.vm, was.instance), slices.Concat(is.vm, is.instance), since)
	subscribers := x.exceptionChanged
	if !isClosed(x.ready) {
		subscribers = nil // they look at all exceptions then
	}
	x.mu.Unlock()
	tell(subscribers, changed)
}

// use takes note of a VM that used exceptions and uses others now. It returns those whose VMs
// changed; the caller holds the lock.
func (x *Index) use(vm types.NamespacedName, was, is []string, since time.Time) []types.NamespacedName {
	var changed []types.NamespacedName
	for _, name := range was {
		key := types.NamespacedName{Namespace: vm.Namespace, Name: name}
		if u := x.users[key]; u != nil && u.vms[vm.Name] && !slices.Contains(is, name) {
			if delete(u.vms, vm.Name); len(u.vms) == 0 {
				delete(x.users, key)
			}
			changed = append(changed, key)
		}
	}
	for _, name := range is {
		key := types.NamespacedName{Namespace: vm.Namespace, Name: name}
		u := x.users[key]
		if u == nil {
			u = &users{vms: map[string]bool{}}
			x.users[key] = u
		}
		if u.vms[vm.Name] {
			continue
		}
		u.vms[vm.Name] = true
		if since.After(u.lastUsed) {
			u.lastUsed = since
		}
		changed = append(changed, key)
	}
	return changed
}
