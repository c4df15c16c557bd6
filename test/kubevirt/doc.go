// Package kubevirt runs KubeVirt's real virt-api and virt-controller on a control plane without
// nodes, and virtwright with them, installed by its chart in mode addon. Package node simulates
// the nodes.
//
// The programs are built from KubeVirt's Go module once and cached, like those of the control
// plane. Their objects are those that virt-operator applies, written by KubeVirt's own code.
package kubevirt
