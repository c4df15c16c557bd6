package webhooks

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/domain"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/validation"
)

type profileSource interface {
	// Snapshot returns the newest set of profiles; nil before the first is loaded.
	Snapshot() *domain.Profiles
}

// render rejects a VM that no host could run: it renders the domain of the VMI that would be
// launched, for an assumed host, and discards it. A VM that rules reject is not rendered. An update
// may keep problems, but not add any.
func (c *candidate) render(ctx context.Context) error {
	if c.Profiles == nil || c.Rules.Addon || !c.rulesPass {
		return nil
	}
	profiles := c.Profiles.Snapshot()
	if profiles == nil {
		return errors.New("profiles are not loaded yet")
	}
	namespace, err := c.Namespaces.Get(ctx, c.req.Namespace)
	if err != nil {
		return fmt.Errorf("cannot read namespace %s: %w", c.req.Namespace, err)
	}
	r := &renderer{candidate: c, profiles: profiles, namespace: namespace}
	problems := r.problems(ctx, c.machine, c.req.Object.Raw, c.object)
	if len(problems) == 0 || c.machine.Old == nil {
		c.problems = append(c.problems, problems...)
		return nil
	}
	before := r.problems(ctx, c.machine.Old, c.req.OldObject.Raw, c.old)
	news := c.machine.OnlyNew(problems, before)
	if len(before) > 0 && r.frontendFails(c.machine.Old) && !r.frontendFails(c.machine) {
		// Problems of the frontend may have hidden these problems of the backend before.
		for _, p := range news {
			c.warnings = append(c.warnings, p.Error()+"; the stored object may have the same problem")
		}
		return nil
	}
	c.problems = append(c.problems, news...)
	return nil
}

// A renderer renders the domains of VMs and VMIs, and reports problems of their fields.
type renderer struct {
	*candidate
	profiles  *domain.Profiles
	namespace presets.Namespace
}

// problems returns why an object cannot be rendered, with paths of that object.
func (r *renderer) problems(ctx context.Context, m *validation.ExpandedVM, raw []byte, object map[string]any) field.ErrorList {
	vmi := r.launched(ctx, m, raw, object)
	if vmi == nil {
		return nil
	}
	return m.PrefixPaths(append(r.profiles.Check(vmi, r.namespace.Labels), domain.CheckPod(vmi)...))
}

// launched returns the VMI that an object would run, or is; nil if it cannot be launched.
func (r *renderer) launched(ctx context.Context, m *validation.ExpandedVM, raw []byte, object map[string]any) *kubevirtv1.VirtualMachineInstance {
	snapshot := r.Snapshots.Snapshot()
	switch {
	case m.VMI != nil:
		return m.VMI
	case m.Spec == nil || snapshot == nil:
		return nil
	case r.Engine.LaunchKeepsTemplate(snapshot, object, r.namespace):
		meta := metav1.ObjectMeta{Name: m.VM.Name, Namespace: m.VM.Namespace, Labels: m.Meta.Labels, Annotations: m.Meta.Annotations}
		return &kubevirtv1.VirtualMachineInstance{ObjectMeta: meta, Spec: *m.Spec}
	case !snapshot.Launches(): // otherwise validate has launched it
		vmi, err := r.Engine.Launch(ctx, snapshot, presets.Request{Kind: r.Kind, Object: raw, Namespace: r.namespace})
		if err != nil || m.ReplaceTemplate(vmi) != nil {
			return nil // rules and presets have reported it
		}
	}
	return &kubevirtv1.VirtualMachineInstance{ObjectMeta: *m.Meta, Spec: *m.Spec}
}

// frontendFails reports whether even the guest's side of the domain cannot be rendered.
func (r *renderer) frontendFails(m *validation.ExpandedVM) bool {
	vmi := &kubevirtv1.VirtualMachineInstance{ObjectMeta: *m.Meta, Spec: *m.Spec}
	settings, _ := r.profiles.Frontend(vmi, r.namespace.Labels)
	_, problems := domain.Frontend(vmi, settings)
	return len(problems) > 0
}

// verifyPresets checks that other webhooks have not undone what presets did.
func (c *candidate) verifyPresets(ctx context.Context) error {
	snapshot := c.Snapshots.Snapshot()
	if snapshot == nil {
		return errors.New("presets are not loaded yet")
	}
	request, err := c.engineRequest(ctx)
	if err != nil {
		return err
	}
	if rejection, ok := errors.AsType[*presets.Rejection](c.Engine.VerifyApplied(ctx, snapshot, request)); ok {
		c.problems = append(c.problems, rejection.Problems...)
	}
	annotations, _, _ := unstructured.NestedMap(c.object, "metadata", "annotations")
	if c.Kind != presets.VirtualMachineInstance || c.old != nil || c.Owners == nil || !presets.HasLegacy(annotations) {
		return nil
	}
	if request.Owner, err = c.Owners.Of(ctx, c.req.Namespace, c.req.Object.Raw); err != nil {
		return fmt.Errorf("cannot read the VirtualMachine that controls the VMI: %w", err)
	}
	return c.rejected(c.Engine.VerifyLegacy(snapshot, request))
}

// rejected adds the problems of a rejection. It returns other errors, except about an object that
// read has rejected.
func (c *candidate) rejected(err error) error {
	if rejection, ok := errors.AsType[*presets.Rejection](err); ok {
		c.problems = append(c.problems, rejection.Problems...)
		return nil
	}
	if _, ok := errors.AsType[*presets.Malformed](err); ok {
		return nil
	}
	return err
}

// verifyExpansion checks overrides and forbid rules on the VM as its instancetype and preference
// expand it. Updates by trusted controllers are not checked.
func (c *candidate) verifyExpansion(ctx context.Context) error {
	snapshot := c.Snapshots.Snapshot()
	spec, _ := c.object["spec"].(map[string]any)
	if c.Instancetypes == nil || snapshot == nil || c.Kind != presets.VirtualMachine || c.trusted && c.old != nil ||
		spec["instancetype"] == nil && spec["preference"] == nil {
		return nil
	}
	request, err := c.engineRequest(ctx)
	if err != nil {
		return err
	}
	request.Decoded, request.OldDecoded = nil, nil // it decodes the objects itself
	return c.rejected(c.Engine.VerifyExpansion(ctx, snapshot, request))
}

// engineRequest collects the input of the engine.
func (c *candidate) engineRequest(ctx context.Context) (presets.Request, error) {
	namespace, err := c.Namespaces.Get(ctx, c.req.Namespace)
	if err != nil {
		return presets.Request{}, fmt.Errorf("cannot read namespace %s: %w", c.req.Namespace, err)
	}
	request := presets.Request{
		Kind: c.Kind, Object: c.req.Object.Raw, Decoded: c.object, Namespace: namespace,
		Instancetypes: cachedInstancetypes(ctx, c.Instancetypes, c.req.Namespace),
	}
	if c.old != nil {
		request.OldObject, request.OldDecoded = c.req.OldObject.Raw, c.old
	}
	return request, nil
}
