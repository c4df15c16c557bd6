package webhooks

import (
	"encoding/json"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/validation/protection"
)

// watchedAnnotations make an update worth looking at: those by which authors
// steer, and those that are virtwright's own.
var watchedAnnotations = []string{
	v1alpha1.AnnotationPresets, v1alpha1.AnnotationExclude, v1alpha1.AnnotationReapply, v1alpha1.AnnotationProvenance,
	v1alpha1.AnnotationGenerateTemplate, v1alpha1.AnnotationTemplateRequester,
}

type condition = admissionregistrationv1.MatchCondition

// notDeleted keeps away objects that only wait for their finalizers. What is
// stored says so: what a user sends may say anything before API servers drop it.
func notDeleted() condition {
	return condition{Name: "not-being-deleted", Expression: `request.operation != "UPDATE" || !has(oldObject.metadata.deletionTimestamp)`}
}

// notTrusted keeps away updates by controllers. What they create is looked at:
// it is KubeVirt's controller, or ours, that launches the instances of VMs.
func notTrusted(users []string) condition {
	return condition{
		Name:       "not-an-update-by-a-trusted-writer",
		Expression: fmt.Sprintf(`request.operation != "UPDATE" || !(request.userInfo.username in %s)`, celList(users)),
	}
}

// machineChanged keeps away updates of a VM that change nothing we look at.
func machineChanged() condition {
	return condition{Name: "changes-what-presets-see", Expression: `request.operation != "UPDATE" ||` +
		` object.?spec != oldObject.?spec ||` +
		` object.metadata.?labels != oldObject.metadata.?labels ||` +
		` ` + celList(watchedAnnotations) + `.exists(key, object.metadata.?annotations[?key] != oldObject.metadata.?annotations[?key])`}
}

// unguarded keeps away what the policies of the API server refuse, so that they
// can say so also while no webhook answers. Where there are no policies, the
// validating webhook refuses it. Policies see an object after API servers have
// merged owner references that say the same: who only repeats some is not refused.
func unguarded(guard protection.Guard) condition {
	const repeated = `request.operation == "UPDATE" && [[object, oldObject].map(o, o.metadata.?ownerReferences.orValue([]))]` +
		`.all(r, r[0].size() != r[1].size() && r[0].all(e, e in r[1]) && r[1].all(e, e in r[0]))`
	return condition{Name: "not-refused-by-policy", Expression: guard.Unguarded("owner-references", "reserved-finalizers") + " || " + repeated}
}

// instanceGuarded keeps away updates of an instance that change nothing guarded:
// nobody else may change more of it than labels and annotations.
func instanceGuarded(guard protection.Guard) condition {
	return condition{Name: "changes-what-is-guarded", Expression: `request.operation != "UPDATE" || !(` + guard.Expression(presets.VirtualMachineInstance) + `)`}
}

// machineGuarded keeps away updates of a VM that change neither what presets
// see nor what is guarded. If the VM is being deleted, only the latter counts.
func machineGuarded(guard protection.Guard) condition {
	return condition{Name: "changes-what-is-validated", Expression: "(" + notDeleted().Expression + ") && (" + machineChanged().Expression + ")" +
		` || !(` + guard.Expression(presets.VirtualMachine) + `)`}
}

// specChanged keeps away updates that leave spec as it is.
func specChanged() condition {
	return condition{Name: "changes-spec", Expression: `request.operation != "UPDATE" || object.?spec != oldObject.?spec`}
}

// inUse keeps away deletions of presets that no VM has.
func inUse() condition {
	return condition{Name: "in-use", Expression: `oldObject.?status.?matched.orValue(0) > 0`}
}

// notByCluster keeps away what the garbage collector and the deletion of a namespace delete.
func notByCluster() condition {
	return condition{Name: "not-by-a-controller-of-the-cluster", Expression: `!request.userInfo.username.startsWith("system:serviceaccount:kube-system:")`}
}

// celList is a list of strings in CEL, whose string literals are JSON's and more.
func celList(items []string) string {
	if items == nil {
		items = []string{}
	}
	text, err := json.Marshal(items)
	if err != nil { // unreachable: strings can be encoded
		return "[]"
	}
	return string(text)
}
