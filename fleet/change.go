package fleet

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/provenance"
)

// A Change is a field of a VM that differs between two sets of presets.
type Change struct {
	// Path of the field in the VM.
	Path string `json:"path"`
	// Before and After are values; nil for an absent field.
	Before any `json:"before,omitempty"`
	After  any `json:"after,omitempty"`
	// Preset sets the field after the change, or set it before; empty for the platform and users.
	Preset string `json:"preset,omitempty"`
	// Effect is what a running VM needs before the change is effective.
	Effect Effect `json:"effect,omitempty"`

	at provenance.Path
	// was is the preset that set the value before.
	was string
}

// IsRunState reports whether the field says if a VM runs.
func (c Change) IsRunState() bool { return slices.ContainsFunc(runStates, c.at.HasPrefix) }

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

// rollout describes what KubeVirt changes on a running VMI. If live is true, it adds sockets and
// memory up to the limits of the VMI, but never removes them. It changes no field that a preset
// sets at launch.
type rollout struct {
	live                 bool
	arm                  bool
	maxSockets, maxGuest any
	// disks has the paths of the elements of dataVolumeTemplates that are there before.
	disks map[string]bool
}

func newRollout(live bool, before []presets.Origin, after map[string]presets.Origin) rollout {
	const spec = "spec.template.spec."
	out := rollout{
		live, after[spec+"architecture"].Value == "arm64", after[spec+"domain.cpu.maxSockets"].Value, after[spec+"domain.memory.maxGuest"].Value, map[string]bool{},
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
	launched := before.Launched || after.Launched
	switch {
	case !launched && r.live && presets.IsLiveUpdated(path) && r.hotplugs(path, before.Value, after.Value):
		return EffectMigration
	case slices.ContainsFunc(templates, path.HasPrefix):
		return EffectRestart
	case slices.ContainsFunc(runStates, path.HasPrefix):
		return EffectNew
	case path.HasPrefix(disks):
		return r.diskEffect(path)
	}
	return EffectNone
}

// diskEffect returns the effect on dataVolumeTemplates. A new disk is attached at the next start.
func (r rollout) diskEffect(path provenance.Path) Effect {
	if len(path) == len(disks) || r.disks[diskOf(path)] {
		return EffectNew
	}
	return EffectRestart
}

// Only sockets and memory have limits.
func (r rollout) hotplugs(path provenance.Path, before, after any) bool {
	switch {
	case path.HasPrefix(sockets):
		return !r.arm && grows(cmp.Or(before, any(1)), after, r.maxSockets)
	case path.HasPrefix(guestMemory):
		return grows(before, after, r.maxGuest)
	}
	return true
}

// grows reports whether a quantity grows without exceeding a limit; nil for no limit.
func grows(before, after, limit any) bool {
	was, err := resource.ParseQuantity(fmt.Sprint(before))
	is, wrong := resource.ParseQuantity(fmt.Sprint(after))
	if err != nil || wrong != nil || is.Cmp(was) <= 0 {
		return false
	}
	most, unlimited := resource.ParseQuantity(fmt.Sprint(limit))
	return unlimited != nil || is.Cmp(most) <= 0
}

func hidden(path string, v any) any {
	if v == nil || !presets.MayHoldSecret(path) {
		return v
	}
	return "(hidden)"
}

// Changes returns the differences between fields of a VM from Explain, by path. live is true if
// KubeVirt updates running VMIs.
func Changes(before, after []presets.Origin, live bool) []Change {
	before, after = withoutContainers(before, after), withoutContainers(after, before)
	now := make(map[string]presets.Origin, len(after))
	for _, o := range after {
		now[o.Path.String()] = o
	}
	var out []Change
	running := newRollout(live, before, now)
	add := func(path string, at provenance.Path, was, is presets.Origin) {
		if presets.SameValue(at, was.Value, is.Value) {
			return
		}
		by := decidingPreset(was)
		out = append(out, Change{path, was.Value, is.Value, cmp.Or(decidingPreset(is), by), running.effect(at, was, is), at, by})
	}
	for _, o := range before {
		path := o.Path.String()
		add(path, o.Path, o, now[path])
		delete(now, path)
	}
	for path, o := range now {
		add(path, o.Path, presets.Origin{}, o)
	}
	slices.SortFunc(out, func(a, b Change) int { return cmp.Compare(a.Path, b.Path) })
	return out
}

// decidingPreset returns the preset that set a field; empty for the platform and users.
func decidingPreset(o presets.Origin) string {
	if o.By.Role == provenance.Platform {
		return ""
	}
	return o.By.Preset
}

// withoutContainers removes empty objects that have fields beneath them on the other side.
func withoutContainers(fields, other []presets.Origin) []presets.Origin {
	return slices.DeleteFunc(slices.Clone(fields), func(o presets.Origin) bool {
		return isContainer(o.Value) && slices.ContainsFunc(other, func(b presets.Origin) bool {
			return b.Value != nil && len(b.Path) > len(o.Path) && b.Path.HasPrefix(o.Path)
		})
	})
}

// isContainer reports whether a value may have fields beneath it; nil is a removed field.
func isContainer(v any) bool {
	switch v.(type) {
	case nil, map[string]any, []any:
		return true
	}
	return false
}
