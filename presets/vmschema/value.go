package vmschema

import (
	"github.com/virtwright/virtwright/presets/provenance"
)

// ValueAt returns the value at p in v, which has this schema; nil if there is none.
func (s *Schema) ValueAt(v any, p provenance.Path) any {
	for _, seg := range p {
		switch at := v.(type) {
		case map[string]any:
			v = at[seg.Name]
		case []any:
			v = s.ElementOf(at, seg.Name)
		default:
			return nil
		}
		if s = s.Step(seg); s == nil {
			return nil
		}
	}
	return v
}

// Value returns the value of a VM at p; nil if there is none.
func Value(vm any, p provenance.Path) any { return VM().ValueAt(vm, p) }
