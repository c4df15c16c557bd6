package presets_test

import "testing"

func TestUniqueElements(t *testing.T) {
	podNetwork := cluster("pod", `defaults: {spec: {template: {spec: {networks: [{name: default, pod: {}}], domain: {devices: {interfaces: [{name: default, masquerade: {}}]}}}}}}`)
	network := func(source string) string {
		return vm("spec: {template: {spec: {networks: [{name: mine, " + source + "}], domain: {devices: {interfaces: [{name: mine, bridge: {}}]}}}}}")
	}
	for name, c := range map[string]resolveCase{
		"PodNetworkOfTheAuthor": {
			reason: "a default pod network is skipped if the author has one, with its interface", presets: list(podNetwork), object: network("pod: {}"),
			want: map[string]string{"spec.template.spec.networks": `[{"name":"mine","pod":{}}]`, at + "devices.interfaces": `[{"bridge":{},"name":"mine"}]`},
			warn: []string{"preset cluster/pod skipped fields, because the VM already has a default network"},
		},
		"MultusDefault": {
			reason: "it is skipped if a Multus network is the default one", presets: list(podNetwork), object: network("multus: {networkName: a, default: true}"),
			want: map[string]string{at + "devices.interfaces": `[{"bridge":{},"name":"mine"}]`},
		},
		"OtherNetwork": {
			reason: "another network is not a second default one", presets: list(podNetwork), object: network("multus: {networkName: a}"),
			want: map[string]string{at + "devices.interfaces": `[{"bridge":{},"name":"mine"},{"masquerade":{},"name":"default"}]`},
		},
		"TwoPresets": {
			reason: "the preset of higher precedence gives it", object: vm(""), presets: list(podNetwork, cluster("strong",
				`{priority: 5, defaults: {spec: {template: {spec: {networks: [{name: net, pod: {}}], domain: {devices: {interfaces: [{name: net, bridge: {}}]}}}}}}}`)),
			want: map[string]string{"spec.template.spec.networks": `[{"name":"net","pod":{}}]`, at + "devices.interfaces": `[{"bridge":{},"name":"net"}]`},
		},
		"ServiceAccount": {
			reason:  "a VM has one service account volume",
			presets: list(cluster("sa", `defaults: {spec: {template: {spec: {volumes: [{name: sa, serviceAccount: {serviceAccountName: b}}]}}}}`)),
			object:  vm("spec: {template: {spec: {volumes: [{name: mine, serviceAccount: {serviceAccountName: a}}]}}}"),
			want:    map[string]string{"spec.template.spec.volumes": `[{"name":"mine","serviceAccount":{"serviceAccountName":"a"}}]`},
		},
		"OverrideIsNotHeldBack": {
			reason:  "an override acts, and validation rejects what KubeVirt would",
			presets: list(cluster("sa", `overrides: {spec: {template: {spec: {volumes: [{name: sa, downwardMetrics: {}}]}}}}`)),
			object:  vm("spec: {template: {spec: {volumes: [{name: mine, downwardMetrics: {}}]}}}"),
			want:    map[string]string{"spec.template.spec.volumes": `[{"downwardMetrics":{},"name":"mine"},{"downwardMetrics":{},"name":"sa"}]`},
		},
	} {
		t.Run(name, func(t *testing.T) { c.run(t) })
	}
}
