package host

import (
	"bytes"
	"context"
	_ "embed" // the guest of the probe
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/virtwright/virtwright/launcher/libvirtd"
)

// probeTimeout limits the probe of hardware virtualization, which takes less than a second.
const probeTimeout = 10 * time.Second

// probe is a boot sector, assembled from testdata/probe.asm: it switches to 64 bits with paging,
// computes for a while, and writes bootMessage to the serial port.
//
//go:embed probe.bin
var probe []byte

var bootMessage = []byte("virtwright: long mode")

// probeSize is the size of the disk of the probe: firmware reads no smaller one.
const probeSize = 1 << 20

// probeDomain is the domain of the probe. Its arguments are the kind of domain, the CPU mode, the
// disk and the log of the serial port.
const probeDomain = `<domain type="%s">
  <name>virtwright-probe</name>
  <memory unit="MiB">32</memory>
  <vcpu>1</vcpu>
  <os><type arch="x86_64" machine="q35">hvm</type><boot dev="hd"/></os>
  <cpu mode="%s"/>
  <on_poweroff>destroy</on_poweroff>
  <devices>
    <disk type="file" device="disk"><driver name="qemu" type="raw"/><source file="%s"/><target dev="vda" bus="virtio"/><readonly/></disk>
    <controller type="usb" model="none"/>
    <serial type="file"><source path="%s"/></serial>
    <memballoon model="none"/>
  </devices>
</domain>`

// Virtualizes runs a guest to find out whether hardware virtualization works. /dev/kvm and
// libvirt's capabilities are no proof: a nested guest may hang. The guest is for amd64; on other
// architectures a usable /dev/kvm is enough.
func Virtualizes(ctx context.Context, to *libvirtd.Connection, arch, folder string) (bool, error) {
	device, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0)
	if err != nil {
		return false, nil //nolint:nilerr // the pod has no such device
	}
	device.Close()
	if arch != "amd64" {
		return true, nil
	}
	return boots(ctx, to, "kvm", "host-passthrough", filepath.Join(folder, "probe"))
}

// boots reports whether the guest of the probe runs in a kind of domain with a CPU mode.
func boots(ctx context.Context, to *libvirtd.Connection, kind, cpu, folder string) (bool, error) {
	disk, log := filepath.Join(folder, "disk.img"), filepath.Join(folder, "console.log")
	image := append(bytes.Clone(probe), make([]byte, probeSize-len(probe))...)
	err := errors.Join(os.MkdirAll(folder, 0o700), os.WriteFile(disk, image, 0o600))
	if err != nil {
		return false, fmt.Errorf("cannot create the guest that probes hardware virtualization: %w", err)
	}
	defer func() { _ = os.RemoveAll(folder) }()
	running, err := to.Transient(ctx, fmt.Sprintf(probeDomain, kind, cpu, disk, log))
	if errors.Is(err, libvirtd.ErrNotConnected) {
		return false, err
	}
	if err != nil {
		return false, nil // QEMU or libvirt offers no hardware virtualization
	}
	booted := await(ctx, log)
	return booted, to.Destroy(ctx, running)
}

// await reports whether the guest has written bootMessage in time.
func await(ctx context.Context, log string) bool {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	for {
		if text, err := os.ReadFile(log); err == nil && bytes.Contains(text, bootMessage) {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(50 * time.Millisecond):
		}
	}
}
