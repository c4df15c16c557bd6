package simulate

import (
	"fmt"

	"github.com/virtwright/virtwright/presets"
)

// Memory keeps compiled presets from one cluster to the next. The zero value is empty. Clusters
// with the same Memory need the same Rules, apart from their mode.
type Memory struct{ used, before map[string]compilation }

// A compilation is the result of validating and compiling a preset.
type compilation struct {
	preset   *presets.Compiled
	problems []Problem
	warnings []string
	// selects is true if the preset selects namespaces by labels.
	selects bool
}

// forget drops the presets that the last cluster did not have.
func (m *Memory) forget() {
	if m != nil {
		m.used, m.before = map[string]compilation{}, m.used
	}
}

// compile returns the kept result for an equal preset, or a new one.
func (m *Memory) compile(e *entry, legacy bool, compile func(*entry) compilation) compilation {
	if m == nil {
		return compile(e)
	}
	key := fmt.Sprint(legacy, e.Kind, string(e.JSON))
	out, known := m.used[key]
	if !known {
		out, known = m.before[key]
	}
	if !known {
		out = compile(e)
	}
	m.used[key] = out
	return out
}
