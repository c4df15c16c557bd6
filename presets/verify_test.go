package presets_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/test/presettest"
)

// TestConfirmWithoutRecord: bypassing the mutating webhook does not bypass presets. An object
// without a record is checked against the presets that match.
func TestConfirmWithoutRecord(t *testing.T) {
	snapshot := presettest.Snapshot(t,
		presettest.Cluster("policy", "overrides: {spec: {template: {spec: {hostname: enforced}}}}\nremove: [spec.template.spec.domain.devices.rng]\nforbid: [{path: spec.template.spec.subdomain, message: no}]"),
		presettest.Cluster("other", "match: {labels: {matchLabels: {os: windows}}}\noverrides: {spec: {template: {spec: {schedulerName: x}}}}"),
	)
	const recorded = `metadata: {name: a, annotations: {virtwright.dev/provenance: '` + "RECORD" + `'}}`
	engine := &presets.Engine{Platform: &presets.Platform{}}
	whole, err := engine.Resolve(t.Context(), snapshot, requestOf("{metadata: {name: a}, spec: {runStrategy: Halted}}"))
	if err != nil {
		t.Fatal(err)
	}
	record := presettest.At(whole.Object(), "metadata.annotations").(map[string]any)[v1alpha1.AnnotationProvenance].(string)
	with := func(spec string) string {
		return "{" + strings.Replace(recorded, "RECORD", record, 1) + ", spec: " + spec + "}"
	}
	const fine = "{template: {spec: {hostname: enforced}}}"
	for name, c := range map[string]struct{ now, old, want string }{
		"as it was expanded":                {now: with(fine)},
		"a record that was undone":          {now: with("{template: {spec: {hostname: mine}}}"), want: "hostname"},
		"no record, and nothing to see":     {now: "{metadata: {name: a}, spec: " + fine + "}"},
		"no record":                         {now: "{metadata: {name: a}, spec: {template: {spec: {hostname: mine}}}}", want: "hostname"},
		"no record, and removed":            {now: "{metadata: {name: a}, spec: {template: {spec: {hostname: enforced, domain: {devices: {rng: {}}}}}}}", want: "rng"},
		"no record, and forbidden":          {now: "{metadata: {name: a}, spec: {template: {spec: {hostname: enforced, subdomain: x}}}}", want: "subdomain"},
		"no record that can be read":        {now: `{metadata: {name: a, annotations: {virtwright.dev/provenance: '{"forged":1}'}}, spec: {template: {spec: {hostname: mine}}}}`, want: "hostname"},
		"never had one":                     {now: "{metadata: {name: a}, spec: {template: {spec: {hostname: mine}}}}", old: "{metadata: {name: a}, spec: {template: {spec: {hostname: other}}}}"},
		"lost its record":                   {now: "{metadata: {name: a}, spec: {template: {spec: {hostname: mine}}}}", old: with(fine), want: "hostname"},
		"lost its record, and nothing else": {now: "{metadata: {name: a}, spec: " + fine + "}", old: with(fine)},
	} {
		req := requestOf(c.now)
		if c.old != "" {
			req.OldObject = presettest.JSON(c.old)
		}
		err := engine.VerifyApplied(t.Context(), snapshot, req)
		if (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: want a problem with %q, got %v", name, c.want, err)
		}
	}
}

// TestVerifyFilledObject: filling an object that an override sets empty is no violation.
func TestVerifyFilledObject(t *testing.T) {
	snapshot := presettest.Snapshot(t, presettest.Cluster("acpi", "overrides: {spec: {template: {spec: {domain: {features: {acpi: {}}}}}}}"))
	engine := &presets.Engine{Platform: &presets.Platform{}}
	whole, err := engine.Resolve(t.Context(), snapshot, requestOf("{metadata: {name: a}}"))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(whole.Object())
	if err != nil {
		t.Fatal(err)
	}
	if err := engine.VerifyApplied(t.Context(), snapshot, requestOf(string(raw))); err != nil {
		t.Error(err)
	}
	gone := strings.Replace(string(raw), `"acpi":{"enabled":true}`, "", 1)
	if err := engine.VerifyApplied(t.Context(), snapshot, requestOf(gone)); err == nil || !strings.Contains(err.Error(), "acpi") {
		t.Errorf("removed, got %v", err)
	}
}

func requestOf(manifest string) presets.Request {
	return presets.Request{Kind: presets.VirtualMachine, Object: presettest.JSON(manifest), Namespace: presets.Namespace{Name: "lab"}}
}
