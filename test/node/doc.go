// Package node tells stories of guests that really boot: from a sparse
// VirtualMachine through presets, the lifecycle controller and the node agent to
// QEMU, and back to status; and of agents, libvirt daemons and emulators that are
// killed meanwhile.
//
// The cluster is the embedded control plane, the manager is the program, the
// agent is the program as its own user with a token that is bound to a pod of its
// node, and libvirt and QEMU are those of package hypervisor.
package node
