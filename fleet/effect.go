package fleet

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/provenance"
)

// An Effect is what a running VM needs before a change of a field is effective.
type Effect string

// Effects, weakest first.
const (
	// EffectNone is effective immediately, or never applies to a VMI.
	EffectNone Effect = "none"
	// EffectNew is effective only for new VMs: disks that exist and the run state of a stored VM
	// stay.
	EffectNew Effect = "new VMs only"
	// EffectMigration needs a live migration, like KubeVirt's LiveUpdate.
	EffectMigration Effect = "live migration"
	// EffectRestart needs a restart of the VM.
	EffectRestart Effect = "restart"
)

// effects are all effects, weakest first.
var effects = []Effect{EffectNone, EffectNew, EffectMigration, EffectRestart}

var (
	sockets     = provenance.Of("spec", "template", "spec", "domain", "cpu", "sockets")
	guestMemory = provenance.Of("spec", "template", "spec", "domain", "memory", "guest")
)

var (
	templates = []provenance.Path{
		provenance.Of("spec", "template"), provenance.Of("spec", "instancetype"), provenance.Of("spec", "preference"),
	}
	disks     = provenance.Of("spec", "dataVolumeTemplates")
	runStates = []provenance.Path{provenance.Of("spec", "runStrategy"), provenance.Of("spec", "running")}
)

// Updates says what changes on a running VMI.
type Updates int

// Updates, fewest first.
const (
	// NoUpdates is without KubeVirt: a running VMI never changes.
	NoUpdates Updates = iota
	// StagedUpdates is KubeVirt with the rollout strategy Stage: it plugs volumes and interfaces.
	StagedUpdates
	// LiveUpdates is KubeVirt with the rollout strategy LiveUpdate, its default: it also updates
	// the fields of presets.IsLiveUpdated.
	LiveUpdates
)

// rollout describes what KubeVirt changes on a running VMI. It adds sockets and memory up to the
// limits of the VMI, but never removes them. It changes no field that a preset sets at launch.
type rollout struct {
	updates              Updates
	plugs                plugs
	arm                  bool
	maxSockets, maxGuest any
	request              any // of memory, which is the guest's if it has none of its own
	// disks has the paths of the elements of dataVolumeTemplates that are there before.
	disks map[string]bool
}

func newRollout(updates Updates, before []presets.Origin, after map[string]presets.Origin) rollout {
	const spec = "spec.template.spec."
	out := rollout{
		updates, plugs{}, after[spec+"architecture"].Value == "arm64", after[spec+"domain.cpu.maxSockets"].Value, after[spec+"domain.memory.maxGuest"].Value,
		after[spec+"domain.resources.requests.memory"].Value, map[string]bool{},
	}
	if updates != NoUpdates {
		out.plugs = newPlugs(before, after)
	}
	for _, o := range before {
		if o.Path.HasPrefix(disks) && len(o.Path) > len(disks) {
			out.disks[diskOf(o.Path)] = true
		}
	}
	return out
}

func diskOf(path provenance.Path) string { return path[:len(disks)+1].String() }

func (r rollout) effect(path provenance.Path, before, after presets.Origin) Effect {
	if !before.Launched && !after.Launched {
		if live, ok := r.liveEffect(path, before.Value, after.Value); ok {
			return live
		}
	}
	switch {
	case slices.ContainsFunc(templates, path.HasPrefix):
		return EffectRestart
	case slices.ContainsFunc(runStates, path.HasPrefix):
		return EffectNew
	case path.HasPrefix(disks):
		return r.diskEffect(path)
	}
	return EffectNone
}

// liveEffect returns the effect of a change that reaches a running VMI. ok is false for all others.
func (r rollout) liveEffect(path provenance.Path, before, after any) (effect Effect, ok bool) {
	switch {
	case r.updates == NoUpdates:
		return "", false
	case r.updates == LiveUpdates && presets.IsLiveUpdated(path):
		return EffectMigration, r.hotplugs(path, before, after)
	}
	return r.plugs.effect(path)
}

// diskEffect returns the effect on dataVolumeTemplates. A new disk is attached at the next start.
func (r rollout) diskEffect(path provenance.Path) Effect {
	if len(path) == len(disks) || r.disks[diskOf(path)] {
		return EffectNew
	}
	return EffectRestart
}

const (
	// hotplugRatio is the ratio of the default maximum to the first size of a VMI.
	hotplugRatio = 4
	// minGuest is the least memory of a guest to which KubeVirt adds memory, in multiples of
	// memoryBlock. Both are in bytes.
	minGuest, memoryBlock = 1 << 30, 2 << 20
)

// Only sockets and memory have limits.
func (r rollout) hotplugs(path provenance.Path, before, after any) bool {
	switch {
	case path.HasPrefix(sockets):
		return !r.arm && grows(cmp.Or(before, any(1)), after, r.maxSockets, 1, 1)
	case path.HasPrefix(guestMemory):
		return grows(cmp.Or(before, r.request), after, r.maxGuest, minGuest, memoryBlock)
	}
	return true
}

// grows reports whether a quantity that is not less than the least grows to a multiple of the unit,
// up to a limit; nil for the default one.
func grows(before, after, limit any, least, unit int64) bool {
	was, err := resource.ParseQuantity(fmt.Sprint(before))
	is, wrong := resource.ParseQuantity(fmt.Sprint(after))
	if err != nil || wrong != nil || was.Value() < least || was.Value()%unit+is.Value()%unit > 0 || is.Cmp(was) <= 0 {
		return false
	}
	most, err := resource.ParseQuantity(fmt.Sprint(limit))
	if err != nil {
		most = *resource.NewQuantity(was.Value(), was.Format)
		most.Mul(hotplugRatio)
	}
	return is.Cmp(most) <= 0
}
