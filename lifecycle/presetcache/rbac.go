package presetcache

// What this package asks of API servers; the chart makes roles of it. KubeVirt's
// own presets are for mode standalone alone: package virtualmachine asks for them.
//
// +kubebuilder:rbac:groups=virtwright.dev,resources=virtualmachinepresets;clustervirtualmachinepresets;presetexceptions,verbs=list;watch
