package webhooks

import (
	"slices"
	"testing"

	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/test/presettest"
	"github.com/virtwright/virtwright/validation"
	"github.com/virtwright/virtwright/validation/protection"
)

// KubeVirt plugs volumes into VMIs on behalf of users. Presets forbid them as they do on the VM.
func TestVolumesThatKubeVirtPlugs(t *testing.T) {
	const (
		owned  = "ownerReferences: [{apiVersion: kubevirt.io/v1, kind: VirtualMachine, name: web, uid: u1, controller: true}]"
		labels = "labels: {claims: none}"
		root   = "{name: root, persistentVolumeClaim: {claimName: root}}"
		more   = "{name: more, persistentVolumeClaim: {claimName: more, hotpluggable: true}}"
		empty  = "{name: more, emptyDisk: {capacity: 1Gi}}"
		spec   = "domain: {memory: {guest: 64Mi}, devices: {disks: [{name: root, disk: {}}, {name: more, disk: {}}]}}, volumes: "
	)
	vmi := func(metadata, volumes string) string {
		return "{apiVersion: kubevirt.io/v1, kind: VirtualMachineInstance, metadata: {name: web, namespace: lab, " + metadata + "}, spec: {" + spec + "[" + volumes + "]}}"
	}
	vm := func(volumes string) string {
		return "{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: web, namespace: lab, uid: u1, " + labels + "}, spec: {runStrategy: Always, template: {spec: {" + spec + "[" + volumes + "]}}}}"
	}
	rejects := []string{"spec.volumes[more].persistentVolumeClaim"}
	for name, c := range map[string]struct {
		vm, before, now string
		want            []string
	}{
		"a claim":                          {vm(root), vmi(owned, root), vmi(owned, root+","+more), rejects},
		"a claim that the VM has":          {vm(root + "," + more), vmi(owned, root), vmi(owned, root+","+more), nil},
		"a claim with a name of the VM":    {vm(root + "," + empty), vmi(owned, root), vmi(owned, root+","+more), rejects},
		"a claim that the VMI had":         {vm(root), vmi(owned, root+","+more), vmi(owned, more), nil},
		"a claim of a VMI without a VM":    {"", vmi(labels, root), vmi(labels, root+","+more), rejects},
		"a claim of a VMI without label":   {"", vmi("labels: {}", root), vmi("labels: {}", root+","+more), nil},
		"a volume that nothing forbids":    {vm(root), vmi(owned, root), vmi(owned, root+","+empty), nil},
		"a volume that is removed":         {vm(root), vmi(owned, root+","+more), vmi(owned, root), nil},
		"a claim of a VMI that is deleted": {vm(root), vmi(owned+", deletionTimestamp: '2026-01-01T00:00:00Z'", root), vmi(owned, root+","+more), nil},
	} {
		t.Run(name, func(t *testing.T) {
			req := updates("VirtualMachineInstance", "lab", c.before, c.now)
			req.UserInfo.Username = controller
			handler := &Validator{
				Kind: presets.VirtualMachineInstance, Guard: protection.Guard{Controllers: []string{controller}, Addon: true},
				Rules: &validation.Config{Addon: true}, Engine: &presets.Engine{}, Namespaces: namespaces{"lab": {Name: "lab"}}, Owners: owners{},
				Snapshots: fixed{presettest.Snapshot(t, presettest.Cluster("house", `
match: {labels: {matchLabels: {claims: none}}}
forbid: [{path: "spec.template.spec.volumes[*].persistentVolumeClaim", message: no claims here}]`))},
			}
			if c.vm != "" {
				handler.Owners = owners{"u1": c.vm}
			}
			response := handler.Handle(t.Context(), req)
			if got := causes(response); !slices.Equal(got, c.want) || response.Allowed != (c.want == nil) {
				t.Errorf("got %q (%+v), want %q", got, response.Result, c.want)
			}
		})
	}
}

// What presets that act at launch forbid is not plugged into a running VMI.
func TestLaunchPresetsForbidPlugging(t *testing.T) {
	const (
		owned   = "ownerReferences: [{apiVersion: kubevirt.io/v1, kind: VirtualMachine, name: web, uid: u1, controller: true}], "
		labels  = "labels: {extras: none}"
		root    = "{name: root, emptyDisk: {capacity: 1Gi}}"
		empty   = "{name: more, emptyDisk: {capacity: 1Gi}}"
		claim   = "{name: more, persistentVolumeClaim: {claimName: more, hotpluggable: true}}"
		pod     = "{name: default, pod: {}}"
		network = "{name: more, multus: {networkName: other/net}}"
	)
	vmi := func(metadata, volumes, networks string) string {
		return "{apiVersion: kubevirt.io/v1, kind: VirtualMachineInstance, metadata: {name: web, namespace: lab, " + metadata + "}, spec: {domain: {memory: {guest: 64Mi}, devices: {}}, volumes: [" + volumes + "], networks: [" + networks + "]}}"
	}
	handler := &Validator{
		Kind: presets.VirtualMachineInstance, Guard: protection.Guard{Controllers: []string{controller}, Addon: true},
		Rules: &validation.Config{Addon: true}, Engine: &presets.Engine{}, Namespaces: namespaces{"lab": {Name: "lab"}},
		Owners: owners{"u1": "{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: web, namespace: lab, uid: u1}, spec: {runStrategy: Always, template: {metadata: {" + labels + "}, spec: {domain: {memory: {guest: 64Mi}, devices: {}}, volumes: [" + root + "," + claim + "], networks: [" + pod + "," + network + "]}}}}"},
		Snapshots: fixed{presettest.Snapshot(t, presettest.Cluster("house", `
applyAt: Launch
match: {labels: {matchLabels: {extras: none}}}
forbid: [{path: "spec.template.spec.volumes[*].persistentVolumeClaim"}, {path: "spec.template.spec.networks[*].multus"}]`))},
	}
	for name, c := range map[string]struct {
		before, now string
		want        []string
	}{
		"a claim":                   {vmi(owned+labels, root, pod), vmi(owned+labels, root+","+claim, pod), []string{"spec.volumes[more].persistentVolumeClaim"}},
		"a network":                 {vmi(owned+labels, root, pod), vmi(owned+labels, root, pod+","+network), []string{"spec.networks[more].multus"}},
		"a network without a VM":    {vmi(labels, root, pod), vmi(labels, root, pod+","+network), []string{"spec.networks[more].multus"}},
		"an empty disk":             {vmi(owned+labels, root, pod), vmi(owned+labels, root+","+empty, pod), nil},
		"a network that it had":     {vmi(owned+labels, root, pod+","+network), vmi(owned+labels, root, network), nil},
		"a VMI that lost the label": {vmi("labels: {}", root, pod), vmi("labels: {}", root, pod+","+network), nil},
	} {
		req := updates("VirtualMachineInstance", "lab", c.before, c.now)
		req.UserInfo.Username = controller
		response := handler.Handle(t.Context(), req)
		if got := causes(response); !slices.Equal(got, c.want) || response.Allowed != (c.want == nil) {
			t.Errorf("%s: got %q (%+v), want %q", name, got, response.Result, c.want)
		}
	}
}
