package templates

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	sspv1alpha1 "github.com/virtwright/virtwright/api/ssp/v1alpha1"
)

// finished reports whether nothing more will be done for a request.
func finished(status *sspv1alpha1.VirtualMachineTemplateRequestStatus) bool {
	return meta.IsStatusConditionFalse(status.Conditions, sspv1alpha1.ConditionProgressing)
}

// made is the outcome of a request whose template is there.
func made(s *sight) *outcome {
	return &outcome{ready: true, reason: sspv1alpha1.ReasonReconciled, terminal: true, message: fmt.Sprintf("%s %s is there", s.format.Kind.Kind, s.name)}
}

// set writes the conditions Ready and Progressing. Nothing else does.
func set(status *sspv1alpha1.VirtualMachineTemplateRequestStatus, o *outcome, s *sight) {
	ready, progressing := metav1.ConditionFalse, metav1.ConditionTrue
	if o.ready {
		ready = metav1.ConditionTrue
		if status.CompletionTime == nil {
			status.CompletionTime = &metav1.Time{Time: s.now}
		}
	}
	if o.terminal {
		progressing = metav1.ConditionFalse
	}
	for kind, value := range map[string]metav1.ConditionStatus{sspv1alpha1.ConditionReady: ready, sspv1alpha1.ConditionProgressing: progressing} {
		meta.SetStatusCondition(&status.Conditions, metav1.Condition{
			Type: kind, Status: value, Reason: o.reason, Message: fitting(o.message),
			ObservedGeneration: s.request.Generation, LastTransitionTime: metav1.Time{Time: s.now},
		})
	}
}

// verified writes the condition Verified. Nothing else does.
func verified(status *sspv1alpha1.VirtualMachineTemplateRequestStatus, err error, s *sight) {
	condition := metav1.Condition{
		Type: sspv1alpha1.ConditionVerified, Status: metav1.ConditionTrue, Reason: sspv1alpha1.ReasonRoundTrip,
		Message:            "processing the template with its defaults, and with what it withholds, gives the VirtualMachine back",
		ObservedGeneration: s.request.Generation, LastTransitionTime: metav1.Time{Time: s.now},
	}
	if err != nil {
		condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, sspv1alpha1.ReasonVerificationFailed, fitting(err.Error())
	}
	meta.SetStatusCondition(&status.Conditions, condition)
}

// fitting is as much of a message as a condition takes.
func fitting(message string) string {
	const most = 32 << 10 / 4 // characters of up to four bytes
	if runes := []rune(message); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return message
}

func refer(template *unstructured.Unstructured) *sspv1alpha1.TemplateReference {
	return &sspv1alpha1.TemplateReference{
		APIVersion: template.GetAPIVersion(), Kind: template.GetKind(), Namespace: template.GetNamespace(), Name: template.GetName(), UID: template.GetUID(),
	}
}
