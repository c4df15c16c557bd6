package webhooks

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/domain"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/validation"
)

// Profiles gives the profiles in use.
type Profiles interface {
	// Snapshot returns the newest set of profiles; nil before the first is there.
	Snapshot() *domain.Profiles
}

// render refuses what no host could run: it makes the domain of the instance
// that would be launched, under what is assumed of hosts, and throws it away.
// What rules refuse is not rendered. What could not be rendered before an update
// may stay so.
func (c *candidate) render(ctx context.Context) error {
	if c.Profiles == nil || c.Rules.Addon || !c.ruled {
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
	news := c.machine.New(problems, before)
	if len(before) > 0 && r.frontend(c.machine.Old) && !r.frontend(c.machine) {
		// What the host's side says now was hidden by what the guest's said before.
		for _, p := range news {
			c.warnings = append(c.warnings, p.Error()+"; it may have been so before")
		}
		return nil
	}
	c.problems = append(c.problems, news...)
	return nil
}

// A renderer renders machines, and tells what is wrong with their fields.
type renderer struct {
	*candidate
	profiles  *domain.Profiles
	namespace presets.Namespace
}

// problems are why a machine cannot be rendered, with its own paths.
func (r *renderer) problems(ctx context.Context, m *validation.Machine, raw []byte, object map[string]any) field.ErrorList {
	instance := r.instance(ctx, m, raw, object)
	if instance == nil {
		return nil
	}
	return m.Placed(r.profiles.Check(instance, r.namespace.Labels))
}

// instance is what a machine would run, or runs; nil where it cannot be launched.
func (r *renderer) instance(ctx context.Context, m *validation.Machine, raw []byte, object map[string]any) *kubevirtv1.VirtualMachineInstance {
	snapshot := r.Snapshots.Snapshot()
	switch {
	case m.VMI != nil:
		return m.VMI
	case m.Spec == nil || snapshot == nil:
		return nil
	case r.Engine.LaunchesTemplate(snapshot, object, r.namespace):
		meta := metav1.ObjectMeta{Name: m.VM.Name, Namespace: m.VM.Namespace, Labels: m.Meta.Labels, Annotations: m.Meta.Annotations}
		return &kubevirtv1.VirtualMachineInstance{ObjectMeta: meta, Spec: *m.Spec}
	case !snapshot.Launches(): // else it was launched for the rules
		launched, err := r.Engine.Launch(ctx, snapshot, presets.Request{Kind: r.Kind, Object: raw, Namespace: r.namespace})
		if err != nil || m.Launched(launched) != nil {
			return nil // which rules and presets have told
		}
	}
	return &kubevirtv1.VirtualMachineInstance{ObjectMeta: *m.Meta, Spec: *m.Spec}
}

// frontend reports whether a machine cannot even be rendered as its guest sees it.
func (r *renderer) frontend(m *validation.Machine) bool {
	instance := &kubevirtv1.VirtualMachineInstance{ObjectMeta: *m.Meta, Spec: *m.Spec}
	settings, _ := r.profiles.Frontend(instance, r.namespace.Labels)
	_, problems := domain.Frontend(instance, settings)
	return len(problems) > 0
}
