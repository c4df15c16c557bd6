package partialobject

import (
	"encoding/json"
	"testing"
)

// TestTemplateValues: a quantity in another notation is no change of a template.
func TestTemplateValues(t *testing.T) {
	hash := func(text string) string {
		var out Template
		if err := json.Unmarshal([]byte(text), &out); err != nil {
			t.Fatal(err)
		}
		return out.Values
	}
	const written = `{"spec":{"domain":{"memory":{"guest":"4Gi"},"resources":{"requests":{"cpu":"1"}}},"hostname":"4Gi"}}`
	for other, same := range map[string]bool{
		`{"spec":{"domain":{"resources":{"requests":{"cpu":1}},"memory":{"guest":"4096Mi"}},"hostname":"4Gi"}}`:       true,
		`{"spec":{"domain":{"memory":{"guest":"4Gi"},"resources":{"requests":{"cpu":"1000m"}}},"hostname":"4Gi"}}`:    true,
		`{"spec":{"domain":{"memory":{"guest":"4294967296"},"resources":{"requests":{"cpu":"1"}}},"hostname":"4Gi"}}`: true,
		`{"spec":{"domain":{"memory":{"guest":"4G"},"resources":{"requests":{"cpu":"1"}}},"hostname":"4Gi"}}`:         false,
		`{"spec":{"domain":{"memory":{"guest":"4Gi"},"resources":{"requests":{"cpu":"1"}}},"hostname":"4096Mi"}}`:     false,
	} {
		if got := hash(written) == hash(other); got != same {
			t.Errorf("same hash %v: %s", got, other)
		}
	}
}
