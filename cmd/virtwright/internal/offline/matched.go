package offline

import (
	"context"
	"errors"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/cmd/virtwright/internal/manifest"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/webhooks"
)

// Matched returns the stored VMs on which a preset would act at a reapply, or that it would refuse, and
// the Ref of each preset that there is.
func Matched(ctx context.Context, objects []manifest.Object, settings Settings, ref string) (vms []types.NamespacedName, refs map[string]bool, err error) {
	c, err := NewCluster(ctx, objects, settings)
	if err != nil {
		return nil, nil, err
	}
	refs = map[string]bool{}
	for _, o := range objects {
		if id, role := identify(o, settings.Namespace); role == preset {
			refs[refOf(o.Kind, id.name)] = true
		}
	}
	for acts := range InOrder(ctx, slices.Values(c.Machines), func(ctx context.Context, m Machine) matching {
		acts, err := c.acts(ctx, m, ref)
		return matching{m, acts, err}
	}) {
		if acts.err != nil {
			return nil, nil, acts.err
		}
		if acts.acts {
			vms = append(vms, types.NamespacedName{Namespace: acts.Namespace, Name: acts.Name})
		}
	}
	return vms, refs, nil
}

type matching struct {
	Machine
	acts bool
	err  error
}

func refOf(kind, name string) string {
	if kind == v1alpha1.KindClusterVirtualMachinePreset {
		return "cluster/" + name
	}
	return name
}

// acts reports whether the preset acts on a stored VM at a reapply.
func (c *Cluster) acts(ctx context.Context, m Machine, ref string) (bool, error) {
	found, ok := c.snapshot.Lookup(m.Namespace, ref)
	if !ok || found.Mode != v1alpha1.ModeEnforce || slices.Contains(webhooks.ExcludedNamespaces(managerNamespace), m.Namespace) {
		return false, nil
	}
	request := c.request(ctx, m)
	var err error
	request.OldObject = request.Object
	if request.Object, err = m.reapplied(request.Object); err != nil {
		return false, err
	}
	result, err := c.settings.Engine.Resolve(ctx, c.snapshot, request)
	if refusal, ok := errors.AsType[*presets.Refusal](err); ok {
		return slices.ContainsFunc(problemsOf(refusal.Problems), func(p Problem) bool { return strings.Contains(p.Message, "preset "+ref+")") }), nil
	}
	if err != nil {
		return false, m.refusal(err)
	}
	return slices.ContainsFunc(result.Matched, func(p *presets.Compiled) bool { return p.Ref == ref }), nil
}
