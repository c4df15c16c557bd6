package validation

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

var volumeContentRules = []Rule{{
	ID:          "container-disk-image",
	Requirement: "A container disk names an image.",
	Strictness:  StricterThanKubeVirt,
	Check: forEach(volumesOf, func(vm *ExpandedVM, r *Report, i int, volume *kubevirtv1.Volume) {
		if v := volume.ContainerDisk; v != nil && v.Image == "" {
			r.Add(field.Required(vm.volumePath(i, "containerDisk", "image"), "must name the image, such as quay.io/containerdisks/fedora:42"))
		}
	}),
}, {
	ID:          "empty-disk-capacity",
	Requirement: "An empty disk has a capacity.",
	Check: forEach(volumesOf, func(vm *ExpandedVM, r *Report, i int, volume *kubevirtv1.Volume) {
		// A capacity that was not given has no format.
		if v := volume.EmptyDisk; v != nil && v.Capacity.Format == "" {
			r.Add(field.Required(vm.volumePath(i, "emptyDisk", "capacity"), "must be the size of the disk, such as 1Gi"))
		}
	}),
}, {
	ID:          "empty-disk-capacity-positive",
	Requirement: "The capacity of an empty disk is positive.",
	Strictness:  StricterThanKubeVirt,
	Check: forEach(volumesOf, func(vm *ExpandedVM, r *Report, i int, volume *kubevirtv1.Volume) {
		if v := volume.EmptyDisk; v != nil && v.Capacity.Format != "" && v.Capacity.Sign() <= 0 {
			r.Add(field.Invalid(vm.volumePath(i, "emptyDisk", "capacity"), v.Capacity.String(), "must be positive, such as 1Gi"))
		}
	}),
}, {
	ID:          "image-pull-policy-known",
	Leaf:        true,
	Requirement: "The pull policy of an image is " + pullPolicies.String() + ".",
	Check: func(vm *ExpandedVM, r *Report) {
		check := func(policy corev1.PullPolicy, at func() *field.Path) { pullPolicies.checkIfSet(r, string(policy), at) }
		for i, volume := range pointers(volumesOf(vm)) {
			if v := volume.ContainerDisk; v != nil {
				check(v.ImagePullPolicy, func() *field.Path { return vm.volumePath(i, "containerDisk", "imagePullPolicy") })
			}
		}
		if boot := firmwareOf(vm).KernelBoot; boot != nil && boot.Container != nil {
			check(boot.Container.ImagePullPolicy, func() *field.Path { return vm.Domain("firmware", "kernelBoot", "container", "imagePullPolicy") })
		}
	},
}, {
	ID:          "volume-object-name",
	Leaf:        true,
	Requirement: "The names of a volume's claim, data volume, config map, secret, service account and pull secret are valid names of objects.",
	Strictness:  StricterThanKubeVirt,
	Check: forEach(volumesOf, func(vm *ExpandedVM, r *Report, i int, volume *kubevirtv1.Volume) {
		if name, at := objectName(volume); name != "" && !isDNSSubdomain(name) {
			r.Add(field.Invalid(vm.volumePath(i, at...), name, dnsSubdomainDetail))
		}
	}),
}}

var pullPolicies = valueSet{"Always", "IfNotPresent", "Never"}

// objectName returns the name of the object that a volume reads, and the field that has the name.
func objectName(v *kubevirtv1.Volume) (name string, at []string) {
	switch {
	case v.Ephemeral != nil && v.Ephemeral.PersistentVolumeClaim != nil:
		return v.Ephemeral.PersistentVolumeClaim.ClaimName, []string{"ephemeral", "persistentVolumeClaim", "claimName"}
	case v.ConfigMap != nil:
		return v.ConfigMap.Name, []string{"configMap", "name"}
	case v.Secret != nil:
		return v.Secret.SecretName, []string{"secret", "secretName"}
	case v.ServiceAccount != nil:
		return v.ServiceAccount.ServiceAccountName, []string{"serviceAccount", "serviceAccountName"}
	case v.ContainerDisk != nil:
		return v.ContainerDisk.ImagePullSecret, []string{"containerDisk", "imagePullSecret"}
	}
	return claimOf(v)
}
