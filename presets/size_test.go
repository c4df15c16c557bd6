package presets

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// Large objects are rejected before they are decoded; stored ones may stay large.
func TestCheckSize(t *testing.T) {
	list := func(n int, element string) string {
		return "[" + strings.TrimSuffix(strings.Repeat(element+",", n), ",") + "]"
	}
	vm := func(devices string) string {
		return `{"metadata":{"name":"a"},"spec":{"template":{"spec":{"domain":{"devices":{` + devices + `}}}}}}`
	}
	disks := func(n int) string { return vm(`"disks":` + list(n, `{"name":"a,[{","x":[1,{}]}`)) }
	tooMany := "spec.template.spec.domain.devices.disks: Too many: must have at most 512 items"
	for name, c := range map[string]struct {
		kind        Kind
		object, old string
		want        string
	}{
		"as many as allowed":      {kind: VirtualMachine, object: disks(512)},
		"too many":                {kind: VirtualMachine, object: disks(513), want: tooMany},
		"too many already":        {kind: VirtualMachine, object: disks(600), old: disks(513)},
		"far too many already":    {kind: VirtualMachine, object: disks(2049), old: disks(2049), want: "must have at most 2048 items"},
		"too many now":            {kind: VirtualMachine, object: disks(513), old: disks(512), want: tooMany},
		"not a list that merges":  {kind: VirtualMachine, object: vm(`"x":` + list(5000, "1"))},
		"a label for each disk":   {kind: VirtualMachine, object: `{"metadata":{"labels":{"disks":` + list(600, "{}") + `}}}`},
		"beneath another element": {kind: VirtualMachine, object: `{"spec":{"template":{"spec":{"volumes":[{},{"x":` + list(600, "{}") + `}]}}}}`},
		"instance": {
			kind: VirtualMachineInstance, object: `{"spec":{"domain":{"cpu":{"features":` + list(513, "{}") + `}}}}`,
			want: "spec.domain.cpu.features: Too many",
		},
		"a name with an escape":  {kind: VirtualMachine, object: strings.Replace(disks(513), "disks", `d\u0069sks`, 1), want: tooMany},
		"with spaces":            {kind: VirtualMachine, object: strings.NewReplacer(",", " ,\n", ":", " :\t").Replace(vm(`"disks":` + list(513, "null"))), want: tooMany},
		"another kind":           {object: disks(600)},
		"parts":                  {object: `{"spec":{"x":` + list(100_001, "{}") + `}}`, want: "spec: Forbidden: the object has more than 100000 fields"},
		"fields":                 {kind: VirtualMachine, object: `{"spec":{` + numbered(100_001) + `}}`, want: "more than 100000 fields"},
		"nested":                 {kind: VirtualMachine, object: strings.Repeat("[", 1<<20), want: "more than 100000 fields"},
		"not JSON":               {kind: VirtualMachine, object: strings.Repeat("{,]", 1000)},
		"text with separators":   {kind: VirtualMachine, object: `{"metadata":{"name":"` + strings.Repeat("[,{", 100_001) + `"}}`},
		"cut off before it ends": {kind: VirtualMachine, object: strings.TrimSuffix(disks(500), "}")},
	} {
		t.Run(name, func(t *testing.T) {
			err := (&Request{Kind: c.kind, Object: []byte(c.object), OldObject: []byte(c.old)}).CheckSize()
			rejection, rejected := errors.AsType[*Rejection](err)
			switch {
			case c.want == "" && err != nil:
				t.Errorf("got %v", err)
			case c.want != "" && (!rejected || !strings.Contains(rejection.Error(), c.want)):
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

func numbered(n int) string {
	var out strings.Builder
	for i := range n {
		fmt.Fprintf(&out, `"f%d":1,`, i)
	}
	return strings.TrimSuffix(out.String(), ",")
}

// The scan costs little beside decoding what passes it.
func BenchmarkCheckSize(b *testing.B) {
	object := []byte(`{"spec":{"x":[` + strings.Repeat(`{"name":"a","value":1},`, 30_000) + `{}]}}`)
	b.Run("scan", func(b *testing.B) {
		for b.Loop() {
			if err := (&Request{Kind: VirtualMachine, Object: object}).CheckSize(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("decode-control", func(b *testing.B) {
		for b.Loop() {
			if _, err := decode("object", object); err != nil {
				b.Fatal(err)
			}
		}
	})
}
