package presetcache

// Permissions of this package. Package virtualmachine has those for KubeVirt's presets, in mode
// standalone.
//
// +kubebuilder:rbac:groups=virtwright.dev,resources=virtualmachinepresets;clustervirtualmachinepresets;presetexceptions;presetrollouts,verbs=list;watch
