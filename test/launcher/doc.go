// Package launcher tests the launcher as its pod runs it: as the first process of its own PID,
// mount and network namespaces, as user 107 without capabilities, on a read-only root, with libvirt
// and QEMU of this machine. Guests boot under emulation. It needs root, which makes the namespaces.
package launcher
