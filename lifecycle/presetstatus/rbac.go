package presetstatus

// Permissions of this package.
//
// +kubebuilder:rbac:groups=virtwright.dev,resources=virtualmachinepresets/status;clustervirtualmachinepresets/status;presetexceptions/status,verbs=patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
