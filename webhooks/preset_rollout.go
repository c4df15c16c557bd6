package webhooks

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	authorizationv1 "k8s.io/api/authorization/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
	kjson "sigs.k8s.io/json"

	sspv1alpha1 "github.com/virtwright/virtwright/api/ssp/v1alpha1"
	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
)

// verbApprove is the permission to approve waves of a rollout.
const verbApprove = "approve"

// A PresetRollout validates rollouts. To write spec, or to abort a change, a user must be allowed
// to update each preset that it names, and VMs in all namespaces, and to restart them if the
// rollout does. To approve a wave, or to change waves if one needs an approval, a user needs the
// verb approve.
type PresetRollout struct {
	// Authorizer reports what a user may do; nil allows everything.
	Authorizer authorizer
	Snapshots  presetSource
	Rollouts   rolloutIndex // nil knows none
}

type rolloutIndex interface {
	// Taken reports that an older rollout has a preset of a rollout; nil if none has.
	Taken(from *v1alpha1.PresetRollout) *field.Error
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
	const paused = v1alpha1.AnnotationRolloutPaused
	changed, problems := changesSpec(req), checkSwitch(before.Annotations[paused], rollout.Annotations[paused], paused, "true", "false")
	if changed {
		problems = slices.Concat(problems, p.problems(strict, &before, &rollout), skippedWaves(&before, &rollout))
	}
	if len(problems) > 0 {
		return invalid(req, problems)
	}
	response := authorize(ctx, p.Authorizer, req, rolloutRequirements(&before, &rollout, changed))
	if snapshot := p.Snapshots.Snapshot(); changed && response.Allowed && snapshot != nil {
		response.Warnings = append(response.Warnings, snapshot.MissingPresets("", rollout.Spec.Presets)...)
		for i, ref := range rollout.Spec.Presets {
			if c, ok := snapshot.Lookup("", ref); ok && c.ApplyAt == v1alpha1.ApplyAtLaunch {
				response.Warnings = append(response.Warnings, fmt.Sprintf("spec.presets[%d]: preset %q applies at launch: VMs get its change when they start, and the rollout restarts none for it", i, ref))
			}
		}
	}
	if changed {
		response.Warnings = append(response.Warnings, idleParts(&rollout.Spec)...)
	}
	if req.OldObject.Raw != nil {
		response.Warnings = append(response.Warnings, idleOrders(&before, &rollout)...)
	}
	return response
}

// idleOrders warns about an approval or an abort of something else than the current target.
func idleOrders(before, after *v1alpha1.PresetRollout) (out []string) {
	check := func(annotation, means string, effective ...string) {
		value := after.Annotations[annotation]
		if value == "" || value == before.Annotations[annotation] || slices.Contains(effective, value) {
			return
		}
		out = append(out, fmt.Sprintf("metadata.annotations[%s]: %.100q has no effect: the value must be %s, with status.target, now %q",
			annotation, value, means, before.Status.Target))
	}
	var waves []string
	for i := range after.Spec.Waves {
		waves = append(waves, before.Status.Target+"/"+after.Spec.Waves[i].Name)
	}
	check(v1alpha1.AnnotationRolloutApproved, "TARGET/WAVE", waves...)
	check(v1alpha1.AnnotationRolloutAborted, "TARGET", before.Status.Target)
	return out
}

// skippedWaves rejects waves that a change puts before the wave that was reached. The rollout would
// bring its presets to their VMs at once, without approval or bake.
func skippedWaves(before, after *v1alpha1.PresetRollout) (out field.ErrorList) {
	index := func(r *v1alpha1.PresetRollout, name string) int {
		return slices.IndexFunc(r.Spec.Waves, func(w v1alpha1.RolloutWave) bool { return w.Name == name })
	}
	reached := before.Status.Wave
	if before.Status.Aborted { // the next change begins again
		return nil
	}
	for i := range max(0, index(after, reached)) {
		name := after.Spec.Waves[i].Name
		if at := index(before, name); at < 0 || at > index(before, reached) {
			out = append(out, field.Forbidden(field.NewPath("spec", "waves").Index(i), fmt.Sprintf(
				"the rollout has reached wave %s, and would skip wave %s: put it after %[1]s, or wait until the rollout is complete", reached, name)))
		}
	}
	return out
}

// idleParts warns about parts of a rollout that have no effect, or that may keep it from restarts.
func idleParts(spec *v1alpha1.PresetRolloutSpec) (out []string) {
	selectsAll := func(s *metav1.LabelSelector) bool { return s == nil || len(s.MatchLabels)+len(s.MatchExpressions) == 0 }
	i := slices.IndexFunc(spec.Waves, func(w v1alpha1.RolloutWave) bool { return selectsAll(w.VMs) && selectsAll(w.Namespaces) })
	if i >= 0 && i+1 < len(spec.Waves) {
		out = append(out, fmt.Sprintf("spec.waves[%d]: wave %s takes all VMs that are left: those after it, such as %s, get none", i, spec.Waves[i].Name, spec.Waves[i+1].Name))
	}
	if spec.Restart == v1alpha1.RestartRolling {
		if len(spec.Budgets) == 0 {
			out = append(out, "spec.budgets: without any, no VM is restarted while another VM of the cluster, of any owner, is not ready: set maxUnavailable")
		}
		return out
	}
	if len(spec.Budgets) > 0 {
		out = append(out, "spec.budgets: they limit restarts, and the rollout restarts no VM without restart: Rolling")
	}
	if spec.Health.VMDeadline != nil {
		out = append(out, "spec.health.vmDeadline: the rollout does not wait for guests without restart: Rolling")
	}
	return out
}

func (p PresetRollout) problems(strict []error, before, r *v1alpha1.PresetRollout) field.ErrorList {
	out := unknownFields(strict, rolloutParts)
	if _, err := presets.NewRollout(r); err != nil {
		out = append(out, err)
	}
	out = append(out, presets.ValidateBudgets(r.Spec.Budgets)...)
	if p.Rollouts == nil {
		return out
	}
	added := &v1alpha1.PresetRollout{ObjectMeta: metav1.ObjectMeta{Name: r.Name}} // any other one that has them is older
	added.Spec.Presets = slices.DeleteFunc(slices.Clone(r.Spec.Presets), func(ref string) bool { return slices.Contains(before.Spec.Presets, ref) })
	if err := cmp.Or(p.Rollouts.Taken(added), p.Rollouts.Taken(r)); err != nil {
		out = append(out, err)
	}
	return out
}

func rolloutRequirements(before, after *v1alpha1.PresetRollout, changed bool) []requirement {
	annotations := field.NewPath("metadata", "annotations")
	isNew := func(annotation string) bool {
		value := after.Annotations[annotation]
		return value != "" && value != before.Annotations[annotation]
	}
	var out []requirement
	if changed || isNew(v1alpha1.AnnotationRolloutAborted) {
		out = append(changeRequirements(after), removalRequirements(before, after)...)
	}
	if isNew(v1alpha1.AnnotationRolloutApproved) {
		out = append(out, approval(annotations.Key(v1alpha1.AnnotationRolloutApproved), after, "required because it approves a wave"))
	}
	if changed && evadesApproval(&before.Spec, &after.Spec) {
		out = append(out, approval(field.NewPath("spec"), after, "required to change waves, or to remove presets, because a wave needs an approval"))
	}
	return out
}

func approval(at *field.Path, r *v1alpha1.PresetRollout, reason string) requirement {
	return requirement{sspv1alpha1.Permission{
		Path:       at,
		Attributes: authorizationv1.ResourceAttributes{Verb: verbApprove, Group: v1alpha1.GroupName, Resource: v1alpha1.ResourcePresetRollouts, Name: r.Name},
	}, reason}
}

// evadesApproval reports whether a change could bring presets to VMs whose wave needs an approval.
func evadesApproval(before, after *v1alpha1.PresetRolloutSpec) bool {
	needs := slices.ContainsFunc(before.Waves, func(w v1alpha1.RolloutWave) bool { return w.Approval == v1alpha1.ApprovalRequired })
	removes := slices.ContainsFunc(before.Presets, func(ref string) bool { return !slices.Contains(after.Presets, ref) })
	return needs && (removes || !apiequality.Semantic.DeepEqual(before.Waves, after.Waves))
}

// removalRequirements are those of presets whose change new VMs get, because the rollout lets go of
// them.
func removalRequirements(before, after *v1alpha1.PresetRollout) (out []requirement) {
	for _, ref := range before.Spec.Presets {
		if !slices.Contains(after.Spec.Presets, ref) {
			out = append(out, requirement{sspv1alpha1.Permission{
				Path: field.NewPath("spec", "presets"), Attributes: presetAction("update", "", ref),
			}, "required because the rollout would no longer hold the preset back"})
		}
	}
	return out
}

func changeRequirements(r *v1alpha1.PresetRollout) []requirement {
	at := field.NewPath("spec", "presets")
	out := []requirement{{sspv1alpha1.Permission{
		Path: at, Attributes: authorizationv1.ResourceAttributes{Verb: "update", Group: kubevirtv1.GroupVersion.Group, Resource: "virtualmachines"},
	}, "required in all namespaces because a rollout changes VMs"}}
	if r.Spec.Restart == v1alpha1.RestartRolling {
		out = append(out, requirement{sspv1alpha1.Permission{
			Path: field.NewPath("spec", "restart"),
			Attributes: authorizationv1.ResourceAttributes{
				Verb: "update", Group: kubevirtv1.SubresourceGroupName, Resource: "virtualmachines", Subresource: "restart",
			},
		}, "required in all namespaces because the rollout restarts VMs"})
	}
	for i, ref := range r.Spec.Presets {
		out = append(out, requirement{
			sspv1alpha1.Permission{Path: at.Index(i), Attributes: presetAction("update", "", ref)}, "required because a rollout holds the preset back",
		})
	}
	return out
}
