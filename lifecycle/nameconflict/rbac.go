package nameconflict

// Permissions of the controller. Package virtualmachine has those for conditions.
//
// +kubebuilder:rbac:groups=kubevirt.io,resources=virtualmachines,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create
