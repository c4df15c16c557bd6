package webhooks

import (
	"encoding/json"
	"runtime"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	admissionv1 "k8s.io/api/admission/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"

	"github.com/virtwright/virtwright/domain"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/test/presettest"
	"github.com/virtwright/virtwright/validation"
)

// TestDecodes counts how often the webhooks decode a VM. Each object has a note whose length no
// other text has, so the allocations of that length by decoders are the decodes.
func TestDecodes(t *testing.T) {
	const length = 150_001
	vm := map[string]any{}
	if err := json.Unmarshal(standaloneVM(t), &vm); err != nil {
		t.Fatal(err)
	}
	vm["metadata"].(map[string]any)["annotations"] = map[string]any{"note": strings.Repeat("n", length)}
	engine := &presets.Engine{Platform: &presets.Platform{}}
	snapshots := fixed{presettest.Snapshot(t, presettest.RealisticPresets()...)}
	all := namespaces{"default": {Name: "default"}}
	mutator := &Mutator{Kind: presets.VirtualMachine, Engine: engine, Snapshots: snapshots, Namespaces: all}
	validator := &Validator{
		Kind: presets.VirtualMachine, Rules: &validation.Config{}, Engine: engine, Snapshots: snapshots, Namespaces: all,
		Profiles: profiles{&domain.Profiles{}},
	}
	var stored []byte
	for _, step := range []struct {
		name             string
		most             int64 // of both webhooks
		labelled, exists bool
	}{{name: "create", most: 1 + 2}, {name: "update", most: 2 + 4, labelled: true, exists: true}} {
		if step.labelled {
			if err := json.Unmarshal(stored, &vm); err != nil {
				t.Fatal(err)
			}
			vm["metadata"].(map[string]any)["labels"].(map[string]any)["new"] = "one"
		}
		sent, err := json.Marshal(vm)
		if err != nil {
			t.Fatal(err)
		}
		request := Request{AdmissionRequest: admissionv1.AdmissionRequest{
			UID: "1", Operation: admissionv1.Create, Namespace: "default", Name: "web-1", Object: kruntime.RawExtension{Raw: sent},
		}}
		if step.exists {
			request.Operation, request.OldObject.Raw = admissionv1.Update, stored
		}
		var mutated, validated Response
		mutating := decodes(length, func() { mutated = mutator.Handle(t.Context(), request) })
		patch, err := json.Marshal(mutated.Patches)
		if err != nil {
			t.Fatal(err)
		}
		decoded, err := jsonpatch.DecodePatch(patch)
		if err != nil {
			t.Fatal(err)
		}
		if request.Object.Raw, err = decoded.Apply(sent); err != nil {
			t.Fatal(err)
		}
		validating := decodes(length, func() { validated = validator.Handle(t.Context(), request) })
		if !mutated.Allowed || !validated.Allowed {
			t.Fatalf("%s: %v, %v", step.name, mutated.Result, validated.Result)
		}
		t.Logf("%s: %d decodes by the mutating webhook, %d by the validating one", step.name, mutating, validating)
		if mutating == 0 || validating == 0 || mutating+validating > step.most {
			t.Errorf("%s: %d + %d decodes, more than %d", step.name, mutating, validating, step.most)
		}
		stored = request.Object.Raw
	}
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
