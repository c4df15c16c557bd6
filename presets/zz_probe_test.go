package presets_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/presettest"
)

type pr struct {
	e      presets.Engine
	kind   presets.Kind
	object string
	old    string
	owner  string
	ps     []v1alpha1.Preset
	show   []string
}

var plat = presets.Engine{Platform: &presets.Platform{}}

func probe(t *testing.T, name string, c pr) (obj map[string]any) {
	t.Helper()
	defer func() {
		if r := recover(); r != nil {
			fmt.Printf("== %s: PANIC %v\n", name, r)
		}
	}()
	if c.kind == "" {
		c.kind = presets.VirtualMachine
	}
	req := presets.Request{Kind: c.kind, Object: presettest.JSON(c.object), Namespace: presets.Namespace{Name: "lab", Labels: map[string]string{"tier": "prod"}}}
	if c.old != "" {
		req.OldObject = presettest.JSON(c.old)
	}
	if c.owner != "" {
		req.Owner = presettest.JSON(c.owner)
	}
	out, err := c.e.Resolve(t.Context(), presettest.Snapshot(t, c.ps...), req)
	if err != nil {
		fmt.Printf("== %s: ERR %v\n", name, err)
		return nil
	}
	pj, _ := json.Marshal(out.Patch)
	p, err := jsonpatch.DecodePatch(pj)
	applied := "ok"
	if err != nil {
		applied = err.Error()
	} else if got, err := p.Apply(req.Object); err != nil {
		applied = "APPLY: " + err.Error()
	} else if want := string(marshal(t, out.Object())); !jsonpatch.Equal(got, []byte(want)) {
		applied = "MISMATCH got " + string(got) + " want " + want
	}
	fmt.Printf("== %s: patch %s [%d ops]\n", name, applied, len(out.Patch))
	for _, s := range c.show {
		v := presettest.At(out.Object(), s)
		b, _ := json.Marshal(v)
		fmt.Printf("     %s = %s\n", s, b)
	}
	for _, w := range out.Warnings {
		fmt.Println("     W:", w)
	}
	if len(out.Audit) > 0 {
		fmt.Println("     A:", out.Audit)
	}
	for _, x := range out.Conflicts {
		fmt.Println("     C:", x)
	}
	if c.show == nil {
		fmt.Println("    ", string(pj))
	}
	return out.Object()
}

func edit(t *testing.T, o map[string]any, f func(map[string]any)) (string, string) {
	old := marshal(t, o)
	var m map[string]any
	json.Unmarshal(old, &m)
	f(m)
	return string(old), string(marshal(t, m))
}

const prov = `metadata.annotations["virtwright.dev/provenance"]`

func TestProbeA(t *testing.T) {
	for _, x := range []string{`["x"]`, `[{}]`, `"s"`, `5`} {
		probe(t, "forbid deep cpu="+x, pr{ps: list(cluster("a", "forbid: [{path: spec.template.spec.domain.cpu.cores}]")), object: domain("{cpu: " + x + "}")})
		probe(t, "remove deep cpu="+x, pr{ps: list(cluster("a", "remove: [spec.template.spec.domain.cpu.cores]")), object: domain("{cpu: " + x + "}")})
		probe(t, "hostDisk="+x, pr{ps: list(cluster("a", "forbid: [{path: 'spec.template.spec.volumes[*].hostDisk.path'}]")), object: vm("spec: {template: {spec: {volumes: [{name: a, hostDisk: " + x + "}]}}}")})
	}
	// lost values
	big := strings.Repeat("x", 1500)
	ov := cluster("ud", `overrides: {spec: {template: {spec: {volumes: [{name: ci, cloudInitNoCloud: {userData: "#forced"}}]}}}}`)
	o := probe(t, "big create", pr{ps: list(ov), object: vm(`spec: {template: {spec: {volumes: [{name: ci, cloudInitNoCloud: {userData: "` + big + `"}}]}}}`), show: []string{"spec.template.spec.volumes", prov}})
	probe(t, "big second pass", pr{ps: list(ov), object: string(marshal(t, o)), show: []string{prov}})
	old, sent := edit(t, o, func(m map[string]any) { in(m, "metadata.annotations")[v1alpha1.AnnotationReapply] = "1" })
	probe(t, "big reapply, preset gone", pr{ps: list(), object: sent, old: old})
	o2 := probe(t, "big reapply, preset there", pr{ps: list(ov), object: sent, old: old, show: []string{"spec.template.spec.volumes", prov}})
	old, sent = edit(t, o2, func(m map[string]any) { in(m, "metadata.annotations")[v1alpha1.AnnotationReapply] = "2" })
	probe(t, "big reapply2, preset gone", pr{ps: list(), object: sent, old: old})
	rm := cluster("rm", `remove: ["spec.template.spec.volumes[ci]"]`)
	o = probe(t, "rm create", pr{ps: list(rm), object: vm(`spec: {template: {spec: {volumes: [{name: b, emptyDisk: {capacity: 1Gi}}, {name: ci, cloudInitNoCloud: {userData: "` + big + `"}}]}}}`), show: []string{"spec.template.spec.volumes", prov}})
	old, sent = edit(t, o, func(m map[string]any) { in(m, "metadata.annotations")[v1alpha1.AnnotationReapply] = "1" })
	probe(t, "rm reapply gone", pr{ps: list(), object: sent, old: old})
	cond := cluster("cond", `{match: {labels: {matchLabels: {z: z}}, conditions: [{name: c, expression: "object.spec.template.spec.volumes.all(v, !v.cloudInitNoCloud.userData.contains('foo'))"}]}, overrides: {spec: {template: {spec: {domain: {cpu: {cores: 2}}}}}}}`)
	o = probe(t, "cond create", pr{ps: list(ov), object: vm(`spec: {template: {spec: {volumes: [{name: ci, cloudInitNoCloud: {userData: "` + big + `"}}]}}}`), show: []string{}})
	old, sent = edit(t, o, label("z", "z"))
	probe(t, "cond relabel with lost value", pr{ps: list(ov, cond), object: sent, old: old, show: []string{at + "cpu"}})
}

func TestProbeB(t *testing.T) {
	// put back of element
	ov := cluster("nic", overrides("{devices: {interfaces: [{name: default, model: virtio}]}}"))
	o := probe(t, "nic create", pr{ps: list(ov), object: vm(`spec: {template: {spec: {domain: {devices: {interfaces: [{name: default, masquerade: {}},{name: b, bridge: {}}]}}, networks: [{name: default, pod: {}},{name: b, multus: {networkName: b}}]}}}`), show: []string{at + "devices.interfaces", prov}})
	old, sent := edit(t, o, func(m map[string]any) {
		in(m, "spec.template.spec")["networks"] = []any{map[string]any{"name": "b", "multus": map[string]any{"networkName": "b"}}}
		in(m, at+"devices")["interfaces"] = []any{map[string]any{"name": "b", "bridge": map[string]any{}}}
	})
	probe(t, "nic removed by user with its network", pr{ps: list(ov), object: sent, old: old, show: []string{at + "devices.interfaces", "spec.template.spec.networks"}})
	// override {}
	tpm := cluster("tpm", overrides("{devices: {tpm: {}}}"))
	o = probe(t, "tpm create", pr{ps: list(tpm), object: vm(""), show: []string{at + "devices"}})
	old, sent = edit(t, o, func(m map[string]any) { in(m, at+"devices")["tpm"] = map[string]any{"persistent": true} })
	probe(t, "tpm {} then user adds persistent", pr{ps: list(tpm), object: sent, old: old, show: []string{at + "devices"}})
	// relabel rank
	hi := cluster("hi", "priority: 100\n"+defaults("{cpu: {cores: 8}}"))
	lo := cluster("lo", "priority: 1\nmatch: {labels: {matchLabels: {z: z}}}\n"+defaults("{cpu: {cores: 2}}"))
	o = probe(t, "hi create", pr{ps: list(hi, lo), object: vm(""), show: []string{at + "cpu"}})
	old, sent = edit(t, o, label("z", "z"))
	probe(t, "relabel: low priority newly matching", pr{ps: list(hi, lo), object: sent, old: old, show: []string{at + "cpu"}})
	// recorded namespaced remove vs newly matching cluster override
	rm := local("rm", `remove: ["spec.template.spec.domain.devices.rng"]`)
	cl := cluster("rng", "match: {labels: {matchLabels: {z: z}}}\n"+overrides("{devices: {rng: {}}}"))
	o = probe(t, "nsrm create", pr{ps: list(rm, cl), object: domain("{devices: {rng: {}, tpm: {}}}"), show: []string{at + "devices"}})
	old, sent = edit(t, o, label("z", "z"))
	probe(t, "cluster override newly matching vs ns remove", pr{ps: list(rm, cl), object: sent, old: old, show: []string{at + "devices"}})
	probe(t, "  on CREATE", pr{ps: list(rm, cl), object: `{metadata: {name: x, labels: {z: z}}}`, show: []string{at + "devices"}})
	// choice
	nb := local("bios", overrides("{firmware: {bootloader: {bios: {useSerial: true}}}}"))
	ce := cluster("efi", "match: {labels: {matchLabels: {z: z}}}\n"+overrides("{firmware: {bootloader: {efi: {secureBoot: true}}}}"))
	o = probe(t, "choice create", pr{ps: list(nb, ce), object: vm(""), show: []string{at + "firmware"}})
	old, sent = edit(t, o, label("z", "z"))
	probe(t, "cluster efi newly matching vs ns bios", pr{ps: list(nb, ce), object: sent, old: old, show: []string{at + "firmware"}})
	// cluster remove vs ns override
	no := local("rngo", overrides("{devices: {rng: {}}}"))
	cr := cluster("crm", "match: {labels: {matchLabels: {z: z}}}\nremove: [spec.template.spec.domain.devices.rng]")
	o = probe(t, "nsov create", pr{ps: list(no, cr), object: vm(""), show: []string{at + "devices"}})
	old, sent = edit(t, o, label("z", "z"))
	probe(t, "cluster remove newly matching vs ns override", pr{ps: list(no, cr), object: sent, old: old, show: []string{at + "devices"}})
	// launch remove
	lr := cluster("lrm", "applyAt: Launch\nremove: [spec.template.spec.domain.devices.rng]")
	own := string(marshal(t, o))
	probe(t, "Launch cluster remove vs ns Definition override", pr{kind: presets.VirtualMachineInstance, ps: list(no, lr), owner: own, object: `{metadata: {name: x}, spec: {domain: {devices: {rng: {}}}}}`, show: []string{"spec.domain.devices"}})
	// gone cluster override vs ns
	co := cluster("co", "match: {labels: {matchLabels: {y: y}}}\n"+overrides("{cpu: {cores: 2}}"))
	nn := local("nn", "match: {labels: {matchLabels: {z: z}}}\n"+overrides("{cpu: {cores: 4}}"))
	o = probe(t, "gone create", pr{ps: list(co, nn), object: `{metadata: {name: x, labels: {y: y}}}`, show: []string{at + "cpu"}})
	old, sent = edit(t, o, func(m map[string]any) { m["metadata"].(map[string]any)["labels"] = map[string]any{"z": "z"} })
	probe(t, "cluster override no longer matches, ns does", pr{ps: list(co, nn), object: sent, old: old, show: []string{at + "cpu"}})
}

func TestProbeC(t *testing.T) {
	// named preset deleted
	gpu := cluster("gpu", "match: {explicit: true}\n"+defaults("{devices: {rng: {}}}"))
	o := probe(t, "gpu create", pr{ps: list(gpu), object: `{metadata: {name: x, annotations: {virtwright.dev/presets: cluster/gpu}}}`, show: []string{at + "devices"}})
	old, sent := edit(t, o, func(m map[string]any) { in(m, at+"devices")["tpm"] = map[string]any{} })
	probe(t, "named preset deleted, spec update", pr{ps: list(), object: sent, old: old, show: []string{at + "devices"}})
	probe(t, "named preset deleted, VMI launch", pr{kind: presets.VirtualMachineInstance, ps: list(), owner: old, object: `{metadata: {name: x}, spec: {domain: {devices: {rng: {}}}}}`, show: []string{"spec.domain"}})
	// exclude [*]
	ds := cluster("a", defaults("{devices: {disks: [{name: root, cache: none}]}}"))
	probe(t, "exclude [*]", pr{ps: list(ds), object: `{metadata: {name: x, annotations: {virtwright.dev/exclude: "cluster/a:spec.template.spec.domain.devices.disks[*].cache"}}, spec: {template: {spec: {domain: {devices: {disks: [{name: root}]}}, volumes: [{name: root, emptyDisk: {capacity: 1Gi}}]}}}}`, show: []string{at + "devices.disks"}})
	probe(t, "exclude typo", pr{ps: list(ds), object: `{metadata: {name: x, annotations: {virtwright.dev/exclude: "clutser/a"}}, spec: {template: {spec: {domain: {devices: {disks: [{name: root}]}}, volumes: [{name: root, emptyDisk: {capacity: 1Gi}}]}}}}`, show: []string{at + "devices.disks"}})
	// platform half pair
	probe(t, "platform: interfaces[default] removed", pr{e: plat, ps: list(cluster("a", `remove: ["spec.template.spec.domain.devices.interfaces[default]"]`)), object: vm(""), show: []string{at + "devices.interfaces", "spec.template.spec.networks"}})
	probe(t, "platform: networks removed", pr{e: plat, ps: list(cluster("a", `remove: ["spec.template.spec.networks"]`)), object: vm(""), show: []string{at + "devices.interfaces", "spec.template.spec.networks"}})
	probe(t, "platform: standalone with preset setting instancetype", pr{e: plat, ps: list(cluster("a", `defaults: {spec: {instancetype: {name: u1}}}`)), object: vm(""), show: []string{"spec.instancetype", at + "cpu"}})
	probe(t, "instancetype by preset + cpu by preset", pr{ps: list(cluster("a", `defaults: {spec: {instancetype: {name: u1}}}`), cluster("b", defaults("{cpu: {cores: 2}}"))), object: vm(""), show: []string{"spec.instancetype", at + "cpu"}})
	// platform dup names
	probe(t, "dup inputs", pr{e: plat, object: domain("{devices: {inputs: [{name: a}, {name: a}]}}"), show: []string{at + "devices.inputs"}})
	probe(t, "dup volumes", pr{e: plat, object: vm("spec: {template: {spec: {volumes: [{name: a, emptyDisk: {}}, {name: a, emptyDisk: {}}], domain: {devices: {disks: [{name: q}]}}}}}"), show: []string{at + "devices.disks"}})
	dn := probe(t, "empty name disk", pr{e: plat, object: domain("{devices: {disks: [{name: \"\"}]}}"), show: []string{at + "devices.disks"}})
	probe(t, "empty name disk second pass", pr{e: plat, object: string(marshal(t, dn)), show: []string{at + "devices.disks"}})
	probe(t, "dup toleration remove", pr{ps: list(cluster("a", `remove: ["spec.template.spec.tolerations[gpu,Exists,,NoSchedule]"]`)), object: vm("spec: {template: {spec: {tolerations: [{key: gpu, operator: Exists, effect: NoSchedule}, {key: gpu, operator: Exists, effect: NoSchedule}]}}}"), show: []string{"spec.template.spec.tolerations"}})
	probe(t, "dup feature override", pr{ps: list(cluster("a", overrides("{cpu: {features: [{name: vmx, policy: disable}]}}"))), object: domain("{cpu: {features: [{name: vmx, policy: disable}, {name: vmx, policy: require}]}}"), show: []string{at + "cpu.features"}})
	probe(t, "wrong type in platform element", pr{e: plat, object: vm("spec: {template: {spec: {volumes: [{name: a, containerDisk: x}, {name: b, containerDisk: y}]}}}")})
	// preview vs platform
	probe(t, "warn forbid on platform default", pr{e: plat, ps: list(cluster("a", "mode: Warn\nforbid: [{path: 'spec.template.spec.domain.devices.interfaces[*].bridge'}]")), object: vm(""), show: []string{}})
	// preview on reapply
	en := cluster("en", defaults("{cpu: {cores: 4}}"))
	wa := cluster("wa", "mode: Warn\npriority: 9\n"+defaults("{cpu: {cores: 8}}"))
	o = probe(t, "warn create", pr{ps: list(en, wa), object: vm(""), show: []string{at + "cpu"}})
	old, sent = edit(t, o, func(m map[string]any) { in(m, "metadata.annotations")[v1alpha1.AnnotationReapply] = "1" })
	probe(t, "warn reapply", pr{ps: list(en, wa), object: sent, old: old, show: []string{at + "cpu"}})
	old, sent = edit(t, o, func(m map[string]any) { in(m, at+"devices"); m["spec"].(map[string]any)["runStrategy"] = "Always"; m["metadata"].(map[string]any)["labels"] = map[string]any{"k": "v"} })
	probe(t, "warn: update never previews", pr{ps: list(en, cluster("wf", "mode: Warn\nmatch: {labels: {matchLabels: {k: v}}}\nforbid: [{path: spec.template.spec.domain.cpu}]")), object: sent, old: old, show: []string{}})
	// false conflict
	probe(t, "false conflict", pr{e: presets.Engine{RejectConflicts: true}, ps: list(cluster("a", defaults("{devices: {disks: [{name: root, cdrom: {bus: sata}}]}}")), cluster("b", defaults("{devices: {disks: [{name: root, disk: {bus: virtio}}]}}"))), object: vm("spec: {template: {spec: {domain: {devices: {disks: [{name: root, cdrom: {}}]}}, volumes: [{name: root, emptyDisk: {}}]}}}"), show: []string{at + "devices.disks"}})
	// launch same value
	la := cluster("la", "applyAt: Launch\n"+defaults("{cpu: {cores: 4}, memory: {guest: 1024Mi}}"))
	ow := probe(t, "owner", pr{ps: list(cluster("en", defaults("{cpu: {cores: 4}, memory: {guest: 1Gi}}"))), object: vm(""), show: []string{}})
	vmi := `{metadata: {name: x}, spec: {domain: {cpu: {cores: 4}, memory: {guest: 1Gi}}}}`
	vo := probe(t, "launch same value", pr{kind: presets.VirtualMachineInstance, ps: list(la), owner: string(marshal(t, ow)), object: vmi})
	probe(t, "launch second pass", pr{kind: presets.VirtualMachineInstance, ps: list(la), owner: string(marshal(t, ow)), object: string(marshal(t, vo))})
	// rival removed but nothing put
	ow = probe(t, "owner efi", pr{ps: list(cluster("efi", defaults("{firmware: {bootloader: {efi: {secureBoot: false}}}}"))), object: vm(""), show: []string{}})
	probe(t, "launch bios default removed by cluster", pr{kind: presets.VirtualMachineInstance, owner: string(marshal(t, ow)), ps: list(
		cluster("nobios", "applyAt: Launch\nremove: [spec.template.spec.domain.firmware.bootloader.bios]"),
		cluster("bios", "applyAt: Launch\n"+defaults("{firmware: {bootloader: {bios: {useSerial: true}}}}"))),
		object: `{metadata: {name: x}, spec: {domain: {firmware: {bootloader: {efi: {secureBoot: false}}}}}}`, show: []string{"spec.domain.firmware"}})
	// indexElements panic
	oo := probe(t, "owner cores", pr{ps: list(cluster("c", defaults("{cpu: {cores: 2}}"))), object: vm(""), show: []string{}})
	old, sent = edit(t, oo, func(m map[string]any) { in(m, strings.TrimSuffix(at, "."))["cpu"] = []any{map[string]any{}}; label("z", "z")(m) })
	probe(t, "update wrong type + relabel", pr{ps: list(cluster("c", defaults("{cpu: {cores: 2}}")), cluster("l", "match: {labels: {matchLabels: {z: z}}}\n"+defaults("{devices: {rng: {}}}"))), object: sent, old: old, show: []string{at + "cpu"}})
	probe(t, "vmi wrong type + owner", pr{kind: presets.VirtualMachineInstance, owner: string(marshal(t, oo)), ps: list(), object: `{metadata: {name: x}, spec: {domain: {cpu: [{}]}}}`, show: []string{"spec"}})
	probe(t, "provenance not a string", pr{ps: list(), object: `{metadata: {name: x, annotations: {virtwright.dev/provenance: {a: b}}}}`})
	probe(t, "reapply as maps", pr{ps: list(), object: `{metadata: {name: x, annotations: {virtwright.dev/reapply: {a: b}}}}`, old: `{metadata: {name: x, annotations: {virtwright.dev/reapply: {a: b}}}}`})
}

func TestProbeD(t *testing.T) {
	for _, n := range []int{5000, 10000, 20000} {
		var b strings.Builder
		b.WriteString(`{"metadata":{"name":"x"},"spec":{"template":{"spec":{"domain":{"devices":{"inputs":[`)
		for i := range n {
			if i > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, `{"name":"%06d"}`, i)
		}
		b.WriteString(`]}}}}}}`)
		start := time.Now()
		_, err := plat.Resolve(t.Context(), presettest.Snapshot(t), presets.Request{Kind: presets.VirtualMachine, Object: []byte(b.String()), Namespace: presets.Namespace{Name: "lab"}})
		fmt.Println("== inputs", n, b.Len(), "bytes", time.Since(start), fmt.Sprint(err)[:min(60, len(fmt.Sprint(err)))])
	}
}
