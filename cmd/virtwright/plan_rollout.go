package main

import (
	"fmt"
	"strings"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/simulate"
)

// printProposedRollout prints a PresetRollout, with notes about the VMs that its steps reach.
func printProposedRollout(s streams, p *simulate.ProposedRollout) error {
	if p == nil {
		note(s, []string{"there is nothing to roll out: no cluster preset changes, or those that change are in a PresetRollout already"})
		return nil
	}
	wave := map[string]any{"name": "all"}
	var steps []any
	var reached []string
	for _, percent := range p.Steps() {
		steps = append(steps, fmt.Sprintf("%d%%", percent))
		reached = append(reached, fmt.Sprintf("%d%% reaches %d", percent, p.Reached(percent)))
	}
	if len(steps) > 1 {
		wave["steps"], wave["bake"] = steps, "1h"
	}
	text, err := yamlOf(map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": "PresetRollout", "metadata": map[string]any{"name": p.Name},
		"spec": map[string]any{"presets": p.Presets, "waves": []any{wave}},
	})
	if err != nil {
		return err
	}
	notes := []string{"VMs that change: " + strings.Join(reached, ", ")}
	if p.Restarts > 0 {
		notes = append(notes, fmt.Sprintf("%s would need a restart: with restart: Rolling, the rollout restarts those that are neither paused nor Once", counted(p.Restarts, "running VM")))
	}
	note(s, notes)
	order := "# Apply this first, and the changed presets when it is Complete."
	switch {
	case p.HasNew && p.HasOld:
		order = "# Apply this first, then the new presets. Apply the changed ones when it is Complete."
	case p.HasNew:
		order = "# Apply this first, then the new presets. Until they exist, its state is Invalid."
	}
	_, err = fmt.Fprintf(s.out, "%s\n%s", order, text)
	return err
}
