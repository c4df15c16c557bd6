package instancetypes

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDecode(t *testing.T) {
	const v1beta1 = `"apiVersion":"instancetype.kubevirt.io/v1beta1"`
	for name, c := range map[string]struct {
		raw, kind string
		want      map[string]any
	}{
		"Instancetype":  {`{` + v1beta1 + `,"kind":"VirtualMachineInstancetype","spec":{"cpu":{"guest":2}}}`, "VirtualMachineInstancetype", map[string]any{"cpu": map[string]any{"guest": int64(2)}}},
		"OfTheCluster":  {`{` + v1beta1 + `,"kind":"VirtualMachineClusterPreference","spec":{}}`, "VirtualMachinePreference", map[string]any{}},
		"AnotherFamily": {`{` + v1beta1 + `,"kind":"VirtualMachinePreference","spec":{}}`, "VirtualMachineInstancetype", nil},
		"OldVersion":    {`{"apiVersion":"instancetype.kubevirt.io/v1alpha2","kind":"VirtualMachineInstancetype","spec":{}}`, "VirtualMachineInstancetype", nil},
		"NoJSON":        {`{`, "VirtualMachineInstancetype", nil},
		"NoSpec":        {`{` + v1beta1 + `,"kind":"VirtualMachineInstancetype"}`, "VirtualMachineInstancetype", nil},
		"SpecIsAList":   {`{` + v1beta1 + `,"kind":"VirtualMachineInstancetype","spec":[]}`, "VirtualMachineInstancetype", nil},
	} {
		if diff := cmp.Diff(c.want, decode([]byte(c.raw), c.kind)); diff != "" {
			t.Errorf("%s: -want +got\n%s", name, diff)
		}
	}
}
