package webhooks

import (
	"context"
	"errors"
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	kjson "sigs.k8s.io/json"

	"github.com/virtwright/virtwright/presets"
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
	// Of returns the JSON of the VM that controls an instance; nil where there is none.
	Of(ctx context.Context, namespace string, instance []byte) ([]byte, error)
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
	// Instancetypes may be nil, and then none is known.
	Instancetypes Instancetypes
	// Trusted are the names of users whose updates are left alone.
	Trusted sets.Set[string]
	Metrics *Metrics
	Events  *Events
	// Resolved, if set, is called with the engine's answer to a request that is allowed.
	Resolved func(*presets.Result)
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
		if refusal, ok := errors.AsType[*presets.Refusal](err); ok {
			m.skipped(ctx, req, refusal.OverBudget)
		}
		return unresolved(ctx, req, err)
	}
	m.skipped(ctx, req, result.OverBudget)
	m.Metrics.conflicted(len(result.Conflicts))
	m.Metrics.matched(result.Matched)
	m.Metrics.tried(result.Would)
	forged, problems := m.forged(req)
	if len(problems) > 0 {
		return invalid(schema.GroupKind{Group: req.Kind.Group, Kind: req.Kind.Kind}, req.Name, problems)
	}
	patch, warnings := result.Patch, result.Warnings
	if stamp := m.stamp(req); len(forged.patch)+len(stamp) > 0 {
		patch = slices.Concat(forged.patch, patch, stamp)
	}
	if forged.warning != "" {
		warnings = append(slices.Clip(warnings), forged.warning)
	}
	if m.Resolved != nil {
		m.Resolved(result)
	}
	return admission.Response{
		Patches: patch,
		AdmissionResponse: admissionv1.AdmissionResponse{
			Allowed: true, Warnings: warnings, AuditAnnotations: result.Audit,
		},
	}
}

// skipped reports presets whose conditions were not evaluated.
func (m *Machine) skipped(ctx context.Context, req admission.Request, overBudget []*presets.Compiled) {
	m.Metrics.skipped(overBudget)
	if req.DryRun == nil || !*req.DryRun {
		m.Events.overBudget(ctx, overBudget)
	}
}

// request gathers what the engine looks at.
func (m *Machine) request(ctx context.Context, req admission.Request) (presets.Request, error) {
	out := presets.Request{
		Kind: m.Kind, Object: req.Object.Raw, Decoded: decodedIn(req.Object), Trusted: m.Trusted.Has(req.UserInfo.Username),
	}
	if req.Operation == admissionv1.Update {
		out.OldObject = req.OldObject.Raw
	}
	var err error
	if out.Namespace, err = m.Namespaces.Get(ctx, req.Namespace); err != nil {
		return out, fmt.Errorf("cannot read namespace %s: %w", req.Namespace, err)
	}
	out.Instancetypes = finder(ctx, m.Instancetypes, req.Namespace)
	if m.Kind != presets.VirtualMachineInstance || req.Operation != admissionv1.Create {
		return out, nil
	}
	// An owner that is gone, or was never there, gives nothing: its
	// instance is treated as one without owner, until it is collected.
	if out.Owner, err = m.Owners.Of(ctx, req.Namespace, req.Object.Raw); err != nil {
		return out, fmt.Errorf("cannot read the VirtualMachine that controls the instance: %w", err)
	}
	return out, nil
}

// decodedIn is an object that the caller has decoded; nil if an API server sent it.
func decodedIn(object runtime.RawExtension) map[string]any {
	if u, ok := object.Object.(*unstructured.Unstructured); ok {
		return u.Object
	}
	return nil
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
