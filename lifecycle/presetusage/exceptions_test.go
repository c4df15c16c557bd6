package presetusage

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/virtwright/virtwright/lifecycle/presetcache"
)

func TestExceptions(t *testing.T) {
	const uses, none = `{"v":1,"exceptions":{"old":["size"]}}`, `{"v":1,"by":["size@1:default"]}`
	old := types.NamespacedName{Namespace: "shop", Name: "old"}
	later := noon.Add(time.Hour)
	x := &Index{Clock: clocktesting.NewFakePassiveClock(later)}
	if _, ok := x.Exception(old); ok {
		t.Error("counted before the VMs are known")
	}
	close(x.Ready())
	changed := 0
	x.ExceptionSubscribers.Subscribe(func(key types.NamespacedName) {
		if changed++; key != old {
			t.Errorf("got %s", key)
		}
	})
	h := presetcache.Handler("VirtualMachine", x.note)
	for i, step := range []struct {
		reason  string
		do      func()
		want    ExceptionUse
		changed int
	}{
		{"new VMs", func() { h.OnAdd(vm("b", uses), true); h.OnAdd(vm("a", uses), true) }, ExceptionUse{[]string{"a", "b"}, noon}, 2},
		{"a VM without it", func() { h.OnAdd(vm("c", none), true) }, ExceptionUse{[]string{"a", "b"}, noon}, 2},
		{"the VM starts to use it", func() { h.OnUpdate(vm("c", none), vm("c", uses)) }, ExceptionUse{[]string{"a", "b", "c"}, later}, 3},
		{"no change", func() { h.OnUpdate(vm("c", uses), vm("c", uses)) }, ExceptionUse{[]string{"a", "b", "c"}, later}, 3},
		{"the VMI of a VM", func() { h.OnAdd(vmi("a", uses), true) }, ExceptionUse{[]string{"a", "b", "c"}, later}, 3},
		{"the VM without its VMI", func() { h.OnUpdate(vm("a", uses), vm("a", none)) }, ExceptionUse{[]string{"a", "b", "c"}, later}, 3},
		{"neither uses it", func() { h.OnDelete(vmi("a", uses)) }, ExceptionUse{[]string{"b", "c"}, later}, 4},
		{"all VMs deleted", func() { h.OnDelete(vm("b", uses)); h.OnDelete(vm("c", uses)) }, ExceptionUse{nil, time.Time{}}, 6},
	} {
		step.do()
		got, ok := x.Exception(old)
		if diff := cmp.Diff(step.want, got); diff != "" || !ok || changed != step.changed {
			t.Errorf("%d: %s: %d changes (-want +got):\n%s", i, step.reason, changed, diff)
		}
	}
}
