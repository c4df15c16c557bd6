package simulate_test

import (
	"fmt"
	"strings"
	"testing"

	kjson "sigs.k8s.io/json"

	"github.com/virtwright/virtwright/simulate"
)

// BenchmarkPlan compares two sets of presets on 200 VMs. The control decodes each VM once.
func BenchmarkPlan(b *testing.B) {
	const vms = 200
	var documents []string
	for i := range vms {
		documents = append(documents, vm(fmt.Sprintf("web%d", i), "size: small", "rng: {}"))
	}
	before := objects(b, append(documents, size)...)
	after := objects(b, append(documents, strings.ReplaceAll(size, "1Gi", "2Gi"))...)
	b.Run("control", func(b *testing.B) {
		for b.Loop() {
			for _, o := range before {
				var object map[string]any
				if err := kjson.UnmarshalCaseSensitivePreserveInts(o.JSON, &object); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
	b.Run("plan", func(b *testing.B) {
		for b.Loop() {
			x := &simulate.Comparison{Settings: standalone(), Before: before, After: after}
			if plan, err := x.Plan(b.Context()); err != nil || len(plan.Groups) != 1 {
				b.Fatal(plan, err)
			}
		}
	})
}
