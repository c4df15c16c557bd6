package presetusage

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/lifecycle/partialobject"
	"github.com/virtwright/virtwright/lifecycle/presetcache"
	"github.com/virtwright/virtwright/presets"
)

var noon = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

// record returns a record with sources and hashes, given as JSON lists.
func record(by, hashes string) string { return `{"v":1,"by":` + by + `,"hashes":` + hashes + `}` }

func meta(name, record string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: "shop", Name: name, CreationTimestamp: metav1.NewTime(noon),
		Annotations: map[string]string{v1alpha1.AnnotationProvenance: record},
	}
}

func trimmed(object any) any {
	out, _ := partialobject.Trim(object)
	out, _ = partialobject.Trim(out) // as informers may
	return out
}

func vm(name, record string) any {
	return trimmed(&partialobject.VirtualMachine{ObjectMeta: meta(name, record)})
}

func vmi(name, record string) any {
	return trimmed(&partialobject.VirtualMachineInstance{ObjectMeta: meta(name, record)})
}

func TestIndex(t *testing.T) {
	const old, current = `["size@1:default","cluster/os@4:override","cluster/os@4:forbid","acpi:platform","size@9:legacy"]`, `["size@2:default","cluster/os@4:override"]`
	size, os := presets.PresetName{Namespace: "shop", Ref: "size"}, presets.PresetName{Ref: "cluster/os"}
	x := &Index{Clock: clocktesting.NewFakePassiveClock(noon.Add(time.Hour))}
	if _, ok := x.Of(size, "b", 2); ok {
		t.Error("counted before the VMs are known")
	}
	close(x.Ready())
	var changed []presets.PresetName
	x.Subscribe(func(p presets.PresetName) { changed = append(changed, p) })
	h := presetcache.Handler("VirtualMachine", x.note)
	steps := []struct {
		reason   string
		do       func()
		size, os Counts
		changed  int
	}{
		{"a new VM", func() { h.OnAdd(vm("a", record(old, `["a","x","x"]`)), true) }, Counts{1, 1, noon}, Counts{1, 0, noon}, 2},
		{"a record without hashes", func() { h.OnAdd(vm("b", record(current, `[]`)), false) }, Counts{2, 1, noon}, Counts{2, 0, noon}, 2},
		{"a record with two versions", func() { h.OnAdd(vm("c", record(`["size@1:default","size@2:default"]`, `["a","b"]`)), false) }, Counts{3, 2, noon}, Counts{2, 0, noon}, 1},
		{"an update that keeps the record", func() { h.OnUpdate(vm("a", record(old, `["a","x","x"]`)), vm("a", record(old, `["a","x","x"]`))) }, Counts{3, 2, noon}, Counts{2, 0, noon}, 0},
		{"an update to the present version", func() {
			h.OnUpdate(vm("a", record(old, `["a","x","x"]`)), vm("a", record(current, `["b","x"]`)))
		}, Counts{3, 1, noon.Add(time.Hour)}, Counts{2, 0, noon}, 2},
		{"a VMI with a preset that its VM lacks", func() { h.OnAdd(vmi("c", record(`["size@1:default","cluster/os@3:override"]`, `["a","y"]`)), false) }, Counts{3, 1, noon.Add(time.Hour)}, Counts{3, 1, noon}, 1},
		{"the VM is deleted before its VMI", func() { h.OnDelete(vm("c", "")) }, Counts{3, 1, noon.Add(time.Hour)}, Counts{3, 1, noon}, 2},
		{"a deletion that was missed", func() {
			h.OnDelete(toolscache.DeletedFinalStateUnknown{Obj: vmi("c", record(`["size@1:default"]`, `["a"]`))})
		}, Counts{2, 0, noon.Add(time.Hour)}, Counts{2, 0, noon}, 2},
		{"an invalid record", func() { h.OnUpdate(vm("b", record(current, `[]`)), vm("b", "nonsense")) }, Counts{1, 0, noon.Add(time.Hour)}, Counts{1, 0, noon}, 2},
		{"the last VM is deleted", func() { h.OnDelete(vm("a", "")) }, Counts{}, Counts{}, 2},
	}
	for _, s := range steps {
		changed = nil
		s.do()
		got := map[string]Counts{}
		got["size"], _ = x.Of(size, "b", 2)
		got["os"], _ = x.Of(os, "x", 4)
		if diff := cmp.Diff(map[string]Counts{"size": s.size, "os": s.os}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", s.reason, diff)
		}
		if len(changed) != s.changed {
			t.Errorf("%s: want %d changed presets, got %v", s.reason, s.changed, changed)
		}
	}
	if len(x.vms)+len(x.presets)+len(x.exceptions) > 0 {
		t.Errorf("left over: %v, %v", x.vms, x.presets)
	}
}

// BenchmarkChange decodes and counts a change of one VM among many.
func BenchmarkChange(b *testing.B) {
	object := func(i, version int) []byte {
		text := record(fmt.Sprintf(`["size-%d@1:default","cluster/os-%d@4:override","cluster/base@1:default","acpi:platform"]`, i%300, i%20), fmt.Sprintf(`["%08d","0a1b2c3d","0a1b2c3d"]`, version))
		raw, err := json.Marshal(&partialobject.VirtualMachine{ObjectMeta: meta(fmt.Sprintf("vm-%d", i), text)})
		if err != nil {
			b.Fatal(err)
		}
		return raw
	}
	read := func(raw []byte) any {
		out := &partialobject.VirtualMachine{}
		if err := json.Unmarshal(raw, out); err != nil {
			b.Fatal(err)
		}
		return trimmed(out)
	}
	for _, vms := range []int{1_000, 100_000} {
		b.Run(fmt.Sprintf("vms=%d", vms), func(b *testing.B) {
			x := &Index{Clock: clocktesting.NewFakePassiveClock(noon)}
			h := presetcache.Handler("VirtualMachine", x.note)
			all := make([]any, vms)
			for i := range vms {
				all[i] = read(object(i, 0))
				h.OnAdd(all[i], true)
			}
			close(x.Ready())
			const changes = 1_000
			raw := make([][]byte, changes)
			for i := range raw {
				raw[i] = object(i*(vms/changes), 1)
			}
			i := 0
			for b.Loop() {
				at := i % changes * (vms / changes)
				before := all[at]
				all[at] = read(raw[i%changes])
				h.OnUpdate(before, all[at])
				h.OnUpdate(all[at], before)
				all[at] = before
				i++
			}
		})
	}
}
