// Package v1alpha1 defines VirtualMachineTemplateRequest of group ssp.kubevirt.io.
//
// A request names a VirtualMachine and the format of the template to create from it. Package
// templates implements it. This package imports nothing of this module.
//
// The doc comments of fields are the texts of `kubectl explain`, so they are written for users.
//
// +kubebuilder:object:generate=true
// +groupName=ssp.kubevirt.io
package v1alpha1

//go:generate go tool -modfile=../../tools/go.mod controller-gen object paths=.
//go:generate go tool -modfile=../../tools/go.mod controller-gen crd paths=. output:crd:dir=../../../charts/virtwright/files/crds
