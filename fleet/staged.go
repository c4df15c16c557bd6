package fleet

import "slices"

// Staged says how a PresetRollout brings the changes of a plan to VMs.
type Staged struct {
	Rollout string       `json:"rollout"`
	Waves   []StagedWave `json:"waves"`
	// Held counts VMs that are left out: they are held, or a controller owns them.
	Held int `json:"held,omitempty"`
}

// A StagedWave counts the VMs of a wave that change.
type StagedWave struct {
	Name string `json:"name"`
	VMs  int    `json:"vms"`
	// Approval is true if a person must approve the wave.
	Approval bool `json:"approval,omitempty"`
}

// ChangedBy reports whether a preset causes a change of the VM.
func (d Difference) ChangedBy(ref string) bool {
	return slices.ContainsFunc(d.Changes, func(c Change) bool { return c.Preset == ref || c.was == ref })
}
