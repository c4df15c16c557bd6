// Package files finds and creates the files of a VMI's volumes: those that the kubelet has mounted,
// images of empty disks, ISO images of cloud-init data, ConfigMaps and Secrets, and overlays of
// read-only images.
//
// An image that a guest writes to is always treated as raw: otherwise the guest could name another
// file of the pod as its backing file. The format of other images is probed once.
package files

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/domain"
)

const (
	// DataFolder has the ISO images of volumes of files, as VOLUME.iso.
	DataFolder = v1alpha1.RunFolder + "/data"
	// OverlayFolder has the overlays of read-only volumes, as VOLUME.qcow2.
	OverlayFolder = v1alpha1.RunFolder + "/overlays"

	imageName = "disk.img"
)

// A volume is a volume of a VMI.
type volume struct {
	*kubevirtv1.Volume
	vmi   *kubevirtv1.VirtualMachineInstance
	input domain.InputVolume
	at    *field.Path
}

// Prepare creates the files of all volumes and returns their facts by name. It joins all errors,
// each with the path of its field.
func Prepare(ctx context.Context, in *domain.Input) (map[string]domain.VolumeFacts, error) {
	if err := errors.Join(os.MkdirAll(DataFolder, 0o700), os.MkdirAll(OverlayFolder, 0o700)); err != nil {
		return nil, fmt.Errorf("cannot create a folder: %w", err)
	}
	facts := map[string]domain.VolumeFacts{}
	var problems []error
	for i := range in.VMI.Spec.Volumes {
		v := &volume{&in.VMI.Spec.Volumes[i], in.VMI, in.Volumes[in.VMI.Spec.Volumes[i].Name], field.NewPath("spec", "volumes").Index(i)}
		found, err := v.prepare(ctx)
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", v.at, err))
			continue
		}
		facts[v.Name] = *found
	}
	return facts, errors.Join(problems...)
}

// folder is where the kubelet has mounted the volume.
func (v *volume) folder() string { return filepath.Join(v1alpha1.VolumesFolder, v.Name) }

func (v *volume) prepare(ctx context.Context) (*domain.VolumeFacts, error) {
	switch {
	case v.PersistentVolumeClaim != nil, v.DataVolume != nil, v.Ephemeral != nil:
		if v.input.Block {
			return look(filepath.Join(v1alpha1.BlockFolder, v.Name))
		}
		if v.Ephemeral != nil { // the claim is read-only
			return look(filepath.Join(v.folder(), imageName))
		}
		return sparse(filepath.Join(v.folder(), imageName), v.input.Capacity, shrink)
	case v.HostDisk != nil:
		capacity := &v.HostDisk.Capacity
		if v.HostDisk.Type != kubevirtv1.HostDiskExistsOrCreate {
			capacity = nil
		}
		return sparse(filepath.Join(v.folder(), filepath.Base(v.HostDisk.Path)), capacity, fail)
	case v.EmptyDisk != nil:
		return sparse(filepath.Join(v.folder(), imageName), &v.EmptyDisk.Capacity, grow)
	case v.ContainerDisk != nil:
		return v.containerDisk(ctx)
	case v.ConfigMap != nil, v.Secret != nil, v.ServiceAccount != nil, v.DownwardAPI != nil, v.Sysprep != nil,
		v.CloudInitNoCloud != nil, v.CloudInitConfigDrive != nil:
		return v.data(ctx, nil)
	}
	return nil, errors.New("this kind of volume is not supported by the launcher")
}

// A shortage says what happens if a file system has less free space than the capacity of an image.
type shortage int

const (
	grow   shortage = iota // the image has the capacity: the pod is evicted if it uses too much
	shrink                 // the image has the size of the free space: file systems of claims need some themselves
	fail
)

// sparse returns the facts of a raw image. It creates a missing image with a capacity.
func sparse(file string, capacity *resource.Quantity, onShortage shortage) (*domain.VolumeFacts, error) {
	if _, err := os.Lstat(file); !errors.Is(err, fs.ErrNotExist) || capacity == nil || capacity.Value() <= 0 {
		return look(file)
	}
	var system syscall.Statfs_t
	if err := syscall.Statfs(filepath.Dir(file), &system); err != nil {
		return nil, fmt.Errorf("cannot read the size of the file system: %w", err)
	}
	const sector = 4096
	size, free := capacity.Value(), int64(system.Bavail)*system.Bsize
	if onShortage == shrink {
		size = min(size, free)
	}
	if size = size / sector * sector; size == 0 || onShortage == fail && size > free {
		return nil, fmt.Errorf("cannot create a disk of %s: %d bytes are free", capacity, free)
	}
	err := replace(file, func(unfinished string) error { return os.Truncate(unfinished, size) })
	if err != nil {
		return nil, err
	}
	return look(file)
}

// containerDisk finds the image of a container disk: a copied one, or one in an image volume.
func (v *volume) containerDisk(ctx context.Context) (*domain.VolumeFacts, error) {
	file, err := inside(v.folder(), cmp.Or(v.ContainerDisk.Path, "disk"))
	if copied, missing := inside(v.folder(), imageName); missing == nil && errors.Is(err, fs.ErrNotExist) {
		file, err = copied, nil
	}
	if err != nil {
		return nil, err
	}
	facts, err := look(file)
	if err == nil {
		facts.Format, err = format(ctx, file)
	}
	return facts, err
}

// inside returns the real path of a regular file below a folder, or of the only file of a folder
// there. It rejects links that lead out of the folder: the author of an image must not choose
// another file of the pod.
func inside(folder, path string) (string, error) {
	file, err := resolve(folder, path)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().IsRegular() {
		return file, err
	}
	name, err := OnlyFile(file)
	if err != nil {
		return "", err
	}
	if file, err = resolve(folder, filepath.Join(path, name)); err != nil {
		return "", err
	}
	if info, err = os.Stat(file); err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", file)
	}
	return file, err
}

// OnlyFile returns the name of the only file of a folder.
func OnlyFile(folder string) (string, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return "", err
	}
	if len(entries) != 1 {
		return "", fmt.Errorf("the folder %s has %d files, not one: set the path", folder, len(entries))
	}
	return entries[0].Name(), nil
}

// resolve returns the real path of a file below a folder.
func resolve(folder, path string) (string, error) {
	root, err := filepath.EvalSymlinks(folder)
	if err != nil {
		return "", err
	}
	file, err := filepath.EvalSymlinks(filepath.Join(root, path))
	if err != nil {
		return "", err
	}
	if rel, err := filepath.Rel(root, file); err != nil || !filepath.IsLocal(rel) {
		return "", fmt.Errorf("%s leads out of %s", path, folder)
	}
	return file, nil
}

// Kernel finds the kernel and the initial RAM disk; empty if the VMI names none.
func Kernel(vmi *kubevirtv1.VirtualMachineInstance) (kernel, initrd string, err error) {
	f := vmi.Spec.Domain.Firmware
	if f == nil || f.KernelBoot == nil || f.KernelBoot.Container == nil {
		return "", "", nil
	}
	container, at := f.KernelBoot.Container, field.NewPath("spec", "domain", "firmware", "kernelBoot", "container")
	find := func(name, path string) string {
		if path == "" {
			return ""
		}
		file, problem := inside(v1alpha1.KernelFolder, path)
		if problem != nil { // it was copied
			file, problem = inside(v1alpha1.KernelFolder, filepath.Base(path))
		}
		if problem != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", at.Child(name), problem))
		}
		return file
	}
	kernel, initrd = find("kernelPath", container.KernelPath), find("initrdPath", container.InitrdPath)
	return kernel, initrd, err
}

// Overlays creates the images for what a guest writes to read-only volumes.
func Overlays(ctx context.Context, d *libvirtxml.Domain) error {
	for i := range d.Devices.Disks {
		disk := &d.Devices.Disks[i]
		if disk.BackingStore == nil || disk.BackingStore.Source == nil || disk.Source == nil || disk.Source.File == nil {
			continue
		}
		backing := ""
		switch source := disk.BackingStore.Source; {
		case source.File != nil:
			backing = source.File.File
		case source.Block != nil:
			backing = source.Block.Dev
		}
		if err := run(ctx, "qemu-img", "create", "-q", "-f", "qcow2", "-b", backing, "-F", disk.BackingStore.Format.Type, disk.Source.File.File); err != nil {
			return fmt.Errorf("cannot create the overlay of disk %s: %w", disk.Target.Dev, err)
		}
	}
	return nil
}
