package validation_test

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/virtwright/virtwright/test/validationtest"
	"github.com/virtwright/virtwright/validation"
)

// FuzzValidate checks that objects which can be decoded are validated without a panic, on create,
// on update and merged with another object, and that an update without a change is admitted.
func FuzzValidate(f *testing.F) {
	fixtures := validationtest.Fixtures(f)
	old := []byte("{}")
	for _, id := range slices.Sorted(maps.Keys(fixtures)) {
		for i := range fixtures[id] {
			fixture := &fixtures[id][i]
			raw := fixture.Manifest(f)
			f.Add(fixture.Object["kind"] == "VirtualMachine", fixture.Config.Addon, raw, old)
			old = raw
		}
	}
	for _, raw := range []string{
		`{"spec":{"domain":{"memory":{"hugepages":{"pageSize":"0"}}}}}`,
		`{"spec":{"domain":{"memory":{"hugepages":{"pageSize":"-1"},"guest":"-1"},"cpu":{"cores":4294967295,"sockets":4294967295,"threads":4294967295}}}}`,
		`{"spec":{"evictionStrategy":"x","domain":{"memory":{"hugepages":{"pageSize":"9E"},"maxGuest":"9E"}}}}`,
		`{"spec":{"volumes":null,"networks":[{}],"domain":{"devices":{"interfaces":[{}],"disks":[{"blockSize":{"custom":{}}}]}}}}`,
	} {
		f.Add(false, false, []byte(raw), []byte(raw))
		f.Add(true, true, []byte(`{"spec":{"template":`+raw+`}}`), []byte(`{"spec":{}}`))
	}
	f.Fuzz(func(t *testing.T, vm, addon bool, raw, old []byte) {
		config := &validation.Config{Addon: addon, Gates: map[validation.Gate]bool{}}
		for gate := range validation.KnownGates() {
			config.Gates[gate] = len(raw)%2 == 0
		}
		m, err := decode(vm, raw)
		if err != nil {
			return
		}
		config.Validate(m)
		if before, err := decode(vm, old); err == nil {
			update := read(t, vm, raw)
			update.Old = before
			config.Validate(update)
		}
		if both, ok := merged(raw, old); ok {
			if m, err := decode(vm, both); err == nil {
				config.Validate(m)
			}
		}
		same := read(t, vm, raw)
		same.Old = read(t, vm, raw)
		if result := config.Validate(same); len(result.Errors) > 0 {
			t.Errorf("an update that changes nothing is rejected: %v", result.Errors)
		}
	})
}

func read(t *testing.T, vm bool, raw []byte) *validation.ExpandedVM {
	m, err := decode(vm, raw)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// merged is what two objects have together.
func merged(raw, more []byte) ([]byte, bool) {
	var into, from map[string]any
	if json.Unmarshal(raw, &into) != nil || json.Unmarshal(more, &from) != nil {
		return nil, false
	}
	both, err := json.Marshal(union(into, from))
	return both, err == nil
}

func union(into, from any) any {
	switch a := into.(type) {
	case nil:
		return from
	case map[string]any:
		if b, ok := from.(map[string]any); ok {
			for key, value := range b {
				a[key] = union(a[key], value)
			}
		}
	case []any:
		if b, ok := from.([]any); ok {
			return append(a, b...)
		}
	}
	return into
}
