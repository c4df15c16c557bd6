package fleet

import (
	"cmp"
	"reflect"
	"slices"

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

// liveUpdated are the fields that KubeVirt changes on a running VMI, by a live migration.
// Source: KubeVirt v1.9, rollout strategy LiveUpdate.
var liveUpdated = []provenance.Path{
	provenance.Of("spec", "template", "spec", "domain", "cpu", "sockets"),
	provenance.Of("spec", "template", "spec", "domain", "memory", "guest"),
	provenance.Of("spec", "template", "spec", "nodeSelector"),
	provenance.Of("spec", "template", "spec", "affinity"),
	provenance.Of("spec", "template", "spec", "tolerations"),
}

// templates is where a VM says what its next VMI is like.
var templates = []provenance.Path{
	provenance.Of("spec", "template"), provenance.Of("spec", "instancetype"), provenance.Of("spec", "preference"),
}

// EffectOf returns the effect of a change of a field. Live says that KubeVirt updates running
// VMIs.
func EffectOf(path provenance.Path, live bool) Effect {
	switch {
	case live && slices.ContainsFunc(liveUpdated, path.HasPrefix):
		return EffectMigration
	case slices.ContainsFunc(templates, path.HasPrefix):
		return EffectRestart
	}
	return EffectNone
}

// Changes lists the differences between the fields of a VM, as Explain returns them, by path.
func Changes(before, after []presets.Origin, live bool) []Change {
	before, after = withoutContainers(before, after), withoutContainers(after, before)
	now := make(map[string]presets.Origin, len(after))
	for _, o := range after {
		now[o.Path.String()] = o
	}
	var out []Change
	add := func(path string, at provenance.Path, was, is presets.Origin) {
		if reflect.DeepEqual(was.Value, is.Value) {
			return
		}
		out = append(out, Change{Path: path, Before: was.Value, After: is.Value, Preset: cmp.Or(giver(is), giver(was)), Effect: EffectOf(at, live)})
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
