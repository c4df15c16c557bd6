package presets

import (
	"slices"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets/provenance"
)

// liveUpdated are the fields of a VM that KubeVirt also changes on its running VMI, if its rollout
// strategy is LiveUpdate, the default. Source: virt-controller of KubeVirt 1.9, which sets them to
// the VM's values after it created the VMI, too.
var liveUpdated = paths("domain.cpu.sockets", "domain.memory.guest", "nodeSelector", "affinity", "tolerations")

// IsLiveUpdated reports whether p is a field that KubeVirt updates on running VMIs, or beneath one.
func IsLiveUpdated(p provenance.Path) bool {
	return slices.ContainsFunc(liveUpdated, p.HasPrefix)
}

// UndoneByLiveUpdate returns the fields that c sets on VMIs at launch and that KubeVirt sets back
// to the VM's values, as defaults.PATH or overrides.PATH.
func (c *Compiled) UndoneByLiveUpdate() []string {
	if c.ApplyAt != v1alpha1.ApplyAtLaunch || c.Mode == v1alpha1.ModeOff {
		return nil
	}
	var out []string
	c.leaves(func(part string, leaf *fieldNode) {
		if IsLiveUpdated(leaf.path) {
			out = append(out, part+"."+leaf.text)
		}
	})
	return out
}
