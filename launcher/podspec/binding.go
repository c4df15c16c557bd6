package podspec

import (
	corev1 "k8s.io/api/core/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/api/v1alpha1"
)

// Binding returns a pod that is scheduled like the pod of a VMI, with its labels and volumes, and
// ends at once. It is the first consumer for which storage waits until it provides the volume of a
// claim.
func Binding(of *corev1.Pod) *corev1.Pod {
	const uidPart = 8
	uid := string(of.OwnerReferences[0].UID)
	out := of.DeepCopy()
	out.Name = shortened(of.Name, uid, longestName-len("-bind-")-uidPart, nameDigest) + "-bind-" + uid[:min(len(uid), uidPart)]
	delete(out.Labels, kubevirtv1.CreatedByLabel) // its budget is not for this pod
	delete(out.Labels, kubevirtv1.VirtualMachineInstanceIDLabel)
	out.Annotations = nil // may add containers
	out.Spec.InitContainers = nil
	launcher := &out.Spec.Containers[0]
	launcher.Command, launcher.Env, launcher.Ports = v1alpha1.LauncherBind, nil, nil
	launcher.StartupProbe, launcher.LivenessProbe = nil, nil // it is never ready, so no Service uses it
	return out
}
