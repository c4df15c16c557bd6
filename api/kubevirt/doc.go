// Package kubevirt generates the CRDs of kubevirt.io, for clusters without KubeVirt.
//
// KubeVirt's Go types lack markers for status subresource, short names, columns and versions, which
// KubeVirt's operator adds at run time. The packages below add these markers to kinds with
// KubeVirt's spec and status. There is one package for each kind and version, as controller-gen
// requires. Code that handles these objects uses kubevirt.io/api instead.
//
// Each kind has its own run, because kinds of one run would share types. KubeVirt's types contain
// floats, hence allowDangerousTypes.
//
// As in KubeVirt, VirtualMachineInstance has no status subresource, and unknown fields are kept in
// the metadata of the template and of dataVolumeTemplates, and in domain.clock. The CRDs are too
// large for the annotation of a client-side `kubectl apply`: use `kubectl apply --server-side` or
// Helm.
package kubevirt

//go:generate go tool -modfile=../tools/go.mod controller-gen crd:allowDangerousTypes=true paths=./virtualmachine/... output:crd:dir=../../charts/virtwright/files/crds
//go:generate go -C ../tools run ./seedversion ../../charts/virtwright/files/crds/kubevirt.io_virtualmachines.yaml
//go:generate go tool -modfile=../tools/go.mod controller-gen crd:allowDangerousTypes=true paths=./virtualmachineinstance/... output:crd:dir=../../charts/virtwright/files/crds
//go:generate go tool -modfile=../tools/go.mod controller-gen crd:allowDangerousTypes=true paths=./virtualmachineinstancepreset/... output:crd:dir=../../charts/virtwright/files/crds
