package webhooks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gomodules.xyz/jsonpatch/v2"
	admissionv1 "k8s.io/api/admission/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/presets/spelling"
	"github.com/virtwright/virtwright/presets/tree"
	"github.com/virtwright/virtwright/validation/protection"
)

// A Mutator applies presets and platform defaults to VirtualMachines, or to
// VirtualMachineInstances.
type Mutator struct {
	Kind       presets.Kind
	Engine     *presets.Engine
	Snapshots  presetSource
	Namespaces namespaceGetter
	// Owners is required for VirtualMachineInstances only.
	Owners ownerGetter
	// Instancetypes may be nil: no VM is expanded by its instancetype then.
	Instancetypes instancetypeGetter
	// Revisions may be nil: no earlier revision of a preset is known then.
	Revisions revisionFinder
	// Guard has the users whose writes are not changed.
	Guard   protection.Guard
	Metrics *Metrics
	Events  eventWriter
	// Resolved, if set, is called with the engine's result for a request that is allowed.
	Resolved func(*presets.Result)
}

var _ handler = (*Mutator)(nil)

// Handle answers one request.
func (m *Mutator) Handle(ctx context.Context, req Request) Response {
	if !isWrite(req) {
		return allowed()
	}
	request, err := m.request(ctx, req)
	if err != nil {
		return unavailable(ctx, req, err)
	}
	snapshot := m.Snapshots.Snapshot()
	if snapshot == nil {
		return unavailable(ctx, req, errors.New("presets are not loaded yet"))
	}
	result, err := m.Engine.Resolve(ctx, snapshot, request)
	if err != nil {
		if rejection, ok := errors.AsType[*presets.Rejection](err); ok {
			m.reportSkipped(ctx, req, rejection.OverBudget)
		}
		return unresolved(ctx, req, err)
	}
	m.reportSkipped(ctx, req, result.OverBudget)
	m.Metrics.countResult(result)
	reserved, problems := m.removeReserved(req)
	if len(problems) > 0 {
		return invalid(req, problems)
	}
	patch, warnings := result.Patch, result.Warnings
	requester, ended := m.recordRequester(req, result)
	if len(reserved.patch)+len(requester) > 0 {
		patch = slices.Concat(reserved.patch, patch, requester)
	}
	for _, warning := range []string{reserved.warning, ended} {
		if warning != "" {
			warnings = append(slices.Clip(warnings), warning)
		}
	}
	if m.Resolved != nil {
		m.Resolved(result)
	}
	return Response{
		Patches: patch,
		AdmissionResponse: admissionv1.AdmissionResponse{
			Allowed: true, Warnings: warnings, AuditAnnotations: result.Audit,
		},
	}
}

// isWrite reports whether a request creates or updates an object.
func isWrite(req Request) bool {
	return req.Operation == admissionv1.Create || req.Operation == admissionv1.Update
}

// reportSkipped reports presets whose conditions were not evaluated.
func (m *Mutator) reportSkipped(ctx context.Context, req Request, overBudget []*presets.Compiled) {
	m.Metrics.countSkipped(overBudget)
	if m.Events != nil && (req.DryRun == nil || !*req.DryRun) {
		m.Events.OverBudget(ctx, overBudget)
	}
}

// request collects the input of the engine.
func (m *Mutator) request(ctx context.Context, req Request) (presets.Request, error) {
	out := presets.Request{
		Kind: m.Kind, Object: req.Object.Raw, Decoded: decodedIn(req.Object), Trusted: m.trusts(req), Restored: isRestored(m.Kind, m.Guard, req),
	}
	if req.Operation == admissionv1.Update {
		out.OldObject = req.OldObject.Raw
	}
	var err error
	if out.Namespace, err = m.Namespaces.Get(ctx, req.Namespace); err != nil {
		return out, fmt.Errorf("cannot read namespace %s: %w", req.Namespace, err)
	}
	out.Instancetypes = cachedInstancetypes(ctx, m.Instancetypes, req.Namespace)
	if m.Revisions != nil {
		out.Revisions = func(name presets.PresetName, s provenance.Source) (*presets.Compiled, error) {
			return m.Revisions.Find(ctx, name, s)
		}
	}
	if m.Kind != presets.VirtualMachineInstance || req.Operation != admissionv1.Create {
		return out, nil
	}
	// A VMI whose owner does not exist is handled as one without owner, until it is collected.
	if out.Owner, err = m.Owners.Of(ctx, req.Namespace, req.Object.Raw); err != nil {
		return out, fmt.Errorf("cannot read the VirtualMachine that controls the VMI: %w", err)
	}
	return out, nil
}

func (m *Mutator) trusts(req Request) bool { return m.Guard.Trusts(req.UserInfo.Username, m.Kind) }

// lastRestore is the annotation by which KubeVirt marks a VM that it restores from a snapshot. A
// clone is a snapshot that is restored as another VM.
const lastRestore = "restore.kubevirt.io/lastRestoreUID"

// isRestored reports whether KubeVirt restores a VM from a snapshot.
func isRestored(kind presets.Kind, guard protection.Guard, req Request) bool {
	if kind != presets.VirtualMachine || !guard.Controls(req.UserInfo.Username) || !bytes.Contains(req.Object.Raw, []byte(lastRestore)) {
		return false
	}
	var now, old struct {
		metav1.ObjectMeta `json:"metadata"`

		Status struct {
			RestoreInProgress *string `json:"restoreInProgress"`
		} `json:"status"`
	}
	if json.Unmarshal(req.Object.Raw, &now) != nil || req.Operation == admissionv1.Update && json.Unmarshal(req.OldObject.Raw, &old) != nil {
		return false // the engine reports it
	}
	owner := metav1.GetControllerOf(&now)
	isPools := owner != nil && owner.Kind == "VirtualMachinePool" // which copies its author's annotations
	copied := isPools && old.Status.RestoreInProgress == nil
	return now.Annotations[lastRestore] != old.Annotations[lastRestore] && !copied
}

// decodedIn returns an object that the caller has decoded; nil if an API server sent it.
func decodedIn(object runtime.RawExtension) map[string]any {
	if u, ok := object.Object.(*unstructured.Unstructured); ok {
		return u.Object
	}
	return nil
}

// A removal removes fields from a new object that only controllers write.
type removal struct {
	patch   []jsonpatch.Operation
	warning string
}

// removeReserved removes fields that the author of a new object copied from a cluster. It rejects
// annotations that together exceed the size limit of API servers, which check only the remaining
// ones.
func (m *Mutator) removeReserved(req Request) (removal, field.ErrorList) {
	occurs := func(mark string) bool { return bytes.Contains(req.Object.Raw, []byte(mark)) }
	if req.Operation != admissionv1.Create || m.trusts(req) || !slices.ContainsFunc(protection.ReservedFieldMarkers(m.Kind), occurs) {
		return removal{}, nil
	}
	var object map[string]any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(req.Object.Raw, &object); err != nil {
		return removal{}, nil // the engine has reported it
	}
	paths := protection.ReservedFields(m.Kind, object)
	if len(paths) == 0 {
		return removal{}, nil
	}
	meta, _ := object["metadata"].(map[string]any)
	annotations, _ := meta["annotations"].(map[string]any)
	texts := make(map[string]string, len(annotations))
	for key, value := range annotations {
		texts[key], _ = value.(string)
	}
	if err := apivalidation.ValidateAnnotationsSize(texts); err != nil {
		return removal{}, field.ErrorList{field.TooLong(field.NewPath("metadata", "annotations"), "", apivalidation.TotalAnnotationSizeLimitB)}
	}
	var names []string
	for _, path := range paths {
		names = append(names, tree.Truncate(field.NewPath(path[0], path[1:]...).String(), presets.MaxWarningBytes))
	}
	return removal{
		patch:   without(annotations, paths),
		warning: "removed " + tree.List(names, maxListed) + ": only controllers may write this" + suggestAnnotation(paths),
	}, nil
}

// maxListed is how many fields a message names.
const maxListed = 5

// suggestAnnotation suggests the annotation that the author of a reserved one may have meant.
func suggestAnnotation(paths [][]string) string {
	for _, path := range paths {
		if meant := spelling.Nearest(path[len(path)-1], slices.Values(v1alpha1.UserAnnotations())); meant != "" {
			return fmt.Sprintf("; did you mean %s?", meant)
		}
	}
	return ""
}

// without removes paths from an object with these annotations. One operation removes all
// annotations, because each operation takes time.
func without(annotations map[string]any, paths [][]string) []jsonpatch.Operation {
	remaining := maps.Clone(annotations)
	var out []jsonpatch.Operation
	for _, path := range paths {
		if len(path) == 3 { // metadata.annotations and a key
			delete(remaining, path[len(path)-1])
			continue
		}
		out = append(out, jsonpatch.NewOperation("remove", "/"+strings.Join(path, "/"), nil))
	}
	if len(remaining) < len(annotations) {
		out = append(out, jsonpatch.NewOperation("replace", "/metadata/annotations", remaining))
	}
	return out
}
