// Package v1alpha1 defines the kinds of group virtwright.dev: presets, profiles, exceptions and
// rollouts.
//
// A preset is a partial VirtualMachine with a selector of VMs. VirtualMachinePreset applies in its
// own namespace, ClusterVirtualMachinePreset in all; both have the same PresetSpec. Package presets
// implements them. This package imports nothing of this module.
//
// The doc comments of fields are the texts of `kubectl explain`, so they are written for users.
//
// +kubebuilder:object:generate=true
// +groupName=virtwright.dev
package v1alpha1

//go:generate go tool -modfile=../tools/go.mod controller-gen object paths=.
//go:generate go tool -modfile=../tools/go.mod controller-gen crd paths=. output:crd:dir=../../charts/virtwright/files/crds
//go:generate go tool -modfile=../tools/go.mod controller-gen rbac:roleName=serving,fileName=serving.yaml paths=../../webhooks;../../lifecycle/presetcache output:rbac:dir=../../charts/virtwright/files/rbac
//go:generate go tool -modfile=../tools/go.mod controller-gen rbac:roleName=controllers,fileName=controllers.yaml paths=../../lifecycle/presetstatus;../../lifecycle/presetrevision;../../lifecycle/presetrollout;../../lifecycle/nameconflict;../../templates output:rbac:dir=../../charts/virtwright/files/rbac
//go:generate go tool -modfile=../tools/go.mod controller-gen rbac:roleName=instancetypes,fileName=instancetypes.yaml paths=../../lifecycle/instancetypes output:rbac:dir=../../charts/virtwright/files/rbac
//go:generate go tool -modfile=../tools/go.mod controller-gen rbac:roleName=machines,fileName=machines.yaml paths=../../lifecycle/virtualmachine;../../lifecycle/virtualmachineinstance;../../lifecycle/profilecache output:rbac:dir=../../charts/virtwright/files/rbac
//go:generate go tool -modfile=../tools/go.mod controller-gen rbac:roleName=subresources,fileName=subresources.yaml paths=../../subresources output:rbac:dir=../../charts/virtwright/files/rbac
//go:generate go tool -modfile=../tools/go.mod controller-gen rbac:roleName=injection,fileName=injection.yaml paths=../../certs output:rbac:dir=../../charts/virtwright/files/rbac
