package nameconflict

// What this package asks of API servers; the chart makes roles of it. It writes
// conditions in mode standalone alone: package virtualmachine asks for that.
//
// +kubebuilder:rbac:groups=kubevirt.io,resources=virtualmachines,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create
