package presets_test

import (
	"strings"
	"testing"
)

// Updates never remove or change storage that a preset added, even with other fields in it.
func TestStorageStays(t *testing.T) {
	big := cluster("big", `match: {labels: {matchLabels: {size: big}}}
defaults:
  spec:
    dataVolumeTemplates: [{metadata: {name: d}, spec: {source: {blank: {}}, storage: {resources: {requests: {storage: 1Gi}}}}}]
    template: {spec: {volumes: [{name: data, dataVolume: {name: d}}], domain: {devices: {disks: [{name: data, disk: {bus: virtio}, serial: s}]}}}}`)
	small := cluster("small", `match: {labels: {matchLabels: {size: small}}}
defaults: {spec: {template: {spec: {volumes: [{name: data, persistentVolumeClaim: {claimName: other}}], domain: {devices: {disks: [{name: data, disk: {bus: sata}}]}}}}}}`)
	create := `{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: x, labels: {size: big}}}`
	whole := map[string]string{
		"spec.dataVolumeTemplates":   `[{"metadata":{"name":"d"},"spec":{"source":{"blank":{}},"storage":{"resources":{"requests":{"storage":"1Gi"}}}}}]`,
		"spec.template.spec.volumes": `[{"dataVolume":{"name":"d"},"name":"data"}]`,
		at + "devices.disks":         `[{"disk":{"bus":"virtio"},"name":"data","serial":"s"}]`,
	}
	unlabel := func(vm map[string]any) { delete(in(vm, "metadata.labels"), "size") }
	for name, c := range map[string]updateCase{
		"Unlabelled": {reason: "the label goes", edit: unlabel, want: whole, warn: []string{"volumes[data] stays, because updates never remove storage"}},
		"Relabelled": {reason: "another preset gives the same volume", edit: label("size", "small"), want: whole},
		"TimeStamp": {
			reason: "the API server's creationTimestamp does not matter", want: map[string]string{"spec.template.spec.volumes": whole["spec.template.spec.volumes"], "spec.dataVolumeTemplates": `[{"metadata":{"creationTimestamp":"x","name":"d"},"spec":{"source":{"blank":{}},"storage":{"resources":{"requests":{"storage":"1Gi"}}}}}]`},
			edit: func(vm map[string]any) {
				vm["spec"].(map[string]any)["dataVolumeTemplates"].([]any)[0].(map[string]any)["metadata"].(map[string]any)["creationTimestamp"] = "x"
				unlabel(vm)
			},
		},
		"AuthorsLeaf": {
			reason: "the author's own fields neither", want: map[string]string{at + "devices.disks": `[{"bootOrder":1,"disk":{"bus":"virtio"},"name":"data","serial":"s"}]`},
			edit: func(vm map[string]any) {
				in(vm, at+"devices.disks[data]")["bootOrder"] = 1
				unlabel(vm)
			},
		},
		"AuthorsLeafBefore": {
			reason: "also when they were written before", want: map[string]string{at + "devices.disks": `[{"bootOrder":1,"disk":{"bus":"virtio"},"name":"data","serial":"s"}]`},
			before: func(vm map[string]any) { in(vm, at+"devices.disks[data]")["bootOrder"] = 1 }, edit: unlabel,
		},
		"AuthorsVolume": {
			reason: "the author may replace it, and no template stays unused",
			want:   map[string]string{"spec.template.spec.volumes": `[{"emptyDisk":{"capacity":"1Gi"},"name":"data"}]`, "spec.dataVolumeTemplates": ""},
			edit: func(vm map[string]any) {
				in(vm, "spec.template.spec")["volumes"] = []any{map[string]any{"name": "data", "emptyDisk": map[string]any{"capacity": "1Gi"}}}
			},
		},
		"AuthorsTemplate": {
			reason: "the author may replace it by a DataVolume of his own", edit: func(vm map[string]any) {
				in(vm, "spec")["dataVolumeTemplates"] = []any{template("mine")}
				in(vm, "spec.template.spec")["volumes"] = []any{map[string]any{"name": "data", "dataVolume": map[string]any{"name": "mine"}}}
			},
			want: map[string]string{
				"spec.template.spec.volumes": `[{"dataVolume":{"name":"mine"},"name":"data"}]`,
				"spec.dataVolumeTemplates":   `[{"metadata":{"name":"mine"},"spec":{"source":{"blank":{}}}}]`,
			},
		},
		"AuthorsTemplateBeside": {
			reason: "a template that is still used stays", edit: func(vm map[string]any) {
				in(vm, "spec")["dataVolumeTemplates"] = append(vm["spec"].(map[string]any)["dataVolumeTemplates"].([]any), template("mine"))
				in(vm, "spec.template.spec")["volumes"] = append(in(vm, "spec.template.spec")["volumes"].([]any), map[string]any{"name": "more", "dataVolume": map[string]any{"name": "mine"}})
			},
			want: map[string]string{"spec.template.spec.volumes": `[{"dataVolume":{"name":"d"},"name":"data"},{"dataVolume":{"name":"mine"},"name":"more"}]`,
				"spec.dataVolumeTemplates": strings.TrimSuffix(whole["spec.dataVolumeTemplates"], "]") + `,{"metadata":{"name":"mine"},"spec":{"source":{"blank":{}}}}]`},
		},
	} {
		c.presets, c.create = list(big, small), create
		t.Run(name, func(t *testing.T) { c.run(t) })
	}
}

// template is a dataVolumeTemplate in JSON.
func template(name string) map[string]any {
	return map[string]any{"metadata": map[string]any{"name": name}, "spec": map[string]any{"source": map[string]any{"blank": map[string]any{}}}}
}
