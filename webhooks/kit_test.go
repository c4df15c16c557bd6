package webhooks

import (
	"context"
	"encoding/json"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/test/presettest"
	"github.com/virtwright/virtwright/validation/protection"
)

const (
	controller = "system:serviceaccount:kubevirt:kubevirt-controller"
	manager    = "system:serviceaccount:virtwright-system:virtwright"
	author     = "jane"
)

// fixed is a set of presets that stays as it is.
type fixed struct{ set *presets.Snapshot }

func (f fixed) Snapshot() *presets.Snapshot { return f.set }

// namespaces by name.
type namespaces map[string]presets.Namespace

func (n namespaces) Get(_ context.Context, name string) (presets.Namespace, error) {
	found, ok := n[name]
	if !ok {
		return found, apierrors.NewNotFound(corev1.Resource("namespaces"), name)
	}
	return found, nil
}

// owners by UID.
type owners map[types.UID]string

func (o owners) Of(_ context.Context, _ string, instance []byte) ([]byte, error) {
	if ref := ControllingVM(instance); ref != nil && o[ref.UID] != "" {
		return presettest.JSON(o[ref.UID]), nil
	}
	return nil, nil
}

// sizes are a preset of either scope and one that acts at launch.
func sizes(t testing.TB) *presets.Snapshot {
	return presettest.Snapshot(t,
		presettest.Cluster("small", `
match: {labels: {matchLabels: {vm-size: small}}}
defaults: {spec: {template: {spec: {domain: {cpu: {cores: 2}, memory: {guest: 2Gi}}}}}}
forbid: [{path: spec.template.spec.domain.devices.hostDevices, message: not here}]`),
		presettest.Namespaced("lab", "halted", `
defaults: {spec: {runStrategy: Halted}}`),
		presettest.Cluster("placement", `
applyAt: Launch
match: {namespaces: {matchLabels: {tier: prod}}}
defaults: {spec: {template: {spec: {nodeSelector: {pool: vms}}}}}`),
	)
}

// machines admits a kind with the presets of sizes.
func machines(t testing.TB, kind presets.Kind) *Mutator {
	return &Mutator{
		Kind: kind, Engine: &presets.Engine{}, Snapshots: fixed{sizes(t)},
		Namespaces: namespaces{"lab": {Name: "lab"}, "shop": {Name: "shop", Labels: map[string]string{"tier": "prod"}}},
		Owners:     owners{"u1": `{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: web, namespace: shop, uid: u1, labels: {vm-size: small}}}`},
		Guard:      protection.Guard{Trusted: []string{manager}, Controllers: []string{controller}},
	}
}

// creates is a request of an author; the object is YAML.
func creates(kind, namespace, object string) Request {
	group, version := "kubevirt.io", "v1"
	if kind != "VirtualMachine" && kind != "VirtualMachineInstance" {
		group, version = "virtwright.dev", "v1alpha1"
	}
	raw := presettest.JSON(object)
	var meta metav1.PartialObjectMetadata
	_ = json.Unmarshal(raw, &meta)
	return Request{AdmissionRequest: admissionv1.AdmissionRequest{
		UID: "request-1", Operation: admissionv1.Create, Namespace: namespace, Name: meta.Name,
		Kind:     metav1.GroupVersionKind{Group: group, Version: version, Kind: kind},
		UserInfo: authenticationv1.UserInfo{Username: author},
		Object:   runtime.RawExtension{Raw: raw},
	}}
}

// updates is a request that replaces an object.
func updates(kind, namespace, before, after string) Request {
	req := creates(kind, namespace, after)
	req.Operation, req.OldObject.Raw = admissionv1.Update, presettest.JSON(before)
	return req
}

// patched applies the patch of a response as API servers do, and returns a field of the result.
func patched(t *testing.T, req Request, resp Response, path ...string) any {
	t.Helper()
	if err := resp.encode(req.UID); err != nil {
		t.Fatal(err)
	}
	raw := req.Object.Raw
	if len(resp.Patches) > 0 {
		patch, err := jsonpatch.DecodePatch(resp.Patch)
		if err != nil {
			t.Fatalf("cannot decode %s: %v", resp.Patch, err)
		}
		if raw, err = patch.Apply(raw); err != nil {
			t.Fatalf("cannot apply %s: %v", resp.Patch, err)
		}
	}
	var value any
	if err := json.Unmarshal(raw, &value); err != nil {
		t.Fatal(err)
	}
	for _, name := range path {
		fields, _ := value.(map[string]any)
		value = fields[name]
	}
	return value
}

func encoded(t testing.TB, v any) []byte {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// causes are the field paths of a rejection.
func causes(resp Response) []string {
	var out []string
	if resp.Result == nil || resp.Result.Details == nil {
		return nil
	}
	for _, cause := range resp.Result.Details.Causes {
		out = append(out, cause.Field)
	}
	return out
}
