package domain

import (
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	kubevirtv1 "kubevirt.io/api/core/v1"
)

// TestEveryFieldIsHandledInAPod wants a note for each field that is no plain part of the domain.
func TestEveryFieldIsHandledInAPod(t *testing.T) {
	for path, group := range fields() {
		if group.by == "" || group.by != inDomain && group.note == "" {
			t.Errorf("%s: fieldGroups does not say what handles it in a pod, and how: %q, %q", path, group.by, group.note)
		}
	}
}

// TestPodsRejectFieldsByName sets each field that a pod cannot provide alone.
func TestPodsRejectFieldsByName(t *testing.T) {
	for _, p := range podProbes {
		t.Run(p.path, func(t *testing.T) {
			vmi := (&goldenCase{}).vmi()
			set(reflect.ValueOf(&vmi.Spec).Elem(), p.steps)
			want := strings.ReplaceAll(p.path, "[]", "[0]")
			if !slices.ContainsFunc(CheckPod(vmi).ToAggregate().Errors(), func(err error) bool {
				return strings.HasPrefix(err.Error(), want) && strings.Contains(err.Error(), p.note)
			}) {
				t.Errorf("got %v, want an error about %s", CheckPod(vmi), want)
			}
		})
	}
}

func TestCheckPod(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*kubevirtv1.VirtualMachineInstance)
		want   string
	}{
		"nothing special": {func(*kubevirtv1.VirtualMachineInstance) {}, ""},
		"sidecars":        {func(v *kubevirtv1.VirtualMachineInstance) { v.Annotations = map[string]string{sidecars: "[]"} }, "metadata.annotations[hooks.kubevirt.io/hookSidecars]"},
		"SEV": {func(v *kubevirtv1.VirtualMachineInstance) {
			v.Spec.Domain.LaunchSecurity = &kubevirtv1.LaunchSecurity{SEV: &kubevirtv1.SEV{}}
		}, "spec.domain.launchSecurity"},
		"a long interface name": {func(v *kubevirtv1.VirtualMachineInstance) {
			v.Spec.Domain.Devices.Interfaces = []kubevirtv1.Interface{{Name: strings.Repeat("n", 57)}}
		}, "spec.domain.devices.interfaces[0].name"},
		"a network too small": {func(v *kubevirtv1.VirtualMachineInstance) { v.Spec.Networks = podNetworkOf("10.0.0.0/28") }, "spec.networks[0].pod.vmNetworkCIDR"},
		"a network of IPv6 that is too small": {func(v *kubevirtv1.VirtualMachineInstance) {
			v.Spec.Networks = podNetworkOf("")
			v.Spec.Networks[0].Pod.VMIPv6NetworkCIDR = "fd10:0:2::/120"
		}, "spec.networks[0].pod.vmIPv6NetworkCIDR"},
		"a network": {func(v *kubevirtv1.VirtualMachineInstance) { v.Spec.Networks = podNetworkOf("10.0.0.0/27") }, ""},
		"a tag without cloud-init": {func(v *kubevirtv1.VirtualMachineInstance) {
			v.Spec.Domain.Devices.Disks = []kubevirtv1.Disk{{Name: "a", Tag: "x"}}
		}, "spec.domain.devices.disks[0].tag"},
		"a tag": {func(v *kubevirtv1.VirtualMachineInstance) {
			v.Spec.Domain.Devices.Disks = []kubevirtv1.Disk{{Name: "a", Tag: "x"}}
			v.Spec.Volumes = []kubevirtv1.Volume{{Name: "a", VolumeSource: kubevirtv1.VolumeSource{CloudInitNoCloud: &kubevirtv1.CloudInitNoCloudSource{}}}}
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			vmi := &kubevirtv1.VirtualMachineInstance{}
			test.change(vmi)
			errs := CheckPod(vmi)
			if test.want == "" && len(errs) > 0 || test.want != "" && (len(errs) != 1 || errs[0].Field != test.want) {
				t.Errorf("got %v, want one about %q", errs, test.want)
			}
		})
	}
}

func podNetworkOf(cidr string) []kubevirtv1.Network {
	return []kubevirtv1.Network{{Name: "default", NetworkSource: kubevirtv1.NetworkSource{Pod: &kubevirtv1.PodNetwork{VMNetworkCIDR: cidr}}}}
}

// inDocs are the names that docs/domain.md has for handlings.
var inDocs = map[handling]string{
	inDomain: "Domain", inPod: "Pod", inLauncher: "Launcher", inController: "Controller", atAdmission: "Admission",
	notInPod: "Rejected", rejectedInPod: "Rejected", unsupported: "Rejected",
}

// TestFieldTable compares the table of docs/domain.md with fieldGroups. UPDATE_GOLDEN=1 writes it.
func TestFieldTable(t *testing.T) {
	const page, begin, end = "../docs/domain.md", "<!-- fields: written by the tests of package domain -->\n", "<!-- end of fields -->\n"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), begin)
	was, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s has no place for the table, between %q and %q", page, begin, end)
	}
	groups := maps.Collect(fields())
	var table strings.Builder
	table.WriteString("\n| field | handled by | how |\n|---|---|---|\n")
	for _, path := range slices.Sorted(maps.Keys(groups)) {
		fmt.Fprintf(&table, "| `%s` | %s | %s |\n", path, inDocs[groups[path].by], groups[path].note)
	}
	table.WriteString("\n")
	if was == table.String() {
		return
	}
	if os.Getenv("UPDATE_GOLDEN") == "" {
		t.Fatalf("the table of fields in %s is out of date: UPDATE_GOLDEN=1 writes it", page)
	}
	if err := os.WriteFile(page, []byte(before+begin+table.String()+end+after), 0o600); err != nil {
		t.Fatal(err)
	}
}
