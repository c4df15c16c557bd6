package webhooks

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/test/presettest"
)

// BenchmarkAdmission measures one create of a realistic VM from Request to Response,
// alone and beside presets that do not match. The control is one json.Unmarshal of the same object
// into a map; the metric x-control is the ratio, taken in turns with it.
func BenchmarkAdmission(b *testing.B) {
	object := presettest.RealisticVM()
	request := Request{AdmissionRequest: admissionv1.AdmissionRequest{
		UID: "1", Operation: admissionv1.Create, Namespace: "default", Name: "web-1",
		Kind:   metav1.GroupVersionKind{Group: "kubevirt.io", Version: "v1", Kind: "VirtualMachine"},
		Object: runtime.RawExtension{Raw: object},
	}}
	b.Run("control=json.Unmarshal", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			decodeControl(b, object)
		}
	})
	for _, crowd := range []presettest.Crowd{
		{}, {Labels: 3333, Namespaces: 3333}, {Unindexed: 3334}, {Labels: 3333, Namespaces: 3333, Unindexed: 3334},
	} {
		b.Run(fmt.Sprintf("beside=%s", crowd), func(b *testing.B) {
			m := &Mutator{
				Kind: presets.VirtualMachine, Engine: &presets.Engine{},
				Snapshots:  fixed{presettest.Snapshot(b, append(presettest.RealisticPresets(), crowd.Presets()...)...)},
				Namespaces: namespaces{"default": {Name: "default", Labels: map[string]string{"kubernetes.io/metadata.name": "default"}}},
			}
			b.ReportAllocs()
			for b.Loop() {
				if resp := m.Handle(b.Context(), request); !resp.Allowed || len(resp.Patches) == 0 {
					b.Fatal(resp)
				}
			}
			b.StopTimer()
			reportRatio(b, m, request)
		})
	}
}

func decodeControl(b *testing.B, object []byte) {
	var out map[string]any
	if err := json.Unmarshal(object, &out); err != nil {
		b.Fatal(err)
	}
}

// reportRatio compares with the control in short turns and reports the median ratio, so that a
// machine that slows down slows both.
func reportRatio(b *testing.B, m handler, request Request) {
	b.Helper()
	const turns, each = 101, 20
	ratios := make([]float64, turns)
	for i := range ratios {
		ours := seconds(each, func() { m.Handle(b.Context(), request) })
		ratios[i] = ours / seconds(each, func() { decodeControl(b, request.Object.Raw) })
	}
	slices.Sort(ratios)
	b.ReportMetric(ratios[turns/2], "x-control")
}
