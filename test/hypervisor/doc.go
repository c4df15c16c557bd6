// Package hypervisor gives tests a real libvirt and QEMU on a machine without systemd, and a guest
// that says on its serial console what hardware it sees.
//
// [Start] runs a session libvirtd as an unprivileged user in a short folder of its own; no account,
// file or process of the machine is changed. Domains run under software emulation: the presence of
// /dev/kvm does not mean that it works. [Daemon.Guest] is a kernel and an initramfs made of Debian
// packages, built at first use and cached. [Console] reads what that guest says.
//
// A test that needs none of the machine's own devices is written as
//
//	daemon := hypervisor.Start(t)
//	guest := daemon.Guest(t)
//	// define a domain that boots guest.Kernel with guest.Initrd and logs its
//	// serial console to a file in daemon.Dir, start it with daemon.Virsh, then
//	facts, err := hypervisor.Console(file).Ready(ctx)
//
// It skips where libvirt and QEMU are missing, unless VIRTWRIGHT_HYPERVISOR is "require": then it
// fails, so that CI cannot pass by skipping.
package hypervisor
