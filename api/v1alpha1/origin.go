package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// CreatedByController reports whether a lifecycle controller, ours or KubeVirt's, created a VMI.
// Users cannot write the annotations that prove it.
func CreatedByController(vmi metav1.Object) bool {
	annotations := vmi.GetAnnotations()
	return annotations[AnnotationOwnerUID] != "" || annotations[kubevirtv1.VirtualMachineGenerationAnnotation] != ""
}
