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
	// memoryRequests are the fields from which KubeVirt takes the memory of a guest, the first one
	// first.
	memoryRequests = []provenance.Path{
		provenance.Of("spec", "template", "spec", "domain", "resources", "requests", "memory"),
		provenance.Of("spec", "template", "spec", "domain", "resources", "limits", "memory"),
	}
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
	updates Updates
	plugs   plugs
	// sizes are fields beneath spec.template.spec.domain after the change.
	sizes map[string]int64
	// architecture of the VM; nil for the default.
	architecture any
	// fixed is true for guests to which KubeVirt adds no memory.
	fixed bool
	// request of memory before the change, which is the guest's if it has none of its own.
	request any
	// disks has the paths of the elements of dataVolumeTemplates that are there before.
	disks map[string]bool
}

func newRollout(updates Updates, before []presets.Origin, after map[string]presets.Origin) rollout {
	const spec = "spec.template.spec."
	out := rollout{updates: updates, sizes: map[string]int64{}, architecture: after[spec+"architecture"].Value, disks: map[string]bool{}}
	for _, name := range []string{"cpu.cores", "cpu.threads", "cpu.maxSockets", "memory.maxGuest"} {
		out.sizes[name] = quantityOf(after[spec+"domain."+name].Value)
	}
	if updates != NoUpdates {
		out.plugs = newPlugs(before, after)
	}
	requests := map[string]any{}
	for _, o := range before {
		switch {
		case o.Path.HasPrefix(disks) && len(o.Path) > len(disks):
			out.disks[diskOf(o.Path)] = true
		case slices.ContainsFunc(memoryRequests, o.Path.Equal):
			requests[o.Path.String()] = o.Value
		}
		out.fixed = out.fixed || slices.ContainsFunc(presets.FixedMemory, o.Path.HasPrefix)
	}
	for _, p := range slices.Backward(memoryRequests) {
		out.request = cmp.Or(requests[p.String()], out.request)
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

// maxCPUs is KubeVirt's default maximum of vCPUs.
const maxCPUs = 512

// Only sockets and memory have limits.
func (r rollout) hotplugs(path provenance.Path, before, after any) bool {
	switch {
	case path.HasPrefix(sockets):
		return r.addsSockets(max(quantityOf(before), 1), quantityOf(after))
	case path.HasPrefix(guestMemory):
		return r.addsMemory(quantityOf(cmp.Or(before, r.request)), quantityOf(after))
	}
	return true
}

func (r rollout) addsSockets(was, is int64) bool {
	most := r.sizes["cpu.maxSockets"]
	if most == 0 {
		perSocket := max(r.sizes["cpu.cores"], 1) * max(r.sizes["cpu.threads"], 1)
		most = max(was, min(presets.HotplugRatio*was, maxCPUs/perSocket))
	}
	return r.architecture != "arm64" && is > was && is <= most
}

func (r rollout) addsMemory(was, is int64) bool {
	if isAMD64 := r.architecture == nil || r.architecture == "amd64"; r.fixed || !isAMD64 || was < presets.MinHotplugMemory || was%presets.HotplugBlock+is%presets.HotplugBlock > 0 {
		return false
	}
	return is > was && is <= cmp.Or(r.sizes["memory.maxGuest"], presets.HotplugRatio*was)
}

// quantityOf reads a quantity; 0 if there is none.
func quantityOf(v any) int64 {
	q, err := resource.ParseQuantity(fmt.Sprint(v))
	if err != nil {
		return 0
	}
	return q.Value()
}
