package hypervisor

import (
	"bytes"
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
)

// The types of files in an archive, as stat(2) has them.
const (
	typeDirectory = 0o040000
	typeFile      = 0o100000
	typeCharacter = 0o020000
)

// dhcpScript is called by udhcpc. It configures the interface and prints the address.
const dhcpScript = `#!/bin/busybox sh
[ "$1" = bound ] || exit 0
ip addr add "$ip/$mask" dev "$interface"
[ -z "$router" ] || ip route add default via "$router"
for server in $dns; do echo "nameserver $server"; done >/etc/resolv.conf
[ -z "$search$domain" ] || echo "search ${search:-$domain}" >>/etc/resolv.conf
echo "$ip/$mask"
`

// issue is what the guest prints before its login prompt.
const issue = "\nThis is the test guest. Log in as root, without a password.\n"

// page is what the guest's HTTP server answers with.
const page = "hello from the test guest\n"

// initrd is the initramfs: busybox, the init, and drivers to load in order. It is not compressed,
// which an emulated CPU takes longer to undo than QEMU to load it.
func (b *guestBuild) initrd(drivers []string) ([]byte, error) {
	var a archive
	for _, dir := range []string{"bin", "dev", "etc", "proc", "sys", "mnt", "modules", "www"} {
		a.add(dir, typeDirectory|0o755, nil)
	}
	a.addDevice("dev/console", 0o600, 5, 1)
	a.add("bin/busybox", typeFile|0o755, b.busybox)
	a.add("init", typeFile|0o755, initScript)
	a.add("etc/passwd", typeFile|0o644, []byte("root::0:0:root:/:/bin/sh\n"))
	a.add("etc/issue", typeFile|0o644, []byte(issue))
	a.add("www/index.html", typeFile|0o644, []byte(page))
	a.add("dhcp", typeFile|0o755, []byte(dhcpScript))
	var order bytes.Buffer
	for _, path := range drivers {
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("cannot read a module of the kernel: %w", err)
		}
		a.add("modules/"+filepath.Base(path), typeFile|0o644, content)
		fmt.Fprintln(&order, filepath.Base(path))
	}
	a.add("modules/order", typeFile|0o644, order.Bytes())
	return a.bytes(), nil
}

// readBusybox reads the busybox of this machine, which must need no library.
func readBusybox() ([]byte, error) {
	path, err := lookup("busybox")
	if err != nil {
		return nil, err
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read busybox: %w", err)
	}
	program, err := elf.NewFile(bytes.NewReader(content))
	if err != nil {
		return nil, fmt.Errorf("cannot read busybox: %w", err)
	}
	if program.Section(".interp") != nil {
		return nil, fmt.Errorf("cannot use %s in a guest: it needs libraries; install the package busybox-static", path)
	}
	return content, nil
}

// archive is a cpio archive in the "new ASCII" format, which the kernel reads
// (Documentation/driver-api/early-userspace/buffer-format.rst). Everything in it belongs to root
// and has no date, so that equal parts make equal bytes.
type archive struct {
	content bytes.Buffer
	entries int
}

func (a *archive) add(name string, mode int, content []byte) { a.entry(name, mode, [2]int{}, content) }

func (a *archive) addDevice(name string, mode, major, minor int) {
	a.entry(name, typeCharacter|mode, [2]int{major, minor}, nil)
}

func (a *archive) entry(name string, mode int, device [2]int, content []byte) {
	a.entries++
	const owner, group, links, date, diskMajor, diskMinor, checksum = 0, 0, 1, 0, 0, 0, 0
	a.content.WriteString("070701")
	for _, field := range []int{
		a.entries, mode, owner, group, links, date, len(content), diskMajor, diskMinor, device[0], device[1], len(name) + 1, checksum,
	} {
		fmt.Fprintf(&a.content, "%08x", field)
	}
	a.content.WriteString(name + "\x00")
	a.pad()
	a.content.Write(content)
	a.pad()
}

// pad fills up to a multiple of four bytes.
func (a *archive) pad() {
	for a.content.Len()%4 != 0 {
		a.content.WriteByte(0)
	}
}

// bytes ends the archive.
func (a *archive) bytes() []byte {
	a.add("TRAILER!!!", 0, nil)
	return a.content.Bytes()
}
