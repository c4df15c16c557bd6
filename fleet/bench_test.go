package fleet_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/virtwright/virtwright/fleet"
)

// BenchmarkAnalyze analyzes 1,000 presets for 1,000 teams; 100 of them set the same fields.
func BenchmarkAnalyze(b *testing.B) {
	for _, n := range []int{100, 1000} {
		var text []string
		for i := range n {
			text = append(text, fmt.Sprintf(`kind: ClusterVirtualMachinePreset
metadata: {name: team-%04d}
spec:
  match: {labels: {matchLabels: {team: t%d}}}
  defaults:
    spec: {template: {spec: {domain: {cpu: {cores: %d}, memory: {guest: %dGi}}}}}
`, i, i, i+1, i+1))
		}
		all, _, _ := compiled(b, strings.Join(text, "---\n"))
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				if found, complete := fleet.Analyze(b.Context(), all, settings); len(found) > 0 || !complete {
					b.Fatal(describe(found))
				}
			}
		})
	}
}
