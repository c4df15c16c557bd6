package webhooks

import (
	"context"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
	kjson "sigs.k8s.io/json"

	sspv1alpha1 "github.com/virtwright/virtwright/api/ssp/v1alpha1"
	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
)

// verbApprove is the permission to approve waves of a rollout.
const verbApprove = "approve"

// A PresetRollout validates rollouts. Its author must be allowed to update each preset that it
// names, and VMs in all namespaces. Who approves a wave needs the verb approve.
type PresetRollout struct {
	// Authorizer reports what a user may do; nil allows everything.
	Authorizer authorizer
	Snapshots  presetSource
}

var _ handler = PresetRollout{}

// Handle answers one request.
func (p PresetRollout) Handle(ctx context.Context, req Request) Response {
	var rollout, before v1alpha1.PresetRollout
	strict, err := kjson.UnmarshalStrict(req.Object.Raw, &rollout)
	if err != nil {
		return undecodable(req, v1alpha1.KindPresetRollout, err)
	}
	_ = kjson.UnmarshalCaseSensitivePreserveInts(req.OldObject.Raw, &before) // it is empty on a create
	var required []requirement
	changed := changesSpec(req)
	if changed {
		problems := unknownFields(strict, rolloutParts)
		if _, err := presets.NewRollout(&rollout); err != nil {
			problems = append(problems, err)
		}
		if len(problems) > 0 {
			return invalid(req, problems)
		}
		required = rolloutRequirements(&rollout)
	}
	if approved := rollout.Annotations[v1alpha1.AnnotationRolloutApproved]; approved != "" && approved != before.Annotations[v1alpha1.AnnotationRolloutApproved] {
		required = append(required, requirement{sspv1alpha1.Permission{
			Path:       field.NewPath("metadata", "annotations").Key(v1alpha1.AnnotationRolloutApproved),
			Attributes: authorizationv1.ResourceAttributes{Verb: verbApprove, Group: v1alpha1.GroupName, Resource: v1alpha1.ResourcePresetRollouts, Name: rollout.Name},
		}, "required because it approves a wave"})
	}
	response := authorize(ctx, p.Authorizer, req, required)
	if snapshot := p.Snapshots.Snapshot(); changed && response.Allowed && snapshot != nil {
		for i, ref := range rollout.Spec.Presets {
			if _, ok := snapshot.Lookup("", ref); !ok {
				response.Warnings = append(response.Warnings, fmt.Sprintf("spec.presets[%d]: preset %q does not exist, or is invalid", i, ref))
			}
		}
	}
	return response
}

func rolloutRequirements(r *v1alpha1.PresetRollout) []requirement {
	at := field.NewPath("spec", "presets")
	out := []requirement{{sspv1alpha1.Permission{
		Path: at, Attributes: authorizationv1.ResourceAttributes{Verb: "update", Group: kubevirtv1.GroupVersion.Group, Resource: "virtualmachines"},
	}, "required in all namespaces because a rollout changes VMs"}}
	for i, ref := range r.Spec.Presets {
		out = append(out, requirement{
			sspv1alpha1.Permission{Path: at.Index(i), Attributes: presetAction("update", "", ref)}, "required because a rollout holds the preset back",
		})
	}
	return out
}
