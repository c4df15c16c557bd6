package nameindex

// What this package asks of API servers; the chart makes roles of it.
//
// +kubebuilder:rbac:groups=kubevirt.io,resources=virtualmachines;virtualmachineinstances,verbs=get;list;watch
