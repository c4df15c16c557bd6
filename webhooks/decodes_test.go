package webhooks

import (
	"runtime"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"

	"github.com/virtwright/virtwright/domain"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/test/presettest"
	"github.com/virtwright/virtwright/validation"
)

// TestDecodes counts how often the webhooks decode a VM. Each object has a note whose length no
// other text has, so the allocations of that length by decoders are the decodes.
func TestDecodes(t *testing.T) {
	const length = 150_001
	vm := presettest.Object(standaloneVM(t))
	vm["metadata"].(map[string]any)["annotations"] = map[string]any{"note": strings.Repeat("n", length)}
	engine := &presets.Engine{Platform: &presets.Platform{}}
	snapshots := fixed{presettest.Snapshot(t, presettest.RealisticPresets()...)}
	all := namespaces{"default": {Name: "default"}}
	mutator := &Mutator{Kind: presets.VirtualMachine, Engine: engine, Snapshots: snapshots, Namespaces: all}
	validator := &Validator{
		Kind: presets.VirtualMachine, Rules: &validation.Config{}, Engine: engine, Snapshots: snapshots, Namespaces: all,
		Profiles: profiles{&domain.Profiles{}},
	}
	request := Request{AdmissionRequest: admissionv1.AdmissionRequest{UID: "1", Operation: admissionv1.Create, Namespace: "default", Name: "web-1"}}
	request.Object.Raw = encoded(t, vm)
	stored := checkDecodes(t, request, length, mutator, validator, 1+2)

	request.Operation, request.OldObject.Raw = admissionv1.Update, stored
	vm = presettest.Object(stored)
	vm["metadata"].(map[string]any)["labels"].(map[string]any)["new"] = "one"
	request.Object.Raw = encoded(t, vm)
	checkDecodes(t, request, length, mutator, validator, 2+4)
}

// checkDecodes checks how many decodes both webhooks need at most, and returns the stored VM.
func checkDecodes(t *testing.T, request Request, length int64, mutator, validator handler, most int64) []byte {
	t.Helper()
	var mutated, validated Response
	mutating := decodes(length, func() { mutated = mutator.Handle(t.Context(), request) })
	request.Object.Raw = encoded(t, patched(t, request, mutated))
	validating := decodes(length, func() { validated = validator.Handle(t.Context(), request) })
	if !mutated.Allowed || !validated.Allowed {
		t.Fatalf("%s: %v, %v", request.Operation, mutated.Result, validated.Result)
	}
	if mutating == 0 || validating == 0 || mutating+validating > most {
		t.Errorf("%s: %d + %d decodes, more than %d", request.Operation, mutating, validating, most)
	}
	return request.Object.Raw
}

// decodes returns how many texts of a length decoders made during a call.
func decodes(length int64, call func()) (out int64) {
	defer func(rate int) { runtime.MemProfileRate = rate }(runtime.MemProfileRate)
	runtime.MemProfileRate = 1
	before := textsOfDecoders(length)
	call()
	return textsOfDecoders(length) - before
}

func textsOfDecoders(length int64) (out int64) {
	for range 3 { // a profile is complete two collections later
		runtime.GC()
	}
	records := make([]runtime.MemProfileRecord, 100_000)
	n, ok := runtime.MemProfile(records, true)
	if !ok {
		panic("too many records")
	}
	for _, r := range records[:n] {
		size := r.AllocBytes / max(1, r.AllocObjects)
		if size < length || size > length+length/4 {
			continue
		}
		frames := runtime.CallersFrames(r.Stack())
		for more := true; more; {
			var frame runtime.Frame
			frame, more = frames.Next()
			if strings.Contains(frame.Function, ".(*decodeState).literal") {
				out += r.AllocObjects
				break
			}
		}
	}
	return out
}
