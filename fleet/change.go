package fleet

import (
	"cmp"
	"slices"

	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/presets/vmschema"
)

// A Change is a field of a VM that differs between two sets of presets.
type Change struct {
	// Path of the field in the VM.
	Path string `json:"path"`
	// Before and After are values; nil for an absent field.
	Before any `json:"before,omitempty"`
	After  any `json:"after,omitempty"`
	// Preset sets the field after the change, or set it before; empty if no preset did.
	Preset string `json:"preset,omitempty"`
	// Effect is what a running VM needs before the change is effective.
	Effect Effect `json:"effect,omitempty"`

	at provenance.Path
	// was is the preset that set the value before.
	was string
}

// IsRunState reports whether the field says if a VM runs.
func (c Change) IsRunState() bool { return IsRunState(c.at) }

// IsRunState reports whether the field at a path says if a VM runs.
func IsRunState(at provenance.Path) bool { return slices.ContainsFunc(runStates, at.HasPrefix) }

// WithoutSecrets returns the change without values that may hold secrets.
func (c Change) WithoutSecrets() Change {
	c.Before, c.After = hidden(c.Path, c.Before), hidden(c.Path, c.After)
	return c
}

func hidden(path string, v any) any {
	if v == nil || !presets.MayHoldSecret(path) {
		return v
	}
	return "(hidden)"
}

// Changes returns the differences between fields of a VM from Explain, by path.
func Changes(before, after []presets.Origin, updates Updates) []Change {
	before, after = withoutContainers(before, after), withoutContainers(after, before)
	now := make(map[string]presets.Origin, len(after))
	for _, o := range after {
		now[o.Path.String()] = o
	}
	var out []Change
	running := newRollout(updates, before, now)
	add := func(path string, at provenance.Path, was, is presets.Origin) {
		if vmschema.SameValue(at, was.Value, is.Value) {
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

// decidingPreset returns the preset that set a field; empty if no preset did.
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
