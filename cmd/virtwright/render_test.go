package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/virtwright/virtwright/test/golden"
)

const exampleProfiles = "../../examples/profiles"

// TestRenderExamples renders every example with all presets and profiles.
func TestRenderExamples(t *testing.T) {
	for _, file := range examples(t) {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		t.Run(name, func(t *testing.T) {
			args := []string{"render", "-f", file, "-f", examplePresets, "-f", exampleNamespaces, "-f", exampleProfiles}
			got := call(t, "", args...).fine(t)
			golden.Equal(t, "testdata/render/"+name+".out.xml", got.out)
			guest := call(t, "", append(args, "--stage", "frontend")...).fine(t)
			golden.Equal(t, "testdata/render/"+name+".guest.xml", guest.out)
		})
	}
	golden.Stale(t, "testdata/render/*.xml")
}

const labMachine = `
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: vm, namespace: lab}
spec:
  template:
    spec:
      domain:
        memory: {guest: 1Gi}
        features: {pvspinlock: {}}
`

func TestRenderFacts(t *testing.T) {
	facts := write(t, "facts.yaml", "kvm: false\nmachines: {amd64: {q35: pc-q35-9.9}}\nemulators: {amd64: /opt/qemu}\n")
	rejected := call(t, labMachine, "render", "-f", "-", "--facts", facts)
	says(t, rejected.err, "vm", "softwareEmulation")
	if rejected.code != 1 {
		t.Errorf("exit code %d, want 1", rejected.code)
	}

	got := call(t, labMachine, "render", "-f", "-", "-f", exampleProfiles+"/laboratory.yaml", "--facts", facts, "--decisions").fine(t)
	says(t, got.out, `<domain type="qemu">`, `machine="pc-q35-9.9"`, "<emulator>/opt/qemu</emulator>", `<interface type="user">`)
	says(t, got.err, "Warning: ", "spec.domain.features.pvspinlock", "Note: frontend profiles: none; backend profiles: laboratory")

	emulated := call(t, labMachine, "render", "-f", "-", "-f", exampleProfiles+"/laboratory.yaml", "--facts", write(t, "facts.yaml", "emulators: {amd64: /opt/qemu}\n")).fine(t)
	says(t, emulated.out, `<domain type="qemu">`, "<emulator>/opt/qemu</emulator>")

	misspelt := call(t, labMachine, "render", "-f", "-", "--facts", write(t, "facts.yaml", "kmv: false\n"))
	says(t, misspelt.err, "--facts", `unknown field "kmv"`)
	if misspelt.code != 2 {
		t.Errorf("exit code %d, want 2", misspelt.code)
	}
}

// TestRenderRejects names the field that cannot be rendered, and renders the other VMs.
func TestRenderRejects(t *testing.T) {
	bad := strings.ReplaceAll(strings.ReplaceAll(labMachine, "features: {pvspinlock: {}}", "devices: {disks: [{name: a, changedBlockTracking: true, disk: {bus: virtio}}]}"), "name: vm,", "name: bad,") +
		"      volumes: [{name: a, emptyDisk: {capacity: 1Gi}}]\n"
	got := call(t, bad+"---\n"+labMachine, "render", "-f", "-")
	says(t, got.err, "VirtualMachine lab/bad is rejected", "spec.template.spec.domain.devices.disks[0].changedBlockTracking: Forbidden: not supported")
	says(t, got.out, "<!-- VirtualMachine lab/vm -->\n<domain")
	if got.code != 1 {
		t.Errorf("exit code %d, want 1", got.code)
	}
}

// Invalid profiles are rejected by every command, like in a cluster.
func TestRenderProfiles(t *testing.T) {
	for profile, want := range map[string]string{
		"{apiVersion: virtwright.dev/v1alpha1, kind: BackendProfile, metadata: {name: p}, spec: {disk: {}}}":                                                       `did you mean "disks"?`,
		"{apiVersion: virtwright.dev/v1alpha1, kind: BackendProfile, metadata: {name: p}, spec: {networks: [{network: pod, type: Bridge}]}}":                       "spec.networks[0].bridge",
		"{apiVersion: virtwright.dev/v1alpha1, kind: FrontendProfile, metadata: {name: p}, spec: {guestFamily: BeOS}}":                                             "spec.guestFamily",
		"{apiVersion: virtwright.dev/v1alpha1, kind: FrontendProfile, metadata: {name: p}, spec: {match: {labels: {matchExpressions: [{key: a, operator: Is}]}}}}": "spec.match.labels",
	} {
		file := write(t, "profile.yaml", profile)
		for _, command := range []string{"render", "expand", "validate"} {
			got := call(t, labMachine, command, "-f", "-", "-f", file)
			if got.code != 1 || !strings.Contains(got.out+got.err, want) {
				t.Errorf("%s %s: exit code %d, want %q in:\n%s%s", command, profile, got.code, want, got.out, got.err)
			}
		}
	}
}

// TestRenderStored renders a stored VM with the firmware UUID and serial of its VMI.
func TestRenderStored(t *testing.T) {
	stored := strings.Replace(labMachine, "name: vm,", `name: vm, uid: 11111111-2222-4333-8444-555555555555, resourceVersion: "1",`, 1) + "  runStrategy: Halted\n"
	got := call(t, stored, "render", "-f", "-").fine(t)
	says(t, got.out, "<uuid>3a85b9ca-a75b-5f27-b5df-f306b921af33</uuid>", `<entry name="serial">3a85b9ca-a75b-5f27-b5df-f306b921af33</entry>`)
}

// TestRenderPreference applies a preference to the interface and the input that KubeVirt adds.
func TestRenderPreference(t *testing.T) {
	preference := func(devices string) string {
		return write(t, "preference.yaml", "apiVersion: instancetype.kubevirt.io/v1beta1\nkind: VirtualMachineClusterPreference\nmetadata: {name: p}\nspec: {devices: {"+devices+"}}\n")
	}
	vm := labMachine + "  runStrategy: Halted\n  preference: {name: p}\n"
	render := func(devices string) string {
		return call(t, vm, "render", "--mode", "addon", "-f", "-", "-f", preference(devices)).fine(t).out
	}
	says(t, render("preferredInterfaceModel: e1000e"), `<model type="e1000e"></model>`)
	says(t, render("preferredAutoattachInputDevice: true, preferredInputBus: virtio"), `<input type="tablet" bus="virtio"`)
	if out := render("preferredAutoattachPodInterface: false"); strings.Contains(out, "<interface") {
		t.Errorf("an interface in:\n%s", out)
	}
}
