package presetusage

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
)

func TestExceptions(t *testing.T) {
	const uses, none = `{"v":1,"exceptions":{"old":["size"]}}`, `{"v":1,"by":["size@1:default"]}`
	old := types.NamespacedName{Namespace: "shop", Name: "old"}
	later := noon.Add(time.Hour)
	x := &Index{Now: func() time.Time { return later }}
	if _, ok := x.Exception(old); ok {
		t.Error("counted before the VMs are known")
	}
	close(x.Ready())
	told := 0
	x.SubscribeExceptions(func(key types.NamespacedName) {
		if told++; key != old {
			t.Errorf("got %s", key)
		}
	})
	h := x.handler()
	for i, step := range []struct {
		reason string
		do     func()
		want   ExceptionUse
		told   int
	}{
		{"new VMs", func() { h.OnAdd(vm("b", uses), true); h.OnAdd(vm("a", uses), true) }, ExceptionUse{[]string{"a", "b"}, noon}, 2},
		{"one without", func() { h.OnAdd(vm("c", none), true) }, ExceptionUse{[]string{"a", "b"}, noon}, 2},
		{"it comes to use it", func() { h.OnUpdate(vm("c", none), vm("c", uses)) }, ExceptionUse{[]string{"a", "b", "c"}, later}, 3},
		{"no change", func() { h.OnUpdate(vm("c", uses), vm("c", uses)) }, ExceptionUse{[]string{"a", "b", "c"}, later}, 3},
		{"the VMI of a VM", func() { h.OnAdd(vmi("a", uses), true) }, ExceptionUse{[]string{"a", "b", "c"}, later}, 3},
		{"the VM without its VMI", func() { h.OnUpdate(vm("a", uses), vm("a", none)) }, ExceptionUse{[]string{"a", "b", "c"}, later}, 3},
		{"neither", func() { h.OnDelete(vmi("a", uses)) }, ExceptionUse{[]string{"b", "c"}, later}, 4},
		{"all gone", func() { h.OnDelete(vm("b", uses)); h.OnDelete(vm("c", uses)) }, ExceptionUse{nil, time.Time{}}, 6},
	} {
		step.do()
		got, ok := x.Exception(old)
		if diff := cmp.Diff(step.want, got); diff != "" || !ok || told != step.told {
			t.Errorf("%d: %s: told %d (-want +got):\n%s", i, step.reason, told, diff)
		}
	}
}
