// Package v1alpha1 holds the kinds of group virtwright.dev: the presets that make sparse virtual machines whole.
//
// A preset is a partial VirtualMachine with a rule that says where it belongs. VirtualMachinePreset acts in its own
// namespace, ClusterVirtualMachinePreset everywhere; both carry the same PresetSpec. The package declares shapes only:
// what they mean to an object is decided by package presets. It imports nothing of this module.
//
// The doc comments of this package become the texts of `kubectl explain`, so they are written for policy authors.
//
// +kubebuilder:object:generate=true
// +groupName=virtwright.dev
package v1alpha1

//go:generate go tool -modfile=../tools/go.mod controller-gen object paths=.
//go:generate go tool -modfile=../tools/go.mod controller-gen crd paths=. output:crd:dir=../../charts/virtwright/files/crds
//go:generate go tool -modfile=../tools/go.mod controller-gen rbac:roleName=serving,fileName=serving.yaml paths=../../webhooks;../../lifecycle/presetcache;../../lifecycle/nameindex output:rbac:dir=../../charts/virtwright/files/rbac
//go:generate go tool -modfile=../tools/go.mod controller-gen rbac:roleName=controllers,fileName=controllers.yaml paths=../../lifecycle/presetstatus;../../lifecycle/exceptionstatus;../../lifecycle/nameconflict;../../lifecycle/templates output:rbac:dir=../../charts/virtwright/files/rbac
//go:generate go tool -modfile=../tools/go.mod controller-gen rbac:roleName=instancetypes,fileName=instancetypes.yaml paths=../../lifecycle/instancetypes output:rbac:dir=../../charts/virtwright/files/rbac
//go:generate go tool -modfile=../tools/go.mod controller-gen rbac:roleName=machines,fileName=machines.yaml paths=../../lifecycle/virtualmachine;../../lifecycle/profilecache output:rbac:dir=../../charts/virtwright/files/rbac
//go:generate go tool -modfile=../tools/go.mod controller-gen rbac:roleName=subresources,fileName=subresources.yaml paths=../../lifecycle/subresources output:rbac:dir=../../charts/virtwright/files/rbac
//go:generate go tool -modfile=../tools/go.mod controller-gen rbac:roleName=node,fileName=node.yaml paths=../../lifecycle/node output:rbac:dir=../../charts/virtwright/files/rbac
//go:generate go tool -modfile=../tools/go.mod controller-gen rbac:roleName=injection,fileName=injection.yaml paths=../../certs output:rbac:dir=../../charts/virtwright/files/rbac
