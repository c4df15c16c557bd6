package presetcache

// What this package asks of API servers; the chart makes roles of it.
//
// +kubebuilder:rbac:groups=virtwright.dev,resources=virtualmachinepresets;clustervirtualmachinepresets,verbs=get;list;watch
// +kubebuilder:rbac:groups=kubevirt.io,resources=virtualmachineinstancepresets,verbs=get;list;watch
