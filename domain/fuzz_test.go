package domain

import (
	"encoding/json"
	"testing"

	kubevirtv1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// FuzzPlan runs both stages for any spec: nothing panics, the result is the same each time, the VMI
// does not change, every error names a field, and the XML can be parsed.
func FuzzPlan(f *testing.F) {
	for _, c := range goldenCases(f) {
		raw, err := json.Marshal(c.vmi().Spec)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		vmi := (&goldenCase{}).vmi()
		vmi.Spec = kubevirtv1.VirtualMachineInstanceSpec{}
		if len(raw) > 64<<10 || json.Unmarshal(raw, &vmi.Spec) != nil {
			t.Skip()
		}
		before, err := json.Marshal(vmi)
		if err != nil {
			t.Skip()
		}
		first := planned(t, vmi)
		if again := planned(t, vmi); again != first {
			t.Errorf("once:\n%s\ntwice:\n%s", first, again)
		}
		if after, _ := json.Marshal(vmi); string(after) != string(before) {
			t.Errorf("the VMI was changed:\n%s\n%s", before, after)
		}
	})
}

// planned renders a VMI without profiles and facts.
func planned(t *testing.T, vmi *kubevirtv1.VirtualMachineInstance) string {
	t.Helper()
	plan, errs := (&Profiles{}).Plan(vmi, nil, nil)
	for _, err := range errs {
		if err.Field == "" || err.Field == "<nil>" {
			t.Errorf("an error names no field: %v", err)
		}
	}
	if len(errs) > 0 {
		return errs.ToAggregate().Error()
	}
	text, err := Render(&plan.Host.Domain)
	if err != nil {
		t.Fatal(err)
	}
	if err := (&libvirtxml.Domain{}).Unmarshal(text); err != nil {
		t.Errorf("cannot parse the XML: %v\n%s", err, text)
	}
	return text
}
