// Package v1alpha1 holds the kind of group ssp.kubevirt.io that asks for a template: VirtualMachineTemplateRequest.
//
// A request names a VirtualMachine and the form of the template to make of it. Package lifecycle/templates serves it. The
// package declares shapes only and imports nothing of this module.
//
// The doc comments of this package become the texts of `kubectl explain`, so they are written for users.
//
// +kubebuilder:object:generate=true
// +groupName=ssp.kubevirt.io
package v1alpha1

//go:generate go tool -modfile=../../tools/go.mod controller-gen object paths=.
//go:generate go tool -modfile=../../tools/go.mod controller-gen crd paths=. output:crd:dir=../../../charts/virtwright/files/crds
