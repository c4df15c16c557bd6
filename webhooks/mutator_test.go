package webhooks

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/virtwright/virtwright/presets"
)

const smallVM = `{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: web, labels: {vm-size: small}}}`

func TestVirtualMachineCreate(t *testing.T) {
	req := creates("VirtualMachine", "lab", smallVM)
	resp := machines(t, presets.VirtualMachine).Handle(t.Context(), req)
	if !resp.Allowed {
		t.Fatal(resp.Result)
	}
	if got := patched(t, req, resp, "spec", "template", "spec", "domain", "cpu", "cores"); got != 2. {
		t.Errorf("want 2 cores of cluster/small, got %v", got)
	}
	if got := patched(t, req, resp, "spec", "runStrategy"); got != "Halted" {
		t.Errorf("want the run strategy of halted, got %v", got)
	}
	if len(resp.Warnings) != 0 || len(resp.AuditAnnotations) == 0 {
		t.Errorf("want no warnings, and audit annotations, got %q and %q", resp.Warnings, resp.AuditAnnotations)
	}
	if err := resp.encode(req.UID); err != nil || *resp.PatchType != admissionv1.PatchTypeJSONPatch {
		t.Errorf("want a JSON patch, got %v, %v", resp.PatchType, err)
	}
}

func TestUpdates(t *testing.T) {
	const stored = `{metadata: {name: web}, spec: {runStrategy: Halted, template: {spec: {domain: {}}}}}`
	const labelled = `{metadata: {name: web, labels: {vm-size: small}}, spec: {runStrategy: Halted, template: {spec: {domain: {}}}}}`
	m := machines(t, presets.VirtualMachine)
	if resp := m.Handle(t.Context(), updates("VirtualMachine", "shop", stored, labelled)); len(resp.Patches) == 0 {
		t.Error("an author's new label must let its preset act")
	}
	req := updates("VirtualMachine", "shop", stored, labelled)
	req.UserInfo.Username = controller
	if resp := m.Handle(t.Context(), req); len(resp.Patches) == 0 {
		t.Error("a controller copies an author's label, so its preset must act")
	}
	req.UserInfo.Username = manager
	if resp := m.Handle(t.Context(), req); !resp.Allowed || len(resp.Patches) > 0 {
		t.Error("a trusted writer's update must be left alone")
	}
	req.Operation = admissionv1.Delete
	if resp := m.Handle(t.Context(), req); !resp.Allowed || len(resp.Patches) > 0 {
		t.Error("other operations must be left alone")
	}
}

func TestTrustedWritersCreateLikeOthers(t *testing.T) {
	req := creates("VirtualMachineInstance", "shop", `{metadata: {name: web}, spec: {domain: {}}}`)
	req.UserInfo.Username = controller
	resp := machines(t, presets.VirtualMachineInstance).Handle(t.Context(), req)
	if got := patched(t, req, resp, "spec", "nodeSelector", "pool"); got != "vms" {
		t.Errorf("want placement at launch, got %v", got)
	}
}

func TestOwner(t *testing.T) {
	instance := func(ref string) string {
		return `{metadata: {name: web, ownerReferences: [` + ref + `]}, spec: {domain: {}}}`
	}
	cases := map[string]struct {
		reason, ref string
		// definition says whether cluster/small, which the owner's label selects, acts.
		owned bool
	}{
		"Controller":     {"the controlling VM counts", `{apiVersion: kubevirt.io/v1, kind: VirtualMachine, name: web, uid: u1, controller: true}`, true},
		"OlderVersion":   {"any version of the group", `{apiVersion: kubevirt.io/v1alpha3, kind: VirtualMachine, name: web, uid: u1, controller: true}`, true},
		"OtherUID":       {"a VM of the same name is another one", `{apiVersion: kubevirt.io/v1, kind: VirtualMachine, name: web, uid: u2, controller: true}`, false},
		"NoController":   {"an owner need not control", `{apiVersion: kubevirt.io/v1, kind: VirtualMachine, name: web, uid: u1}`, false},
		"NotController":  {"or says that it does not", `{apiVersion: kubevirt.io/v1, kind: VirtualMachine, name: web, uid: u1, controller: false}`, false},
		"OtherKind":      {"a replica set is no VM", `{apiVersion: kubevirt.io/v1, kind: VirtualMachineInstanceReplicaSet, name: web, uid: u1, controller: true}`, false},
		"OtherGroup":     {"nor is one of another group", `{apiVersion: example.com/v1, kind: VirtualMachine, name: web, uid: u1, controller: true}`, false},
		"MalformedGroup": {"nor one of a group that cannot be", `{apiVersion: a/b/c, kind: VirtualMachine, name: web, uid: u1, controller: true}`, false},
		"None":           {"there may be none", ``, false},
	}
	m := machines(t, presets.VirtualMachineInstance)
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := m.request(t.Context(), creates("VirtualMachineInstance", "shop", instance(tc.ref)))
			if err != nil {
				t.Fatal(err)
			}
			if (len(got.Owner) > 0) != tc.owned {
				t.Errorf("%s: got owner %q", tc.reason, got.Owner)
			}
		})
	}
}

func TestRejections(t *testing.T) {
	cases := map[string]struct {
		reason, object string
		code           int32
		causes         []string
		message        string
	}{
		"Forbidden": {"a forbid rule rejects with its message",
			`{metadata: {name: web, labels: {vm-size: small}}, spec: {template: {spec: {domain: {devices: {hostDevices: [{name: a, deviceName: b}]}}}}}}`,
			http.StatusUnprocessableEntity, []string{"spec.template.spec.domain.devices.hostDevices"}, "not here"},
		"WrongType": {"never a patch that fails",
			`{metadata: {name: web}, spec: {template: x}}`,
			http.StatusUnprocessableEntity, []string{"spec.template"}, "must be an object"},
		"NoObject": {"it is no object", `x`, http.StatusBadRequest, nil, "cannot read object"},
		"Null":     {"nor is null", `null`, http.StatusBadRequest, nil, "cannot read object"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			resp := machines(t, presets.VirtualMachine).Handle(t.Context(), creates("VirtualMachine", "shop", tc.object))
			if resp.Allowed || resp.Result.Code != tc.code || !strings.Contains(resp.Result.Message, tc.message) {
				t.Errorf("%s: got %+v", tc.reason, resp.Result)
			}
			if diff := cmp.Diff(tc.causes, causes(resp)); diff != "" {
				t.Errorf("%s: causes (-want +got):\n%s", tc.reason, diff)
			}
			if tc.causes != nil && (resp.Result.Reason != metav1.StatusReasonInvalid || resp.Result.Details.Kind != "VirtualMachine" || resp.Result.Details.Name != "web") {
				t.Errorf("%s: got %+v", tc.reason, resp.Result)
			}
		})
	}
}

type failing struct{}

func (failing) Of(context.Context, string, []byte) ([]byte, error) {
	return nil, errors.New("the API server is away")
}

func TestUnanswerable(t *testing.T) {
	owned := creates("VirtualMachineInstance", "shop", `{metadata: {name: web, ownerReferences: [{apiVersion: kubevirt.io/v1, kind: VirtualMachine, name: web, uid: u1, controller: true}]}}`)
	cases := map[string]func(m *Mutator){
		"presets are not loaded yet": func(m *Mutator) { m.Snapshots = fixed{} },
		"the API server is away":     func(m *Mutator) { m.Owners = failing{} },
		"cannot read namespace shop": func(m *Mutator) { m.Namespaces = namespaces{} },
	}
	for want, change := range cases {
		t.Run(want, func(t *testing.T) {
			m := machines(t, presets.VirtualMachineInstance)
			change(m)
			resp := m.Handle(t.Context(), owned)
			if resp.Allowed || resp.Result.Code != http.StatusServiceUnavailable || !strings.Contains(resp.Result.Message, want) {
				t.Errorf("want 503 with %q, got %+v", want, resp.Result)
			}
		})
	}
}
