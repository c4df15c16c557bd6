// Package kubevirt generates the CRDs of kubevirt.io that the chart installs
// where there is no KubeVirt.
//
// KubeVirt publishes Go types, but none that a CRD could be generated from as
// they are: its operator adds status subresource, short names, columns and
// versions when it runs. The packages below say just that, in markers on kinds
// whose spec and status are KubeVirt's own; one package for each kind and
// version, because controller-gen knows a version by its package. Nothing
// imports them: code that handles these objects uses kubevirt.io/api.
//
// Each kind has its own run, since two kinds in one run meet in the types that
// they share. KubeVirt's types hold floats, hence allowDangerousTypes.
//
// As in KubeVirt, VirtualMachineInstance has no status subresource, and unknown
// fields survive in three places: the metadata of the template and of
// dataVolumeTemplates, and domain.clock. With their descriptions the CRDs are
// larger than the annotation that a client-side `kubectl apply` keeps, so they
// are installed with `kubectl apply --server-side` or by Helm.
package kubevirt

//go:generate go tool -modfile=../tools/go.mod controller-gen crd:allowDangerousTypes=true paths=./virtualmachine/... output:crd:dir=../../charts/virtwright/files/crds
//go:generate go -C ../tools run ./seedversion ../../charts/virtwright/files/crds/kubevirt.io_virtualmachines.yaml
//go:generate go tool -modfile=../tools/go.mod controller-gen crd:allowDangerousTypes=true paths=./virtualmachineinstance/... output:crd:dir=../../charts/virtwright/files/crds
//go:generate go tool -modfile=../tools/go.mod controller-gen crd:allowDangerousTypes=true paths=./virtualmachineinstancepreset/... output:crd:dir=../../charts/virtwright/files/crds
