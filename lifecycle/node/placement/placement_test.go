package placement

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

func TestAgainst(t *testing.T) {
	for name, row := range map[string]struct {
		node string // metadata and spec of a node named node-1, labelled zone=a, size=4
		spec string
		want string
	}{
		"nothing said":               {"", "", ""},
		"its label":                  {"", "nodeSelector: {zone: a}", ""},
		"another label":              {"", "nodeSelector: {zone: b}", "nodeSelector"},
		"one label of two":           {"", "nodeSelector: {zone: a, disk: ssd}", "nodeSelector"},
		"its architecture":           {"", "architecture: amd64", ""},
		"another architecture":       {"", "architecture: arm64", "spec.architecture is arm64"},
		"the usual scheduler":        {"", "schedulerName: default-scheduler", ""},
		"somebody's scheduler":       {"", "schedulerName: mine", `leaves it to "mine"`},
		"cordoned":                   {"unschedulable: true", "", "cordoned"},
		"affinity, in":               {"", affinity("{key: zone, operator: In, values: [b, a]}"), ""},
		"affinity, not in":           {"", affinity("{key: zone, operator: NotIn, values: [a]}"), "nodeAffinity"},
		"affinity, exists":           {"", affinity("{key: zone, operator: Exists}"), ""},
		"affinity, does not exist":   {"", affinity("{key: disk, operator: DoesNotExist}"), ""},
		"affinity, greater":          {"", affinity("{key: size, operator: Gt, values: ['3']}"), ""},
		"affinity, less":             {"", affinity("{key: size, operator: Lt, values: ['4']}"), "nodeAffinity"},
		"affinity, both":             {"", affinity("{key: zone, operator: Exists}, {key: disk, operator: Exists}"), "nodeAffinity"},
		"affinity, not understood":   {"", affinity("{key: zone, operator: Near}"), "nodeAffinity"},
		"affinity, one of two terms": {"", required("{matchExpressions: [{key: disk, operator: Exists}]}, {matchExpressions: [{key: zone, operator: Exists}]}"), ""},
		"affinity, an empty term":    {"", required("{}"), "nodeAffinity"},
		"affinity, by name":          {"", required("{matchFields: [{key: metadata.name, operator: In, values: [node-1]}]}"), ""},
		"affinity, by another name":  {"", required("{matchFields: [{key: metadata.name, operator: In, values: [node-2]}]}"), "nodeAffinity"},
		"affinity, preferred alone":  {"", "affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: {matchExpressions: [{key: disk, operator: Exists}]}}]}}", ""},
		"affinity to pods":           {"", "affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: zone}]}}", "podAffinity"},
		"affinity against pods":      {"", "affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: zone}]}}", "podAntiAffinity"},
		"preferred against pods":     {"", "affinity: {podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, podAffinityTerm: {topologyKey: zone}}]}}", ""},
		"spread":                     {"", "topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]", "topologySpreadConstraints[0]"},
		"spread, if it can be":       {"", "topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]", ""},
		"taint":                      {"taints: [{key: lab, value: x, effect: NoSchedule}]", "", "lab=x:NoSchedule"},
		"taint that only advises":    {"taints: [{key: lab, effect: PreferNoSchedule}]", "", ""},
		"taint, tolerated":           {"taints: [{key: lab, value: x, effect: NoSchedule}]", "tolerations: [{key: lab, value: x}]", ""},
		"taint, another value":       {"taints: [{key: lab, value: x, effect: NoSchedule}]", "tolerations: [{key: lab, value: 'y', operator: Equal}]", "tolerations"},
		"taint, any value":           {"taints: [{key: lab, value: x, effect: NoExecute}]", "tolerations: [{key: lab, operator: Exists}]", ""},
		"taint, another effect":      {"taints: [{key: lab, effect: NoExecute}]", "tolerations: [{key: lab, operator: Exists, effect: NoSchedule}]", "tolerations"},
		"taints, everything is fine": {"taints: [{key: lab, effect: NoExecute}, {key: gpu, effect: NoSchedule}]", "tolerations: [{operator: Exists}]", ""},
		"taints, one of two":         {"taints: [{key: lab, effect: NoExecute}, {key: gpu, effect: NoSchedule}]", "tolerations: [{key: lab, operator: Exists}]", "gpu"},
		"a toleration of nothing":    {"taints: [{key: lab, effect: NoSchedule}]", "tolerations: [{}]", "tolerations"},
	} {
		t.Run(name, func(t *testing.T) {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1", Labels: map[string]string{"zone": "a", "size": "4", corev1.LabelArchStable: "amd64"}}}
			vmi := &kubevirtv1.VirtualMachineInstance{}
			for text, into := range map[string]any{row.node: &node.Spec, row.spec: &vmi.Spec} {
				if err := yaml.UnmarshalStrict([]byte(text), into); err != nil && text != "" {
					t.Fatal(err)
				}
			}
			got := Against(node, vmi)
			if (got == "") != (row.want == "") || !strings.Contains(got, row.want) {
				t.Errorf("got %q, want %q in it", got, row.want)
			}
		})
	}
}

func affinity(expressions string) string {
	return required("{matchExpressions: [" + expressions + "]}")
}

func required(terms string) string {
	return "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [" + terms + "]}}}"
}
