package validation_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/test/presettest"
	"github.com/virtwright/virtwright/validation"
)

// BenchmarkValidate measures one create as the webhook sees it: the JSON of an expanded
// VirtualMachine is decoded and every rule runs on it. The control is one json.Unmarshal of the
// same JSON into a map; x-control is how many of those fit into one validation.
func BenchmarkValidate(b *testing.B) {
	vm := expanded(b, presettest.RealisticVM())
	config := &validation.Config{}
	b.ReportAllocs()
	for b.Loop() {
		validate(b, config, vm)
	}
	b.StopTimer()
	const rounds = 2000
	var own, control time.Duration
	// In turns, so that a slow moment of the machine is slow for both.
	for range rounds {
		begin := time.Now()
		validate(b, config, vm)
		middle := time.Now()
		var out map[string]any
		if err := json.Unmarshal(vm, &out); err != nil {
			b.Fatal(err)
		}
		own, control = own+middle.Sub(begin), control+time.Since(middle)
	}
	b.ReportMetric(float64(own)/float64(control), "x-control")
	b.ReportMetric(float64(control.Nanoseconds())/rounds, "control-ns/op")
}

func validate(b *testing.B, config *validation.Config, vm []byte) {
	m, err := validation.NewVirtualMachine(vm)
	if err != nil {
		b.Fatal(err)
	}
	if result := config.Validate(m); len(result.Errors) > 0 {
		b.Fatal(result.Errors)
	}
}

// expanded is a VirtualMachine with platform defaults.
func expanded(t testing.TB, vm []byte) []byte {
	t.Helper()
	engine := &presets.Engine{Platform: &presets.Platform{}}
	result, err := engine.Resolve(context.Background(), presets.NewSnapshot(nil, nil), presets.Request{Kind: presets.VirtualMachine, Object: vm})
	if err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(result.Object())
	if err != nil {
		t.Fatal(err)
	}
	return out
}
