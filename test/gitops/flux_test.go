package gitops

import (
	"fmt"
	"strings"
	"testing"
)

const fluxPage = "../../docs/gitops-flux.md"

// Flux finds nothing to do, without options.
func testFlux(t *testing.T, e engine) {
	cells := make([]string, len(stories))
	t.Run("Stories", func(t *testing.T) {
		for n, tc := range stories {
			t.Run(tc.name, func(t *testing.T) {
				t.Parallel()
				says := e.follow(t, fmt.Sprint("flux-", n), tc)
				if cells[n] = says.Status; says.Status != e.settled || says.Drift != nil {
					t.Errorf("%s: %s", says.Status, says.Drift)
				}
			})
		}
	})
	t.Run("HundredSyncs", func(t *testing.T) { e.repeat(t, "flux-hundred", e.settled, 0) })
	t.Run("Rejected", func(t *testing.T) { e.reject(t, "flux-rejected") })
	t.Run("Annotations", func(t *testing.T) { testFluxAnnotations(t, e) })
	table(t, fluxPage, []string{"second apply"}, func(n, _ int) string { return cells[n] })
}

// What kubectl wrote is taken back, unless an annotation of Flux's says otherwise. The run strategy
// stays: presets never stop a VM.
func testFluxAnnotations(t *testing.T, e engine) {
	cases := map[string]struct{ status, kept string }{
		"none":         {"unchanged", ","},
		"Merge":        {"unchanged", "web,now"},
		"IfNotPresent": {"skipped", "web,now"},
		"Ignore":       {"skipped", "web,now"},
	}
	for value, want := range cases {
		t.Run(value, func(t *testing.T) {
			t.Parallel()
			name := "flux-" + strings.ToLower(value)
			git := strings.NewReplacer("NAME", name, "runStrategy: Halted", "").Replace(sparse)
			e.sync(t, git, 1)
			e.Must("", "patch", "vm", name, "--type=merge", "-p", `{"spec":{"runStrategy":"Always","template":{"spec":{"hostname":"web"}}}}`)
			e.Must("", "annotate", "vm", name, "virtwright.dev/reapply=now")
			if value != "none" {
				git = strings.Replace(git, "metadata: {", "metadata: {annotations: {kustomize.toolkit.fluxcd.io/ssa: "+value+"}, ", 1)
			}
			if reports := e.sync(t, git, 2); reports[1].Status != want.status {
				t.Errorf("got %v", reports)
			}
			const all = `{.spec.template.spec.hostname},{.metadata.annotations.virtwright\.dev/reapply},{.spec.runStrategy}`
			if err := e.Is("vm/"+name, all, want.kept+",Always"); err != nil {
				t.Error(err)
			}
		})
	}
}
