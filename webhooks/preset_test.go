package webhooks

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"

	"github.com/virtwright/virtwright/api/v1alpha1"
)

func TestPreset(t *testing.T) {
	cases := map[string]struct {
		reason, object string
		code           int32 // 0: allowed
		causes         []string
		message        string
	}{
		"Good":  {"a preset that can be right", `{metadata: {name: p}, spec: {defaults: {spec: {runStrategy: Always}}}}`, 0, nil, ""},
		"Empty": {"one that does nothing", `{metadata: {name: p}}`, 0, nil, ""},
		"UnknownField": {"the nearest field is named",
			`{metadata: {name: p}, spec: {defaults: {spec: {template: {spec: {domain: {memroy: {guest: 1Gi}}}}}}}}`,
			http.StatusUnprocessableEntity, []string{"spec.defaults.spec.template.spec.domain.memroy"}, "memory"},
		"UnknownPresetField": {"of the preset itself, too",
			`{metadata: {name: p}, spec: {defaultz: {}}}`,
			http.StatusUnprocessableEntity, []string{"spec.defaultz"}, `unknown field; did you mean "defaults"?`},
		"UnknownFarField": {"a name that is near none gets the list",
			`{metadata: {name: p}, spec: {everything: {}}}`,
			http.StatusUnprocessableEntity, []string{"spec.everything"}, "unknown field; spec has applyAt, defaults, forbid"},
		"SelectorOfMatch": {"labels are one level deeper",
			`{metadata: {name: p}, spec: {match: {matchLabel: {a: b}}}}`,
			http.StatusUnprocessableEntity, []string{"spec.match.matchLabel"}, "did you mean labels.matchLabels?"},
		"ModeOff": {"YAML reads Off as a boolean",
			`{metadata: {name: p}, spec: {mode: false}}`,
			http.StatusUnprocessableEntity, []string{"spec.mode"}, `write mode: "Off"`},
		"UnknownMatchField": {"or of match",
			`{metadata: {name: p}, spec: {match: {label: {}}}}`,
			http.StatusUnprocessableEntity, []string{"spec.match.label"}, `did you mean "labels"?`},
		"Nulls": {"null means neither absent nor empty",
			`{metadata: {name: p}, spec: {overrides: null, defaults: null}}`,
			http.StatusUnprocessableEntity, []string{"spec.defaults", "spec.overrides"}, "use remove"},
		"Several": {"every problem at once",
			`{metadata: {name: p}, spec: {defaults: null, priority: 2000000, remove: [spec.nowhere], match: {labels: {matchLabels: {"a b": c}}}}}`,
			http.StatusUnprocessableEntity, []string{"spec.defaults", "spec.priority", "spec.match.labels.matchLabels", "spec.remove[0]"}, ""},
		"WrongType": {"what no Go type takes", `{metadata: {name: p}, spec: 7}`, http.StatusUnprocessableEntity, []string{"spec"}, "must be an object, not number"},
		"Large": {"etcd would say something about a request",
			`{metadata: {name: p}, spec: {defaults: {metadata: {annotations: {a: "` + strings.Repeat("x", 2<<20) + `"}}}}}`,
			http.StatusUnprocessableEntity, []string{"spec"}, "at most 1024 KiB, this one is 2048 KiB"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			handler := Preset{Kind: v1alpha1.KindVirtualMachinePreset}
			resp := handler.Handle(t.Context(), creates(handler.Kind, "lab", tc.object))
			if tc.code == 0 {
				if !resp.Allowed {
					t.Errorf("%s: got %+v", tc.reason, resp.Result)
				}
				return
			}
			if resp.Allowed || resp.Result.Code != tc.code || !strings.Contains(resp.Result.Message, tc.message) {
				t.Errorf("%s: got %+v", tc.reason, resp.Result)
			}
			if diff := cmp.Diff(tc.causes, causes(resp)); diff != "" {
				t.Errorf("%s: causes (-want +got):\n%s\n%s", tc.reason, diff, resp.Result.Message)
			}
		})
	}
}

func TestPresetRatchets(t *testing.T) {
	const bad = `{metadata: {name: p}, spec: {remove: [spec.nowhere], priority: 1}}`
	const labelled = `{metadata: {name: p, labels: {a: b}}, spec: {priority: 1, remove: [spec.nowhere]}}`
	const worse = `{metadata: {name: p}, spec: {remove: [spec.nowhere], priority: 2}}`
	handler := Preset{Kind: v1alpha1.KindClusterVirtualMachinePreset}
	if resp := handler.Handle(t.Context(), updates(handler.Kind, "", bad, labelled)); !resp.Allowed {
		t.Errorf("an update that leaves spec alone must pass, got %+v", resp.Result)
	}
	if resp := handler.Handle(t.Context(), updates(handler.Kind, "", bad, worse)); resp.Allowed {
		t.Error("an update of a spec must leave it right")
	}
	if resp := handler.Handle(t.Context(), updates(handler.Kind, "", bad, `{metadata: {name: p}}`)); !resp.Allowed {
		t.Errorf("a repair must pass, got %+v", resp.Result)
	}
}

func TestPresetWarnsOfItsDeletion(t *testing.T) {
	for name, tc := range map[string]struct {
		object string
		want   []string
	}{
		"InUse":      {`{metadata: {name: p}, status: {matched: 12}}`, []string{"preset cluster/p is in use: 12 VMs keep its values, but new VMs do not get them"}},
		"Once":       {`{metadata: {name: p}, status: {matched: 1}}`, []string{"preset cluster/p is in use: 1 VM keeps its values, but new VMs do not get them"}},
		"NotInUse":   {`{metadata: {name: p}, status: {matched: 0}}`, nil},
		"NotCounted": {`{metadata: {name: p}}`, nil},
		"Audit":      {`{metadata: {name: p}, spec: {mode: Audit}, status: {matched: 12}}`, nil},
		"Unreadable": {`{metadata: {name: p}, spec: 7}`, nil},
	} {
		handler := Preset{Kind: v1alpha1.KindClusterVirtualMachinePreset}
		req := updates(handler.Kind, "", tc.object, "{}")
		req.Operation, req.Object.Raw = admissionv1.Delete, nil
		resp := handler.Handle(t.Context(), req)
		if diff := cmp.Diff(tc.want, resp.Warnings); diff != "" || !resp.Allowed {
			t.Errorf("%s: allowed %t (-want +got):\n%s", name, resp.Allowed, diff)
		}
	}
}

func TestPresetScopes(t *testing.T) {
	const object = `{metadata: {name: p}, spec: {match: {namespaces: {matchLabels: {a: b}}}}}`
	if resp := (Preset{Kind: v1alpha1.KindClusterVirtualMachinePreset}).Handle(t.Context(), creates(v1alpha1.KindClusterVirtualMachinePreset, "", object)); !resp.Allowed {
		t.Errorf("a cluster preset may choose namespaces, got %+v", resp.Result)
	}
	namespaced := `{metadata: {name: p, namespace: lab}, spec: {match: {namespaces: {matchLabels: {a: b}}}}}`
	if resp := (Preset{Kind: v1alpha1.KindVirtualMachinePreset}).Handle(t.Context(), creates(v1alpha1.KindVirtualMachinePreset, "lab", namespaced)); resp.Allowed {
		t.Error("a namespaced preset may not")
	}
}
