package presetrollout

// Permissions of this package.
//
// +kubebuilder:rbac:groups=virtwright.dev,resources=presetrollouts/status,verbs=patch
// +kubebuilder:rbac:groups=kubevirt.io,resources=virtualmachines,verbs=patch
// +kubebuilder:rbac:groups=subresources.kubevirt.io,resources=virtualmachines/restart,verbs=update
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
