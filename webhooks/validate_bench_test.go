package webhooks

import (
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/virtwright/virtwright/domain"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/test/presettest"
	"github.com/virtwright/virtwright/validation"
)

// BenchmarkValidation measures how a create of a realistic VM is validated in standalone mode, as
// presets and platform defaults have expanded it. The control is one json.Unmarshal of that VM.
func BenchmarkValidation(b *testing.B) {
	v := &Validator{
		Kind: presets.VirtualMachine, Rules: &validation.Config{}, Engine: &presets.Engine{Platform: &presets.Platform{}},
		Snapshots:  fixed{presettest.Snapshot(b, presettest.RealisticPresets()...)},
		Namespaces: namespaces{"default": {Name: "default", Labels: map[string]string{"kubernetes.io/metadata.name": "default"}}},
		Profiles:   profiles{&domain.Profiles{}},
	}
	snapshot := v.Snapshots.Snapshot()
	result, err := v.Engine.Resolve(b.Context(), snapshot, presets.Request{Kind: v.Kind, Object: standaloneVM(b), Namespace: presets.Namespace{Name: "default"}})
	if err != nil {
		b.Fatal(err)
	}
	object := encoded(b, result.Object())
	request := Request{AdmissionRequest: admissionv1.AdmissionRequest{
		UID: "1", Operation: admissionv1.Create, Namespace: "default", Name: "web-1", Object: runtime.RawExtension{Raw: object},
	}}
	b.ReportAllocs()
	for b.Loop() {
		if resp := v.Handle(b.Context(), request); !resp.Allowed {
			b.Fatal(resp)
		}
	}
	b.StopTimer()
	reportRatio(b, v, request)
}

// standaloneVM is a realistic VM without its second network, which mode standalone rejects.
func standaloneVM(t testing.TB) []byte {
	t.Helper()
	vm := presettest.Object(presettest.RealisticVM())
	spec := vm["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
	spec["networks"] = spec["networks"].([]any)[:1]
	devices := spec["domain"].(map[string]any)["devices"].(map[string]any)
	devices["interfaces"] = devices["interfaces"].([]any)[:1]
	return encoded(t, vm)
}

// BenchmarkReapply measures how the webhooks answer a reapply of a stored VM, as each scan asks it.
func BenchmarkReapply(b *testing.B) {
	s := &Server{
		Rules: &validation.Config{}, Engine: &presets.Engine{Platform: &presets.Platform{}},
		Snapshots:  fixed{presettest.Snapshot(b, presettest.RealisticPresets()...)},
		Namespaces: namespaces{"default": {Name: "default", Labels: map[string]string{"kubernetes.io/metadata.name": "default"}}},
		Profiles:   profiles{&domain.Profiles{}},
	}
	result, err := s.Engine.Resolve(b.Context(), s.Snapshots.Snapshot(), presets.Request{Kind: presets.VirtualMachine, Object: presettest.RealisticVM(), Namespace: presets.Namespace{Name: "default"}})
	if err != nil {
		b.Fatal(err)
	}
	vm := &unstructured.Unstructured{Object: result.Object()}
	vm.SetNamespace("default")
	b.ReportAllocs()
	for b.Loop() {
		if _, problems, err := s.Reapply(b.Context(), vm); err != nil || len(problems) > 0 {
			b.Fatal(problems, err)
		}
	}
}
