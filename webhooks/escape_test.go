package webhooks

import (
	"net/http"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/test/presettest"
)

// hostile is text that terminals obey, escaped for YAML.
const hostile = `\u001b[2J\u001b]52;c;eA==\u0007\u0008\r\n\t\u009b31m\u202e`

// TestHostileText checks that no answer has text that terminals obey, and that API servers accept
// all warnings: they drop those with control characters.
func TestHostileText(t *testing.T) {
	handler := machines(t, presets.VirtualMachine)
	forbidding := func(mode string) string {
		return "{mode: " + mode + ", match: {labels: {matchLabels: {is: " + mode + "}}}, forbid: [" +
			`{path: "spec.template.spec.volumes[*].emptyDisk", message: "no ` + hostile + `"}]}`
	}
	handler.Snapshots = fixed{presettest.Snapshot(t, presettest.Cluster("warns", forbidding("Warn")), presettest.Cluster("rejects", forbidding("Enforce")))}
	for mode, allowed := range map[string]bool{"Warn": true, "Enforce": false} {
		t.Run(mode, func(t *testing.T) {
			vm := `{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: web, labels: {is: ` + mode + `}}, spec: {runStrategy: Halted, template: {spec: {domain: {devices: {}},
volumes: [{name: "a` + hostile + `", emptyDisk: {capacity: 1Gi}}]}}}}`
			code, body := send(t, reviews{handler}, "application/json", review(t, creates("VirtualMachine", "lab", vm)))
			if code != http.StatusOK {
				t.Fatalf("got %d: %s", code, body)
			}
			got := answered(t, body, "request-1")
			if got.Allowed != allowed {
				t.Fatalf("got %s", body)
			}
			texts := textsOf(got)
			for _, text := range texts {
				if text != presets.Escape(text) {
					t.Errorf("not escaped: %q", text)
				}
			}
			if all := strings.Join(texts, " "); !strings.Contains(all, `no \u001b[2J`) || !strings.Contains(all, `a\u001b[2J`) {
				t.Errorf("want the message of the preset and the name of the volume, got %q", all)
			}
			for _, warning := range got.Warnings {
				if _, err := utilnet.NewWarningHeader(299, "", warning); err != nil {
					t.Errorf("API servers drop %q: %v", warning, err)
				}
			}
		})
	}
}

func textsOf(r *admissionv1.AdmissionResponse) []string {
	out := append([]string{r.Result.Message}, r.Warnings...)
	if r.Result.Details != nil {
		for _, cause := range r.Result.Details.Causes {
			out = append(out, cause.Field, cause.Message)
		}
	}
	return out
}
