package simulate

import "testing"

// TestHandedOver compares the record of a stored VM with that of a create of its sparse manifest.
func TestHandedOver(t *testing.T) {
	const created = `{"v":1,"snapshot":"x","by":["p@1:default","cpu:platform","f@1:forbid"],"set":{"spec":{"runStrategy":0,"template":{"spec":{"hostname":0,"subdomain":1,"terminationGracePeriodSeconds":0}}}}}`
	for name, c := range map[string]struct {
		stored string
		want   bool
	}{
		"all fields":                           {created, true},
		"all fields, and no platform default":  {`{"v":1,"snapshot":"y","by":["p@2:default"],"set":{"spec":{"template":{"spec":{"hostname":0,"terminationGracePeriodSeconds":0}}}}}`, true},
		"one of two fields of a preset":        {`{"v":1,"snapshot":"x","by":["p@1:default"],"set":{"spec":{"template":{"spec":{"hostname":0}}}}}`, false},
		"a field of another preset":            {`{"v":1,"snapshot":"x","by":["p@1:default","q@1:default"],"set":{"spec":{"template":{"spec":{"hostname":1,"terminationGracePeriodSeconds":0}}}}}`, false},
		"a field that the platform completed":  {`{"v":1,"snapshot":"x","by":["p@1:default","timers:platform"],"set":{"spec":{"template":{"spec":{"hostname":0,"terminationGracePeriodSeconds":1}}}}}`, true},
		"a VM of a time before virtwright":     {"", false},
		"a record that a person has destroyed": {"forged", false},
	} {
		if got := handedOver(created, c.stored); got != c.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
	if !handedOver("", "") {
		t.Error("a manifest to which presets give nothing: got false")
	}
}
