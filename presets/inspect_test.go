package presets_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/test/presettest"
)

// TestInspect checks which presets would act on a stored VM, and which ones it violates.
func TestInspect(t *testing.T) {
	snapshot := presettest.Snapshot(t,
		presettest.Cluster("size", `{defaults: {spec: {template: {spec: {domain: {memory: {guest: 2Gi}}}}}}}`),
		presettest.Cluster("audit-size", `{mode: Audit, priority: 9, defaults: {spec: {template: {spec: {domain: {memory: {guest: 4Gi}}}}}}}`),
		presettest.Cluster("warn-class", `{mode: Warn, overrides: {spec: {template: {spec: {priorityClassName: vms}}}}}`),
		presettest.Cluster("audit-weak", `{mode: Audit, priority: -9, defaults: {spec: {template: {spec: {domain: {memory: {guest: 8Gi}}}}}}}`),
		presettest.Cluster("no-names", `{forbid: [{path: spec.template.spec.hostname}]}`),
		presettest.Cluster("audit-no-nodes", `{mode: Audit, forbid: [{path: spec.template.spec.nodeSelector}]}`),
		presettest.Cluster("elsewhere", `{mode: Audit, match: {labels: {matchLabels: {a: b}}}, overrides: {spec: {template: {spec: {priorityClassName: vms}}}}}`),
	)
	engine := &presets.Engine{}
	inspect := func(object string) map[string]string {
		t.Helper()
		seen, err := engine.Inspect(t.Context(), snapshot, presets.Request{Kind: presets.VirtualMachine, Object: presettest.JSON(object), Namespace: presets.Namespace{Name: "shop"}})
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]string{}
		for _, i := range seen {
			out[i.Preset.Ref] = map[bool]string{true: "acts"}[i.WouldAct] + map[bool]string{true: "breaks"}[len(i.Violations) > 0]
		}
		return out
	}
	const vm = `{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: x`
	record := `annotations: {` + v1alpha1.AnnotationProvenance + `: '{"v":1,"by":["cluster/size@1:default"],"set":{"spec":{"template":{"spec":{"domain":{"memory":{"guest":0}}}}}}}'}`
	for name, tc := range map[string]struct {
		object string
		want   map[string]string
	}{
		"TheAuthorsValue":  {vm + `}, spec: {template: {spec: {priorityClassName: mine, domain: {memory: {guest: 2Gi}}}}}}`, map[string]string{"cluster/warn-class": "acts"}},
		"ThePresetsValue":  {vm + `, ` + record + `}, spec: {template: {spec: {priorityClassName: vms, domain: {memory: {guest: 2Gi}}}}}}`, map[string]string{"cluster/audit-size": "acts"}},
		"Broken":           {vm + `}, spec: {template: {spec: {hostname: a, priorityClassName: vms, domain: {memory: {guest: 2Gi}}}}}}`, map[string]string{"cluster/no-names": "breaks"}},
		"WouldBeRejected":  {vm + `}, spec: {template: {spec: {nodeSelector: {a: b}, priorityClassName: vms, domain: {memory: {guest: 2Gi}}}}}}`, map[string]string{"cluster/audit-no-nodes": "actsbreaks"}},
		"NothingToInspect": {vm + `}, spec: {template: {spec: {priorityClassName: vms, domain: {memory: {guest: 2Gi}}}}}}`, map[string]string{}},
	} {
		if diff := cmp.Diff(tc.want, inspect(tc.object)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
