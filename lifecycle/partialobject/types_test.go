package partialobject

import (
	"encoding/json"
	"testing"
)

// TestOneObjectEndsNoWatch: values that CRDs admit, but that Go cannot decode, cost only their
// part.
func TestOneObjectEndsNoWatch(t *testing.T) {
	var list VirtualMachineList
	if err := json.Unmarshal([]byte(`{"items": [
		{"metadata": {"name": "labels"}, "spec": {"runStrategy": "Always", "template": {"metadata": {"labels": {"a": 1, "b": "c"}}}}},
		{"metadata": {"name": "no-labels"}, "spec": {"runStrategy": "Always", "template": {"metadata": {"labels": "a"}}}},
		{"metadata": {"name": "time"}, "spec": {"runStrategy": "Always"}, "status": {"created": true, "conditions": [{"lastTransitionTime": "2026-01-01t00:00:00z"}]}},
		{"metadata": {"name": "spec"}, "spec": {"runStrategy": 1}, "status": {"created": true}}]}`), &list); err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		name, strategy string
		created        bool
	}{{"labels", "Always", false}, {"no-labels", "Always", false}, {"time", "Always", true}, {"spec", "", true}} {
		vm := &list.Items[i]
		if vm.Name != want.name || string(vm.RunStrategy()) != want.strategy || vm.Status.Created != want.created {
			t.Errorf("want %v, got %+v", want, vm)
		}
	}
	if got := list.Items[0].Spec.Template.Metadata.Labels; len(got) != 1 || got["b"] != "c" {
		t.Errorf("labels are %v", got)
	}
	var vmi VirtualMachineInstance
	if err := json.Unmarshal([]byte(`{"metadata": {"name": "time"}, "spec": {"terminationGracePeriodSeconds": 5},
		"status": {"phaseTransitionTimestamps": [{"phaseTransitionTimestamp": "2026-01-01t00:00:00z"}]}}`), &vmi); err != nil || *vmi.Spec.TerminationGracePeriodSeconds != 5 {
		t.Errorf("%v, %+v", err, vmi)
	}
}

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
