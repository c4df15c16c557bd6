// Package node simulates the nodes of a cluster with KubeVirt, through the API only: scheduler,
// kubelet, virt-handler, CDI and a CSI driver. It runs no guest.
//
// Each loop reads one object, decides its next state (a pure function) and writes it. All state is
// in the API. virt-api calls the nodes' HTTPS server to pause a guest or to freeze its filesystems.
package node
