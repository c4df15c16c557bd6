package domain

import (
	"fmt"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// The bounds of QEMU on block sizes; s390x has no larger page.
const (
	minBlockSize      = 512
	maxBlockSize      = 2 << 20
	maxBlockSizeS390X = 4096
)

// blockSize says in which blocks the guest reads and writes. Those of its
// volume are late-bound.
func (g *guest) blockSize(d *kubevirtv1.Disk, at *field.Path, out *libvirtxml.DomainDisk) {
	if d.BlockSize == nil {
		return
	}
	custom, match := d.BlockSize.Custom, on(d.BlockSize.MatchVolume)
	switch {
	case custom != nil && match:
		g.refuse(field.Forbidden(at, "must be custom or matchVolume; leave the other one out"))
	case match:
		g.bind(Late{Kind: LateBlockSize, Field: at.Child("matchVolume").String(), Device: d.Name})
	case custom != nil:
		g.checkBlockSize(at.Child("custom", "logical"), custom.Logical)
		g.checkBlockSize(at.Child("custom", "physical"), custom.Physical)
		out.BlockIO = &libvirtxml.DomainDiskBlockIO{LogicalBlockSize: custom.Logical, PhysicalBlockSize: custom.Physical}
		if discard := custom.DiscardGranularity; discard != nil {
			out.BlockIO.DiscardGranularity = new(*discard)
		}
	}
}

func (g *guest) checkBlockSize(at *field.Path, size uint) {
	largest := uint(maxBlockSize)
	if g.arch.channelIO() {
		largest = maxBlockSizeS390X
	}
	if size < minBlockSize || size > largest || size&(size-1) != 0 {
		g.refuse(field.Invalid(at, size, fmt.Sprintf("must be a power of two from %d to %d", minBlockSize, largest)))
	}
}

// diskNames gives disks the names that libvirt orders them by: vda, sdb.
type diskNames struct {
	// kept are the names that disks had before, by the name of the disk.
	kept map[string]string
	// owner is the name of the disk that has a name.
	owner map[string]string
}

var keptForm = regexp.MustCompile(`^[vs]d[a-z]{1,3}$`)

// newDiskNames keeps the names that an instance's status tells: a disk that
// has been there keeps its place when another one goes.
func newDiskNames(vmi *kubevirtv1.VirtualMachineInstance) *diskNames {
	n := &diskNames{kept: map[string]string{}, owner: map[string]string{}}
	for i := range vmi.Status.VolumeStatus {
		status := &vmi.Status.VolumeStatus[i]
		if keptForm.MatchString(status.Target) && n.owner[status.Target] == "" {
			n.kept[status.Name], n.owner[status.Target] = status.Target, status.Name
		}
	}
	return n
}

// next is the name of a disk and its number among those of its prefix.
func (n *diskNames) next(bus, disk string) (string, uint) {
	prefix := "sd"
	if bus == kubevirtv1.VirtIO {
		prefix = "vd"
	}
	kept := n.kept[disk]
	if !strings.HasPrefix(kept, prefix) {
		kept = ""
	}
	for i := uint(0); ; i++ {
		name := prefix + letters(i)
		if kept == "" && n.owner[name] == "" || kept == name {
			n.owner[name] = disk
			return name, i
		}
	}
}

// letters counts a, b, … z, aa, ab.
func letters(i uint) string {
	const base = 26
	tail := string(rune('a' + i%base))
	if i < base {
		return tail
	}
	return letters(i/base-1) + tail
}
