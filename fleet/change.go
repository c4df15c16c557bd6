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
}

// An Effect is what a running VM needs before a change of a field is effective.
type Effect string

// Effects, weakest first.
const (
	// EffectNone is effective immediately, or never applies to a VMI.
	EffectNone Effect = "none"
	// EffectMigration needs a live migration, like KubeVirt's LiveUpdate.
	EffectMigration Effect = "live migration"
	// EffectRestart needs a restart of the VM.
	EffectRestart Effect = "restart"
)

var (
	sockets     = provenance.Of("spec", "template", "spec", "domain", "cpu", "sockets")
	guestMemory = provenance.Of("spec", "template", "spec", "domain", "memory", "guest")
)

var templates = []provenance.Path{
	provenance.Of("spec", "template"), provenance.Of("spec", "instancetype"), provenance.Of("spec", "preference"),
}

// rollout describes what KubeVirt changes on a running VMI. If live is true, it adds sockets and
// memory up to the limits of the VMI, but never removes them.
type rollout struct {
	live                 bool
	arm                  bool
	maxSockets, maxGuest any
}

func newRollout(live bool, after map[string]presets.Origin) rollout {
	const spec = "spec.template.spec."
	return rollout{
		live, after[spec+"architecture"].Value == "arm64", after[spec+"domain.cpu.maxSockets"].Value, after[spec+"domain.memory.maxGuest"].Value,
	}
}

func (r rollout) effect(path provenance.Path, before, after any) Effect {
	switch {
	case r.live && presets.IsLiveUpdated(path) && r.hotplugs(path, before, after):
		return EffectMigration
	case slices.ContainsFunc(templates, path.HasPrefix):
		return EffectRestart
	}
	return EffectNone
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
	running := newRollout(live, now)
	add := func(path string, at provenance.Path, was, is presets.Origin) {
		if presets.SameValue(at, was.Value, is.Value) {
			return
		}
		out = append(out, Change{Path: path, Before: was.Value, After: is.Value, Preset: cmp.Or(decidingPreset(is), decidingPreset(was)), Effect: running.effect(at, was.Value, is.Value)})
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
		return isContainer(o.Value) && slices.ContainsFunc(other, func(b presets.Origin) bool { return len(b.Path) > len(o.Path) && b.Path.HasPrefix(o.Path) })
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
