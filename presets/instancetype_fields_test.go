package presets

import (
	"reflect"
	"strings"
	"testing"

	"kubevirt.io/api/instancetype/v1beta1"
)

// applied in ways of their own, with the reason.
var withoutRow = map[string]string{
	"cpu.guest":                          "applyTopology",
	"memory.overcommitPercent":           "applyOvercommit",
	"annotations":                        "contribution.apply",
	"cpu.preferredCPUTopology":           "applyTopology",
	"cpu.spreadOptions.across":           "applyTopology",
	"cpu.spreadOptions.ratio":            "applyTopology",
	"preferSpreadSocketToCoreRatio":      "applyTopology",
	"devices.preferredVirtualGPUOptions": "KubeVirt ignores it",
	"volumes.preferredStorageClassName":  "KubeVirt's mutating webhook writes it into the VM",
	"requirements.architecture":          "a requirement sets nothing",
	"requirements.cpu.guest":             "a requirement sets nothing",
	"requirements.memory.guest":          "a requirement sets nothing",
}

// TestEveryFieldHasARow fails if KubeVirt's instancetypes or preferences have a field without a
// row.
func TestEveryFieldHasARow(t *testing.T) {
	for field, c := range map[string]struct {
		rows []contributedField
		spec any
	}{
		"instancetype": {instancetypeRows, v1beta1.VirtualMachineInstancetypeSpec{}},
		"preference":   {preferenceRows, v1beta1.VirtualMachinePreferenceSpec{}},
	} {
		known := map[string]bool{}
		for _, row := range c.rows {
			known[row.from] = true
		}
		for _, leaf := range fieldsOf(reflect.TypeOf(c.spec), "") {
			covered := withoutRow[leaf] != ""
			for from := range known {
				covered = covered || leaf == from || strings.HasPrefix(leaf, from+".")
			}
			if !covered {
				t.Errorf("no row gives field %s of a %s", leaf, field)
			}
			delete(known, leaf)
		}
		for from := range known {
			if from != "firmware" && from != "ioThreads.supplementalPoolThreadCount" {
				t.Errorf("a %s has no field %s", field, from)
			}
		}
	}
}

// fieldsOf lists the fields of the types that v1beta1 declares.
func fieldsOf(in reflect.Type, at string) []string {
	var out []string
	for f := range in.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		path := strings.TrimPrefix(at+"."+name, ".")
		of := f.Type
		if of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		if of.Kind() == reflect.Struct && strings.HasSuffix(of.PkgPath(), "/instancetype/v1beta1") {
			out = append(out, fieldsOf(of, path)...)
			continue
		}
		if path == "ioThreads" {
			path += ".supplementalPoolThreadCount" // its only field
		}
		out = append(out, path)
	}
	return out
}

// TestTopology: the numbers are those of KubeVirt 1.9.
func TestTopology(t *testing.T) {
	for name, c := range map[string]struct {
		guest                   int64
		preference              map[string]any
		sockets, cores, threads int64
	}{
		"None":                {8, nil, 8, 1, 1},
		"Cores":               {8, topologyOf("cores", "", 0), 1, 8, 1},
		"OldName":             {8, topologyOf("preferThreads", "", 0), 1, 1, 8},
		"Any":                 {8, topologyOf("any", "", 0), 8, 1, 1},
		"Spread":              {8, topologyOf("spread", "", 0), 4, 2, 1},
		"SpreadByFour":        {8, topologyOf("spread", "SocketsCores", 4), 2, 4, 1},
		"CoresThreads":        {8, topologyOf("spread", "CoresThreads", 0), 1, 4, 2},
		"SocketsCoresThreads": {8, topologyOf("spread", "SocketsCoresThreads", 0), 2, 2, 2},
		"One":                 {1, topologyOf("spread", "SocketsCoresThreads", 0), 1, 1, 1},
	} {
		sockets, cores, threads := topology(c.guest, c.preference)
		if sockets != c.sockets || cores != c.cores || threads != c.threads {
			t.Errorf("%s: got %d, %d, %d, want %d, %d, %d", name, sockets, cores, threads, c.sockets, c.cores, c.threads)
		}
	}
}

func topologyOf(preferred, across string, ratio int64) map[string]any {
	options := map[string]any{}
	if across != "" {
		options["across"] = across
	}
	if ratio > 0 {
		options["ratio"] = ratio
	}
	return map[string]any{"cpu": map[string]any{"preferredCPUTopology": preferred, "spreadOptions": options}}
}
