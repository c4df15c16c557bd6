package fleet

import (
	"context"
	"slices"

	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/provenance"
)

// Incomplete returns, for each of the presets, the fields of a VM, named WitnessName, that are
// invalid because its author sets nothing else, and neither these nor other presets complete them.
func Incomplete(ctx context.Context, of, others []*presets.Compiled, settings Settings) map[*presets.Compiled][]provenance.Path {
	a := newAnalysis(ctx, slices.Concat(of, others), settings)
	out := map[*presets.Compiled][]provenance.Path{}
	for _, m := range a.members {
		if !slices.Contains(of, m.Compiled) {
			continue
		}
		_, problems := a.whatEachHas([]*member{m}, (*analysis).introduced)
		for _, p := range slices.Concat(problems.errs, problems.open) {
			out[m.Compiled] = append(out[m.Compiled], p.path)
		}
	}
	return out
}
