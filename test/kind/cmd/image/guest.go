package main

import (
	"context"
	"os"

	"github.com/virtwright/virtwright/test/hypervisor"
	"github.com/virtwright/virtwright/test/kind/image"
)

const guestTag = "test"

// diskText begins the disk of the guest's image. It has diskSize bytes.
const (
	diskText = "hello from the container disk\n"
	diskSize = 1 << 20
)

// guestImage has the kernel of the test guest below /boot, for kernelBoot, a disk below /disk, for
// container disks, and /bin/busybox, for pods that are clients of guests.
func guestImage(ctx context.Context, o options, _ string) (artifact, error) {
	guest, err := hypervisor.BuildGuest(ctx, os.Stderr)
	if err != nil {
		return artifact{}, err
	}
	disk := make([]byte, diskSize)
	copy(disk, diskText)
	return artifact{image: image.Image{
		Names:  []string{registry + "guest:" + o.tag},
		Config: image.Config{User: unprivileged},
		Layers: []image.Layer{image.Files(
			image.File{Path: "bin/busybox", Mode: 0o755, Source: guest.Busybox},
			image.File{Path: "boot/vmlinuz", Source: guest.Kernel},
			image.File{Path: "boot/initrd.img", Source: guest.Initrd},
			image.File{Path: "disk/disk.img", Content: disk},
		)},
	}}, nil
}
