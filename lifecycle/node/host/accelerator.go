package host

import (
	"bytes"
	"context"
	_ "embed" // the guest that proves hardware virtualization
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/virtwright/virtwright/lifecycle/node/libvirtd"
)

// probeTimeout is how long the guest may take that proves hardware
// virtualization. It takes less than a second.
const probeTimeout = 10 * time.Second

// probe is a boot sector, assembled from testdata/probe.asm: it switches to 64
// bits with paging, works a while, and says so on the serial port.
//
//go:embed probe.bin
var probe []byte

// said is what it says.
var said = []byte("virtwright: long mode")

// probeSize is that of its disk: firmware reads no smaller one.
const probeSize = 1 << 20

// probeDomain runs it: the verbs are the kind of domain, its processor, the
// emulator's element, the disk and the file that takes what is said.
const probeDomain = `<domain type="%s">
  <name>virtwright-probe</name>
  <memory unit="MiB">32</memory>
  <vcpu>1</vcpu>
  <os><type arch="x86_64" machine="q35">hvm</type><boot dev="hd"/></os>
  <cpu mode="%s"/>
  <on_poweroff>destroy</on_poweroff>
  <devices>
    %s
    <disk type="file" device="disk"><driver name="qemu" type="raw"/><source file="%s"/><target dev="vda" bus="virtio"/><readonly/></disk>
    <controller type="usb" model="none"/>
    <serial type="file"><source path="%s"/></serial>
    <memballoon model="none"/>
  </devices>
</domain>`

// Virtualizes says whether the host runs guests in hardware: it runs one. That
// there is /dev/kvm, that it makes virtual processors, and that libvirt offers
// it is no proof: nested, a guest may then hang for good. Only for amd64 there
// is a guest to try; elsewhere it errs, and somebody must say.
func Virtualizes(ctx context.Context, to *libvirtd.Connection, arch, emulator, folder string) (bool, error) {
	if arch != "amd64" {
		return false, fmt.Errorf("cannot try hardware virtualization on %s: say --kvm=true or --kvm=false", arch)
	}
	element := ""
	if emulator != "" {
		element = "<emulator>" + emulator + "</emulator>"
	}
	return speaks(ctx, to, trial{"kvm", "host-passthrough", element, filepath.Join(folder, "probe")})
}

// A trial is a way to run the guest.
type trial struct{ kind, cpu, emulator, folder string }

// speaks says whether the guest runs as far as to say so.
func speaks(ctx context.Context, to *libvirtd.Connection, t trial) (bool, error) {
	disk, says := filepath.Join(t.folder, "disk.img"), filepath.Join(t.folder, "says.log")
	image := append(bytes.Clone(probe), make([]byte, probeSize-len(probe))...)
	_ = os.RemoveAll(t.folder)
	err := errors.Join(os.MkdirAll(t.folder, 0o711), os.WriteFile(disk, image, 0o644), os.WriteFile(says, nil, 0o666), os.Chmod(says, 0o666))
	if err != nil {
		return false, fmt.Errorf("cannot make the guest that tries hardware virtualization: %w", err)
	}
	defer func() { _ = os.RemoveAll(t.folder) }()
	running, err := to.Transient(ctx, fmt.Sprintf(probeDomain, t.kind, t.cpu, t.emulator, disk, says))
	if errors.Is(err, libvirtd.ErrNotConnected) {
		return false, err
	}
	if err != nil {
		return false, nil // QEMU or libvirt has no hardware virtualization to offer
	}
	proven := await(ctx, says)
	if err := to.Destroy(ctx, running); err != nil && !libvirtd.Moved(err) {
		return proven, err
	}
	return proven, ctx.Err()
}

// await says whether the guest has spoken in time.
func await(ctx context.Context, says string) bool {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	for {
		if text, err := os.ReadFile(says); err == nil && bytes.Contains(text, said) {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(50 * time.Millisecond):
		}
	}
}
