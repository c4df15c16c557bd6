package presets_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/test/presettest"
)

// What a quantity means must not take longer to work out than a request may take.
func TestHugeQuantities(t *testing.T) {
	vm := func(memory string) []byte {
		return []byte(`{"metadata":{"name":"1e-99999999","annotations":{"a":"1e-99999999"}},"spec":{"template":{"spec":{"domain":{"memory":{"guest":` + memory + `},"devices":{}}}}}}`)
	}
	engine := &presets.Engine{Platform: &presets.Platform{}}
	for memory, fine := range map[string]bool{
		`"1Gi"`: true, `"1e9"`: true, `"1E+9"`: true, `"1e-999"`: true, `1e9`: true, `1e-99999999`: true,
		`"1e-99999999"`: false, `"1E-99999999"`: false, `"1e99999999"`: false, `"1e-9999"`: false, `" 1e-9999 "`: false, "\"\u00a01e-9999\"": false,
		`"0.` + strings.Repeat("0", 1<<20) + `1"`: false,
	} {
		raw := vm(memory)
		_, err := engine.Resolve(context.Background(), presettest.Snapshot(t), presets.Request{Kind: presets.VirtualMachine, Object: raw})
		safe, safeErr := presets.SafeQuantities(presets.VirtualMachine, raw)
		for _, err := range []error{err, safeErr} {
			var rejection *presets.Rejection
			if rejected := errors.As(err, &rejection); rejected == fine || rejected && rejection.Problems[0].Field != "spec.template.spec.domain.memory.guest" {
				t.Errorf("%.40s: got %v", memory, err)
			}
		}
		if fine && strings.Contains(string(safe), "guest\":1e-") {
			t.Errorf("%s: the number kept its digits: %s", memory, safe)
		}
	}
	part := `defaults: {spec: {template: {spec: {domain: {memory: {guest: 1e-99999999}}}}}}`
	if _, problems := presets.Compile(presettest.Cluster("p", strings.Replace(part, "1e-99999999", `"1e-99999999"`, 1))); len(problems) == 0 {
		t.Error("a preset with such a quantity compiles")
	}
}
