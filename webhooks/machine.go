package webhooks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"gomodules.xyz/jsonpatch/v2"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	kjson "sigs.k8s.io/json"

	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/validation/protection"
)

// Snapshots gives the presets in use.
type Snapshots interface {
	// Snapshot returns the newest set of presets; nil before the first is there.
	Snapshot() *presets.Snapshot
}

// Namespaces finds namespaces.
type Namespaces interface {
	// Get returns a namespace by name.
	Get(ctx context.Context, name string) (presets.Namespace, error)
}

// Owners finds the VMs that control instances.
type Owners interface {
	// Get returns the JSON of the VM of a name that has a UID; nil where there is none.
	Get(ctx context.Context, vm types.NamespacedName, uid types.UID) ([]byte, error)
}

// A Machine mutates VirtualMachines, or VirtualMachineInstances, into what
// presets and platform defaults make of them.
type Machine struct {
	Kind       presets.Kind
	Engine     *presets.Engine
	Snapshots  Snapshots
	Namespaces Namespaces
	// Owners is needed for VirtualMachineInstances only.
	Owners Owners
	// Trusted are the names of users whose updates are left alone.
	Trusted sets.Set[string]
	Metrics *Metrics
}

var _ admission.Handler = (*Machine)(nil)

// Handle answers one request.
func (m *Machine) Handle(ctx context.Context, req admission.Request) admission.Response {
	if req.Operation != admissionv1.Create && req.Operation != admissionv1.Update {
		return allowed()
	}
	request, err := m.request(ctx, req)
	if err != nil {
		return unanswerable(ctx, req, err)
	}
	snapshot := m.Snapshots.Snapshot()
	if snapshot == nil {
		return unanswerable(ctx, req, errors.New("presets are not loaded yet"))
	}
	result, err := m.Engine.Resolve(ctx, snapshot, request)
	if err != nil {
		return unresolved(ctx, req, err)
	}
	m.Metrics.conflicted(len(result.Conflicts))
	patch, warnings := result.Patch, result.Warnings
	if forged := m.forged(req); len(forged) > 0 {
		patch = append(slices.Clip(patch), removal(forged)...)
		warnings = append(slices.Clip(warnings), "controllers write "+listed(dotted(forged))+": left out")
	}
	if stamp := m.stamp(req); len(stamp) > 0 {
		patch = append(slices.Clip(patch), stamp...)
	}
	return admission.Response{
		Patches: patch,
		AdmissionResponse: admissionv1.AdmissionResponse{
			Allowed: true, Warnings: warnings, AuditAnnotations: result.Audit,
		},
	}
}

// forged are the fields that the author of a new object cannot mean.
func (m *Machine) forged(req admission.Request) [][]string {
	marked := func(mark string) bool { return bytes.Contains(req.Object.Raw, []byte(mark)) }
	if req.Operation != admissionv1.Create || m.Trusted.Has(req.UserInfo.Username) || !slices.ContainsFunc(protection.Marks(m.Kind), marked) {
		return nil
	}
	var object map[string]any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(req.Object.Raw, &object); err != nil {
		return nil // which the engine has told
	}
	return protection.Forged(m.Kind, object)
}

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")

func removal(paths [][]string) []jsonpatch.Operation {
	var out []jsonpatch.Operation
	for _, path := range paths {
		var pointer strings.Builder
		for _, name := range path {
			pointer.WriteString("/" + pointerEscapes.Replace(name))
		}
		out = append(out, jsonpatch.NewOperation("remove", pointer.String(), nil))
	}
	return out
}

func dotted(paths [][]string) []string {
	var out []string
	for _, path := range paths {
		out = append(out, field.NewPath(path[0], path[1:]...).String())
	}
	return out
}

// request gathers what the engine looks at.
func (m *Machine) request(ctx context.Context, req admission.Request) (presets.Request, error) {
	out := presets.Request{
		Kind: m.Kind, Object: req.Object.Raw, Trusted: m.Trusted.Has(req.UserInfo.Username),
	}
	if req.Operation == admissionv1.Update {
		out.OldObject = req.OldObject.Raw
	}
	var err error
	if out.Namespace, err = m.Namespaces.Get(ctx, req.Namespace); err != nil {
		return out, fmt.Errorf("cannot read namespace %s: %w", req.Namespace, err)
	}
	if m.Kind != presets.VirtualMachineInstance || req.Operation != admissionv1.Create {
		return out, nil
	}
	if ref := controllingVM(req.Object.Raw); ref != nil {
		name := types.NamespacedName{Namespace: req.Namespace, Name: ref.Name}
		// An owner that is gone, or was never there, gives nothing: its
		// instance is treated as one without owner, until it is collected.
		if out.Owner, err = m.Owners.Get(ctx, name, ref.UID); err != nil {
			return out, fmt.Errorf("cannot read VirtualMachine %s, which controls the instance: %w", name, err)
		}
	}
	return out, nil
}

// controllingVM is the controller reference of an instance, if it is to a VM.
// What cannot be decoded has none; the engine says what is wrong with it.
func controllingVM(instance []byte) *metav1.OwnerReference {
	var object struct {
		Metadata struct {
			OwnerReferences []metav1.OwnerReference `json:"ownerReferences"`
		} `json:"metadata"`
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(instance, &object); err != nil {
		return nil
	}
	for _, ref := range object.Metadata.OwnerReferences {
		gv, err := schema.ParseGroupVersion(ref.APIVersion)
		if err == nil && gv.Group == "kubevirt.io" && ref.Kind == string(presets.VirtualMachine) &&
			ref.Controller != nil && *ref.Controller && ref.Name != "" && ref.UID != "" {
			return &ref
		}
	}
	return nil
}
