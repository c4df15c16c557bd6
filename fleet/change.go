package fleet

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/provenance"
)

// A Change is a field of a VM that two sets of presets give different values.
type Change struct {
	// Path of the field in the VM.
	Path string `json:"path"`
	// Before and After are values; nil where there is none.
	Before any `json:"before,omitempty"`
	After  any `json:"after,omitempty"`
	// Preset gives the field after the change, or gave it before; empty for the platform and users.
	Preset string `json:"preset,omitempty"`
	// Effect is what a running VM needs for the change to act.
	Effect Effect `json:"effect,omitempty"`
}

// An Effect is what a running VM needs for a change of a field to act.
type Effect string

// The effects, weakest first.
const (
	// EffectNone is for changes that act at once, or never on a VMI.
	EffectNone Effect = "none"
	// EffectMigration is for changes that a live migration brings, as KubeVirt's LiveUpdate does.
	EffectMigration Effect = "live migration"
	// EffectRestart is for changes that the next start of the VM brings.
	EffectRestart Effect = "restart"
)

var (
	sockets     = provenance.Of("spec", "template", "spec", "domain", "cpu", "sockets")
	guestMemory = provenance.Of("spec", "template", "spec", "domain", "memory", "guest")
)

// liveUpdated are the fields that KubeVirt changes on a running VMI, by a live migration.
// Source: KubeVirt v1.9, rollout strategy LiveUpdate.
var liveUpdated = []provenance.Path{
	sockets, guestMemory,
	provenance.Of("spec", "template", "spec", "nodeSelector"),
	provenance.Of("spec", "template", "spec", "affinity"),
	provenance.Of("spec", "template", "spec", "tolerations"),
}

// templates is where a VM says what its next VMI is like.
var templates = []provenance.Path{
	provenance.Of("spec", "template"), provenance.Of("spec", "instancetype"), provenance.Of("spec", "preference"),
}

// A rollout says what KubeVirt changes on a running VMI: if live is set, it adds sockets and memory up
// to what the VMI was started with, and takes none away.
type rollout struct {
	live                 bool
	arm                  bool
	maxSockets, maxGuest any
}

// newRollout reads the limits of the VM after a change.
func newRollout(live bool, after map[string]presets.Origin) rollout {
	const spec = "spec.template.spec."
	return rollout{
		live, after[spec+"architecture"].Value == "arm64", after[spec+"domain.cpu.maxSockets"].Value, after[spec+"domain.memory.maxGuest"].Value,
	}
}

// effect returns the effect of a change of a field.
func (r rollout) effect(path provenance.Path, before, after any) Effect {
	switch {
	case r.live && slices.ContainsFunc(liveUpdated, path.HasPrefix) && r.hotplugs(path, before, after):
		return EffectMigration
	case slices.ContainsFunc(templates, path.HasPrefix):
		return EffectRestart
	}
	return EffectNone
}

// hotplugs reports whether KubeVirt can change the sockets or the memory of a running VMI; other
// fields have no limit.
func (r rollout) hotplugs(path provenance.Path, before, after any) bool {
	switch {
	case path.HasPrefix(sockets):
		return !r.arm && grows(cmp.Or(before, any(1)), after, r.maxSockets)
	case path.HasPrefix(guestMemory):
		return grows(before, after, r.maxGuest)
	}
	return true
}

// grows reports whether a quantity grows, to at most a limit; nil for none.
func grows(before, after, limit any) bool {
	was, err := resource.ParseQuantity(fmt.Sprint(before))
	is, wrong := resource.ParseQuantity(fmt.Sprint(after))
	if err != nil || wrong != nil || is.Cmp(was) <= 0 {
		return false
	}
	most, unlimited := resource.ParseQuantity(fmt.Sprint(limit))
	return unlimited != nil || is.Cmp(most) <= 0
}

// hidden is a value as it may be shown.
func hidden(path string, v any) any {
	if v == nil || !presets.HoldsSecret(path) {
		return v
	}
	return "(hidden)"
}

// Changes lists the differences between the fields of a VM, as Explain returns them, by path.
// Live says that KubeVirt updates running VMIs.
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
		out = append(out, Change{Path: path, Before: was.Value, After: is.Value, Preset: cmp.Or(giver(is), giver(was)), Effect: running.effect(at, was.Value, is.Value)})
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

// giver is the preset that decided a field; empty for the platform and users.
func giver(o presets.Origin) string {
	if o.By.Role == provenance.Platform {
		return ""
	}
	return o.By.Preset
}

// withoutContainers leaves out empty objects and lists that have fields beneath them on the other
// side: only those fields differ.
func withoutContainers(fields, other []presets.Origin) []presets.Origin {
	return slices.DeleteFunc(slices.Clone(fields), func(o presets.Origin) bool {
		return isContainer(o.Value) && slices.ContainsFunc(other, func(b presets.Origin) bool { return len(b.Path) > len(o.Path) && b.Path.HasPrefix(o.Path) })
	})
}

// isContainer reports whether a value may have fields beneath it; nil is a field that was removed.
func isContainer(v any) bool {
	switch v.(type) {
	case nil, map[string]any, []any:
		return true
	}
	return false
}
