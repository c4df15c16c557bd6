package blueprint

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// vmOf returns a VirtualMachine with an instance spec.
func vmOf(spec map[string]any) map[string]any {
	return map[string]any{
		"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": map[string]any{"name": "vm", "namespace": "here"},
		"spec": map[string]any{"template": map[string]any{"spec": spec}},
	}
}

type fields = map[string]any

// at nests a value in new objects: "a.b.#.c" is a.b[1].c, after an empty item.
func at(steps string, value any) map[string]any {
	parts := strings.Split(steps, ".")
	for i := len(parts) - 1; i > 0; i-- {
		if parts[i] == "#" {
			value = []any{map[string]any{}, value}
		} else {
			value = fields{parts[i]: value}
		}
	}
	return fields{parts[0]: value}
}

func TestNames(t *testing.T) {
	cases := map[string]struct {
		reason string
		spec   map[string]any
		want   []string
	}{
		"seed": {
			reason: "the parameters in the design",
			spec: fields{
				"domain":  fields{"devices": fields{"disks": []any{fields{"name": "a", "disk": fields{"bus": "virtio"}}}}, "resources": fields{"requests": fields{"memory": "128Mi"}}},
				"volumes": []any{fields{"name": "a", "containerDisk": fields{"image": "i"}}},
			},
			want: []string{"DISK0_BUS", "REQUESTS_MEMORY", "VOLUME0_IMAGE"},
		},
		"parent":                {"without items, the parent", at("domain.cpu.cores", int64(1)), []string{"CPU_CORES"}},
		"words":                 {"words of keys are separated", at("domain.firmware.bootloader.efi.secureBoot", true), []string{"EFI_SECURE_BOOT"}},
		"items":                 {"all items, and no parent", at("domain.devices.interfaces.#.ports.#.port", int64(1)), []string{"INTERFACE1_PORT1_PORT"}},
		"top":                   {"a leaf without a parent", at("terminationGracePeriodSeconds", int64(1)), []string{"TERMINATION_GRACE_PERIOD_SECONDS"}},
		"resource":              {"characters that names cannot have", fields{"r": fields{"requests": fields{"devices.kubevirt.io/kvm": "1"}}}, []string{"REQUESTS_DEVICES_KUBEVIRT_IO_KVM"}},
		"hugepages":             {"a digit begins no word", fields{"r": fields{"requests": fields{"hugepages-2Mi": "1"}}}, []string{"REQUESTS_HUGEPAGES_2MI"}},
		"selector":              {"keys are names too", fields{"nodeSelector": fields{"kubernetes.io/arch": "amd64"}}, []string{"NODE_SELECTOR_KUBERNETES_IO_ARCH"}},
		"abbreviation":          {"capitals at the end are one word", at("gpus.#.ramFB.enabled", true), []string{"GPU1_ENABLED"}},
		"ies":                   {"ies becomes y", at("policies.#.a", "x"), []string{"POLICY1_A"}},
		"addresses":             {"sses loses es", at("addresses.#.a", "x"), []string{"ADDRESS1_A"}},
		"searches":              {"ches loses es", at("d.searches", []any{"x", "y"}), []string{"D_SEARCH0", "D_SEARCH1"}},
		"ss":                    {"ss stays", at("class.#.a", "x"), []string{"CLASS1_A"}},
		"number":                {"no name begins with a digit", fields{"1": "x"}, []string{"_1"}},
		"nothing":               {"a key without letters for a name", fields{"ключ": "x"}, []string{"_"}},
		"reserved":              {"LABELS and NAME are reserved", fields{"labels": "x", "NAME": "y"}, []string{"NAME_2", "LABELS_2"}},
		"union":                 {"unions use the member", fields{"disks": []any{fields{"disk": fields{"bus": "a"}, "cdrom": fields{"bus": "b"}}}}, []string{"DISK0_CDROM_BUS", "DISK0_DISK_BUS"}},
		"suffixes are not kept": {"numbered names do not clash", fields{"a": fields{"b": "x", "B": "y", "b_2": "z"}}, []string{"A_B", "A_B_3", "A_B_2"}},
		"probes": {
			reason: "the nearest ancestor that differs",
			spec:   fields{"livenessProbe": at("httpGet.port", int64(1)), "readinessProbe": at("httpGet.port", int64(2))},
			want:   []string{"LIVENESS_PROBE_HTTP_GET_PORT", "READINESS_PROBE_HTTP_GET_PORT"},
		},
		"equal keys": {
			reason: "keys that give the same name are numbered in their order",
			spec:   fields{"nodeSelector": fields{"a.b/c": "1", "a-b/c": "2"}},
			want:   []string{"NODE_SELECTOR_A_B_C", "NODE_SELECTOR_A_B_C_2"},
		},
		"taken and equal": {
			reason: "a number that is taken is skipped, and later names continue after it",
			spec:   fields{"nodeSelector": fields{"a": "1", "a.b": "2", "a-b": "3", "a_b": "4", "a_b_3": "5"}},
			want:   []string{"NODE_SELECTOR_A", "NODE_SELECTOR_A_B", "NODE_SELECTOR_A_B_2", "NODE_SELECTOR_A_B_4", "NODE_SELECTOR_A_B_3"},
		},
		"mentioned": {
			reason: "an engine would replace a name in a key",
			spec:   fields{"domain": at("memory.guest", "1Gi"), "nodeSelector": fields{"${MEMORY_GUEST}": "x"}},
			want:   []string{"MEMORY_GUEST_2", "NODE_SELECTOR_MEMORY_GUEST"},
		},
		"literals": {
			reason: "names are no parameters, except those that look like references",
			spec:   fields{"literal0": "x", "disks": []any{fields{"name": "${A}"}, fields{"name": "a"}}},
			want:   []string{"LITERAL1", "LITERAL0"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			b, err := FromVM(vmOf(c.spec), Options{})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, p := range b.Parameters {
				got = append(got, p.Name)
			}
			if diff := cmp.Diff(append(c.want, "LABELS"), got); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", c.reason, diff)
			}
		})
	}
}

// TestQuantities: a resource that is a number may become a text such as 500m.
func TestQuantities(t *testing.T) {
	for value, want := range map[any]Type{int64(1): Quantity, 0.5: Quantity, "1": String} {
		b, err := FromVM(vmOf(at("domain.resources.requests.cpu", value)), Options{})
		if err != nil || b.Parameters[0].Type != want {
			t.Errorf("%v: got %v, %v, want %s", value, b, err, want)
		}
	}
}
