package presetscan

// What this package asks of API servers; the chart makes roles of it.
//
// +kubebuilder:rbac:groups=kubevirt.io,resources=virtualmachines,verbs=list
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch
