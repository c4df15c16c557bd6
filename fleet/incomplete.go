package fleet

import (
	"context"
	"slices"

	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/provenance"
)

// Incomplete returns, for each of the presets, the fields that make a VM invalid whose author sets
// nothing else: other fields are missing, which neither these nor other presets give all such VMs.
func Incomplete(ctx context.Context, of, others []*presets.Compiled, settings Settings) map[*presets.Compiled][]provenance.Path {
	a := newAnalysis(ctx, slices.Concat(of, others), settings)
	out := map[*presets.Compiled][]provenance.Path{}
	for _, m := range a.members {
		if !slices.Contains(of, m.Compiled) {
			continue
		}
		_, problems := a.whatEachHas([]*member{m}, (*analysis).introduced)
		for _, p := range slices.Concat(problems.errs, problems.open) {
			if at := m.partAt(p.path); at != nil {
				out[m.Compiled] = append(out[m.Compiled], at.Path)
			}
		}
	}
	return out
}
