package webhooks

import (
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/validation/protection"
)

// watchedAnnotations are annotations of virtwright whose changes matter: those by which authors
// control presets, and those that virtwright writes.
var watchedAnnotations = []string{
	v1alpha1.AnnotationPresets, v1alpha1.AnnotationExclude, v1alpha1.AnnotationReapply, v1alpha1.AnnotationRolledOut, v1alpha1.AnnotationProvenance,
	v1alpha1.AnnotationGenerateTemplate, v1alpha1.AnnotationTemplateRequester,
}

type matchCondition = admissionregistrationv1.MatchCondition

// notDeleted excludes objects that are being deleted. It reads the stored object, because a user
// may send any deletionTimestamp.
func notDeleted() matchCondition {
	return matchCondition{Name: "not-being-deleted", Expression: `request.operation != "UPDATE" || !has(oldObject.metadata.deletionTimestamp)`}
}

// notTrusted excludes updates by trusted writers, but not the VMIs that they create, nor updates
// by a rollout. Alongside KubeVirt, it does not exclude volumes and networks that its controllers
// plug into VMIs on behalf of users.
func notTrusted(guard protection.Guard, kind presets.Kind) matchCondition {
	expression := "!(" + guard.UpdateByTrusted(kind) + ")"
	if kind == presets.VirtualMachine {
		expression += fmt.Sprintf(" || object.metadata.?annotations[?%[1]q] != oldObject.metadata.?annotations[?%[1]q]", v1alpha1.AnnotationRolledOut)
	}
	if guard.Addon && kind == presets.VirtualMachineInstance {
		expression += " || !has(oldObject.metadata.deletionTimestamp) && " + guard.ByController() + ` && ["volumes", "networks"].exists(f, object.?spec[?f] != oldObject.?spec[?f])`
	}
	return matchCondition{Name: "not-an-update-by-a-trusted-user", Expression: expression}
}

// vmSpecFields are the fields of a VM's spec, apart from its run state.
var vmSpecFields = []string{"template", "instancetype", "preference", "dataVolumeTemplates", "updateVolumesStrategy"}

// vmChanged excludes updates of a VM that change no input of presets. It also excludes those of the
// run state and of annotations by controllers, which go on while no webhook answers.
func vmChanged(guard protection.Guard) matchCondition {
	const annotationDiffers = `object.metadata.?annotations[?key] != oldObject.metadata.?annotations[?key]`
	return matchCondition{Name: "changes-preset-input", Expression: `request.operation != "UPDATE" ||` +
		` (` + guard.ByController() + ` ? ` +
		protection.QuoteList(vmSpecFields) + `.exists(f, object.?spec[?f] != oldObject.?spec[?f]) :` +
		` object.?spec != oldObject.?spec || object.metadata.?annotations != oldObject.metadata.?annotations && [object, oldObject].exists(o, o.metadata.?annotations.orValue({})` +
		fmt.Sprintf(`.exists(key, !key.startsWith(%q) && key != %q && `, v1alpha1.AnnotationPrefix, corev1.LastAppliedConfigAnnotation) + annotationDiffers + `))) ||` +
		` object.metadata.?labels != oldObject.metadata.?labels ||` +
		` ` + protection.QuoteList(watchedAnnotations) + `.exists(key, ` + annotationDiffers + `) ||` +
		` ` + isMisspelt(v1alpha1.AnnotationRollout, v1alpha1.RolloutHold)}
}

// isMisspelt includes an annotation that gets another value than the one that acts. That one may be
// written while no webhook answers.
func isMisspelt(key, value string) string {
	return fmt.Sprintf("(object.metadata.?annotations[?%[1]q].orValue(%[2]q) != %[2]q && object.metadata.?annotations[?%[1]q] != oldObject.metadata.?annotations[?%[1]q])", key, value)
}

// unguarded excludes requests that the admission policies reject, so that users get the message of
// a policy even if no webhook answers. Without policies, the validating webhook rejects them.
// Policies see objects whose duplicate owner references are merged, so requests that only repeat
// some pass.
func unguarded(guard protection.Guard, kind presets.Kind) matchCondition {
	const repeated = `request.operation == "UPDATE" && [[object, oldObject].map(o, o.metadata.?ownerReferences.orValue([]))]` +
		`.all(r, r[0].size() != r[1].size() && r[0].all(e, e in r[1]) && r[1].all(e, e in r[0]))`
	return matchCondition{Name: "not-rejected-by-policy", Expression: guard.AllowedBy(kind, "owner-references", "reserved-finalizers") + " || " + repeated}
}

// vmiValidated excludes updates of a VMI that change nothing guarded. Alongside KubeVirt, labels
// and annotations are guarded by presets, too, because KubeVirt gives them to the pod of a
// migration.
func vmiValidated(guard protection.Guard) matchCondition {
	expression := `request.operation != "UPDATE" || !(` + guard.KindExpression(presets.VirtualMachineInstance) + `)`
	if guard.Addon {
		expression += ` || object.metadata.?labels != oldObject.metadata.?labels || object.metadata.?annotations != oldObject.metadata.?annotations`
	}
	return matchCondition{Name: "changes-guarded-fields", Expression: expression}
}

// vmValidated excludes updates of a VM that change neither input of presets nor guarded fields. If
// the VM is being deleted, only the latter count.
func vmValidated(guard protection.Guard) matchCondition {
	return matchCondition{Name: "changes-validated-fields", Expression: "(" + notDeleted().Expression + ") && (" + vmChanged(guard).Expression + ")" +
		` || !(` + guard.KindExpression(presets.VirtualMachine) + `)`}
}

// specChanged excludes updates that do not change spec.
func specChanged() matchCondition {
	return matchCondition{Name: "changes-spec", Expression: `request.operation != "UPDATE" || object.?spec != oldObject.?spec`}
}

// specOrApprovalChanged excludes updates of a rollout that neither change spec, nor approve or
// abort, nor mean to pause.
func specOrApprovalChanged() matchCondition {
	return matchCondition{Name: "changes-spec-or-approval", Expression: specChanged().Expression + fmt.Sprintf(
		` || object.metadata.?annotations[?%[1]q] != oldObject.metadata.?annotations[?%[1]q]`+
			` || object.metadata.?annotations[?%[2]q] != oldObject.metadata.?annotations[?%[2]q] || `,
		v1alpha1.AnnotationRolloutApproved, v1alpha1.AnnotationRolloutAborted) + isMisspelt(v1alpha1.AnnotationRolloutPaused, "true")}
}

// inUse excludes deletions of presets that no VM uses.
func inUse() matchCondition {
	return matchCondition{Name: "in-use", Expression: `oldObject.?status.?matched.orValue(0) > 0`}
}

// notByCluster excludes deletions by the garbage collector and by the deletion of a namespace.
func notByCluster() matchCondition {
	return matchCondition{Name: "not-by-a-cluster-controller", Expression: `!request.userInfo.username.startsWith("system:serviceaccount:kube-system:")`}
}

// ofLauncher excludes evictions of pods that run no VMI.
func ofLauncher() matchCondition {
	return matchCondition{Name: "of-the-pod-of-a-vmi", Expression: fmt.Sprintf("request.name.startsWith(%q)", v1alpha1.PodPrefix)}
}
