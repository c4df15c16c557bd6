package files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/domain"
)

// A volume is one of an instance's.
type volume struct {
	*kubevirtv1.Volume
	store *Store
	vmi   *kubevirtv1.VirtualMachineInstance
	at    *field.Path
}

// A kind is how volumes of a kind are made.
type kind struct {
	of   func(*kubevirtv1.Volume) bool
	make func(*volume, context.Context) (*domain.VolumeFacts, error)
}

// kinds are those that an agent can have. Others are refused.
var kinds = []kind{
	{func(v *kubevirtv1.Volume) bool { return v.ContainerDisk != nil }, (*volume).containerDisk},
	{func(v *kubevirtv1.Volume) bool { return v.CloudInitNoCloud != nil }, (*volume).noCloud},
	{func(v *kubevirtv1.Volume) bool { return v.CloudInitConfigDrive != nil }, (*volume).configDrive},
	{func(v *kubevirtv1.Volume) bool { return v.Sysprep != nil }, (*volume).unattended},
	{func(v *kubevirtv1.Volume) bool { return v.HostDisk != nil }, (*volume).hostDisk},
	{func(v *kubevirtv1.Volume) bool { return v.PersistentVolumeClaim != nil }, (*volume).claim},
	{func(v *kubevirtv1.Volume) bool { return v.DataVolume != nil }, (*volume).claim},
	{func(v *kubevirtv1.Volume) bool { return v.Ephemeral != nil }, (*volume).claim},
	{func(v *kubevirtv1.Volume) bool { return v.EmptyDisk != nil }, (*volume).emptyDisk},
	{func(v *kubevirtv1.Volume) bool { return v.ConfigMap != nil }, (*volume).ofConfigMap},
	{func(v *kubevirtv1.Volume) bool { return v.Secret != nil }, (*volume).ofSecret},
	{func(v *kubevirtv1.Volume) bool { return v.DownwardAPI != nil }, (*volume).ofFields},
	{func(v *kubevirtv1.Volume) bool { return v.ServiceAccount != nil }, (*volume).ofServiceAccount},
}

// prepare makes or finds what the volume is.
func (v *volume) prepare(ctx context.Context) (*domain.VolumeFacts, error) {
	for _, k := range kinds {
		if k.of(v.Volume) {
			return k.make(v, ctx)
		}
	}
	return nil, v.refuse(field.Forbidden(v.at, "this agent has no volumes of this kind; it has containerDisk, cloudInitNoCloud, "+
		"cloudInitConfigDrive, sysprep, hostDisk, persistentVolumeClaim, dataVolume, ephemeral, emptyDisk, configMap, secret, downwardAPI and serviceAccount"))
}

func (v *volume) refuse(err *field.Error) error { return &Trouble{ReasonRefused, err} }

// lacks is a trouble about something that is not there.
func (v *volume) lacks(reason string, at *field.Path, value any, what string) error {
	return &Trouble{reason, field.Invalid(at, value, what)}
}

// Folders of an instance's folder. No two kinds of files are in one, so that
// what volumes are called does not matter.
const (
	// FolderDisks has empty disks, VOLUME.qcow2.
	FolderDisks = "disks"
	// FolderOverlays has what lies on images, VOLUME.qcow2.
	FolderOverlays = "overlays"
	// FolderData has images of files, VOLUME.iso.
	FolderData = "data"
)

// path is where something is made of the volume, in a folder that is there.
func (v *volume) path(folder, ending string) (string, error) {
	folder = filepath.Join(v.store.Dir(v.vmi.UID), folder)
	if err := os.MkdirAll(folder, folderMode); err != nil {
		return "", &Trouble{ReasonNotMade, fmt.Errorf("%s: cannot make its folder: %w", v.at, err)}
	}
	return filepath.Join(folder, domain.FileName(v.Name)+ending), nil
}

// claim finds the image of a claim, which nobody makes here.
func (v *volume) claim(context.Context) (*domain.VolumeFacts, error) {
	at, name := v.at, ""
	switch {
	case v.PersistentVolumeClaim != nil:
		at, name = at.Child("persistentVolumeClaim", "claimName"), v.PersistentVolumeClaim.ClaimName
	case v.DataVolume != nil:
		at, name = at.Child("dataVolume", "name"), v.DataVolume.Name
	case v.Ephemeral.PersistentVolumeClaim != nil:
		at, name = at.Child("ephemeral", "persistentVolumeClaim", "claimName"), v.Ephemeral.PersistentVolumeClaim.ClaimName
	}
	if v.store.Volumes == "" {
		return nil, v.refuse(field.Forbidden(at, "this agent has no folder of volumes (--volumes-dir)"))
	}
	folder := filepath.Join(domain.FileName(v.vmi.Namespace), domain.FileName(name))
	file, err := inside(v.store.Volumes, folder, "disk.img", true)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, v.lacks(ReasonNoClaim, at, name, fmt.Sprintf("the node has no image of it: %s is not there", filepath.Join(v.store.Volumes, folder, "disk.img")))
	}
	if err != nil {
		return nil, v.unfit(err, at, name, ReasonNotMade)
	}
	found, err := look(file)
	if err != nil {
		return nil, &Trouble{ReasonNotMade, fmt.Errorf("%s: %w", at, err)}
	}
	return found, nil
}

// unfit is a trouble about a file of the host's: that it may not be had, where
// that is so, or why else it cannot.
func (v *volume) unfit(err error, at *field.Path, value any, reason string) error {
	if m, is := errors.AsType[*misplaced](err); is {
		return v.refuse(field.Invalid(at, value, m.Error()))
	}
	return &Trouble{reason, fmt.Errorf("%s: %w", at, err)}
}

// ImageFolder is the folder with what a container image brings, named as stage
// 3 names it.
func (s *Store) ImageFolder(image string) string {
	return filepath.Join(s.Images, domain.FileName(image))
}

// containerDisk finds the image that lies under an overlay.
func (v *volume) containerDisk(ctx context.Context) (*domain.VolumeFacts, error) {
	at := v.at.Child("containerDisk", "image")
	if v.store.Images == "" {
		return nil, v.refuse(field.Forbidden(at, "this agent has no folder of images (--images-dir)"))
	}
	for _, name := range []string{"disk.qcow2", "disk.img"} {
		file, err := inside(v.store.Images, domain.FileName(v.ContainerDisk.Image), name, false)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, v.unfit(err, at, v.ContainerDisk.Image, ReasonNoImage)
		}
		found, err := look(file)
		if err == nil {
			found.Format, err = format(ctx, file)
		}
		if err != nil {
			return nil, &Trouble{ReasonNoImage, fmt.Errorf("%s: %w", at, err)}
		}
		return found, nil
	}
	return nil, v.lacks(ReasonNoImage, at, v.ContainerDisk.Image, fmt.Sprintf("the node does not have it: there is neither disk.qcow2 nor disk.img in %s", v.store.ImageFolder(v.ContainerDisk.Image)))
}

// emptyDisk makes an image that nothing is on, once.
func (v *volume) emptyDisk(ctx context.Context) (*domain.VolumeFacts, error) {
	file, err := v.path(FolderDisks, ".qcow2")
	if err != nil {
		return nil, err
	}
	if _, err := os.Lstat(file); errors.Is(err, fs.ErrNotExist) {
		size := v.EmptyDisk.Capacity.Value()
		if size <= 0 {
			return nil, v.refuse(field.Invalid(v.at.Child("emptyDisk", "capacity"), v.EmptyDisk.Capacity.String(), "must be greater than zero"))
		}
		err := replace(file, func(unfinished string) error {
			return run(ctx, "qemu-img", "create", "-q", "-f", "qcow2", unfinished, fmt.Sprint(size))
		})
		if err != nil {
			return nil, &Trouble{ReasonNotMade, fmt.Errorf("%s: cannot make the disk: %w", v.at.Child("emptyDisk"), err)}
		}
	}
	found, err := look(file)
	if err != nil {
		return nil, &Trouble{ReasonNotMade, fmt.Errorf("%s: %w", v.at.Child("emptyDisk"), err)}
	}
	found.Format = "qcow2"
	return found, nil
}

// hostDisk finds an image of the host's, or makes one that is to stay.
func (v *volume) hostDisk(context.Context) (*domain.VolumeFacts, error) {
	at := v.at.Child("hostDisk")
	file := v.HostDisk.Path
	if !filepath.IsAbs(file) || filepath.Clean(file) != file {
		return nil, v.refuse(field.Invalid(at.Child("path"), file, "must be an absolute path without detours"))
	}
	folder, err := filepath.EvalSymlinks(filepath.Dir(file))
	if err != nil {
		return nil, v.lacks(ReasonNotMade, at.Child("path"), file, "its folder cannot be found: "+err.Error())
	}
	if !v.store.allows(folder) {
		return nil, v.refuse(field.Forbidden(at.Child("path"), fmt.Sprintf("this agent lets disks be below the folders %q alone (--host-disk-dirs)", v.store.HostDisks)))
	}
	file = filepath.Join(folder, filepath.Base(file))
	info, err := os.Lstat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist) && v.HostDisk.Type == kubevirtv1.HostDiskExistsOrCreate:
		if err := v.sparse(file); err != nil {
			return nil, &Trouble{ReasonNotMade, fmt.Errorf("%s: cannot make the disk: %w", at, err)}
		}
	case err != nil:
		return nil, v.lacks(ReasonNotMade, at.Child("path"), file, "the disk cannot be found: "+err.Error())
	case !info.Mode().IsRegular():
		return nil, v.refuse(field.Invalid(at.Child("path"), file, "must be a plain file"))
	}
	found, err := look(file)
	if err != nil {
		return nil, &Trouble{ReasonNotMade, fmt.Errorf("%s: %w", at, err)}
	}
	return found, nil
}

// sparse makes an image without blocks.
func (v *volume) sparse(file string) error {
	if v.HostDisk.Capacity.Value() <= 0 {
		return errors.New("capacity must be greater than zero")
	}
	disk, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if err := errors.Join(disk.Truncate(v.HostDisk.Capacity.Value()), disk.Close()); err != nil {
		return errors.Join(err, os.Remove(file))
	}
	return nil
}

// allows says whether hostDisks may be in a folder.
func (s *Store) allows(folder string) bool {
	for _, dir := range s.HostDisks {
		resolved, err := filepath.EvalSymlinks(dir)
		if err != nil {
			continue
		}
		if rel, err := filepath.Rel(resolved, folder); err == nil && filepath.IsLocal(rel) {
			return true
		}
	}
	return false
}
