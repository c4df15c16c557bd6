package domain

import (
	"encoding/json"
	"testing"

	kubevirtv1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// FuzzPlan takes any spec through both stages: nothing panics, the outcome is
// the same each time, the instance stays as it was, every error names a field, and what is
// written can be read again.
func FuzzPlan(f *testing.F) {
	for _, c := range goldenCases(f) {
		raw, err := json.Marshal(c.instance().Spec)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		vmi := (&goldenCase{}).instance()
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
			t.Errorf("the instance was changed:\n%s\n%s", before, after)
		}
	})
}

// planned is what becomes of an instance where nothing is said by anybody
// else.
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
	text, err := Render(&plan.Whole.Domain)
	if err != nil {
		t.Fatal(err)
	}
	if err := (&libvirtxml.Domain{}).Unmarshal(text); err != nil {
		t.Errorf("cannot read again: %v\n%s", err, text)
	}
	return text
}
