package files

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"libvirt.org/go/libvirtxml"
)

// Who fills the folder of a claim or of an image hands over no other file of
// the host's.
func TestLinks(t *testing.T) {
	s := newStore(t, nil)
	dir := filepath.Dir(s.State)
	write(t, dir+"/secret/disk.img", "x")
	write(t, dir+"/secret/disk.qcow2", "x")
	write(t, dir+"/v/ns/held/.keep", "")
	link(t, dir+"/secret/disk.img", dir+"/v/ns/file/disk.img")
	link(t, "../mine/disk.img", dir+"/v/ns/another/disk.img")
	link(t, "/dev/null", dir+"/v/ns/device/disk.img")
	link(t, dir+"/secret", dir+"/v/ns/folder")
	link(t, "mine", dir+"/v/ns/neighbour")
	link(t, dir+"/v/ns", dir+"/v/other")
	link(t, dir+"/secret/disk.img", dir+"/i/file/disk.img")
	link(t, dir+"/secret/disk.qcow2", dir+"/i/first/disk.qcow2")
	link(t, dir+"/secret", dir+"/i/folder")
	if err := syscall.Mkfifo(dir+"/v/ns/held/disk.img", 0o600); err != nil {
		t.Fatal(err)
	}
	const claim, image = "spec.volumes[0].persistentVolumeClaim.claimName", "spec.volumes[0].containerDisk.image"
	for name, row := range map[string]struct{ namespace, volume, at, want string }{
		"a claim's file":             {"ns", "persistentVolumeClaim: {claimName: file}", claim, "plain file or a block device"},
		"a claim's, to another's":    {"ns", "persistentVolumeClaim: {claimName: another}", claim, "plain file or a block device"},
		"a claim's, to a device":     {"ns", "persistentVolumeClaim: {claimName: device}", claim, "plain file or a block device"},
		"a claim's, a pipe":          {"ns", "persistentVolumeClaim: {claimName: held}", claim, "plain file or a block device"},
		"a claim's folder":           {"ns", "persistentVolumeClaim: {claimName: folder}", claim, "must be a folder"},
		"a claim's, to a neighbour":  {"ns", "persistentVolumeClaim: {claimName: neighbour}", claim, "must be a folder"},
		"a namespace's folder":       {"other", "persistentVolumeClaim: {claimName: mine}", claim, "must be a folder"},
		"an image's file":            {"ns", "containerDisk: {image: file}", image, "plain file"},
		"an image's first file":      {"ns", "containerDisk: {image: first}", image, "plain file"},
		"an image's folder":          {"ns", "containerDisk: {image: folder}", image, "must be a folder"},
		"the claim of an ephemeral":  {"ns", "ephemeral: {persistentVolumeClaim: {claimName: file}}", "ephemeral.persistentVolumeClaim.claimName", "plain file"},
		"the claim of a data volume": {"ns", "dataVolume: {name: file}", "spec.volumes[0].dataVolume.name", "plain file"},
	} {
		t.Run(name, func(t *testing.T) {
			vmi := instance(t, row.volume)
			vmi.Namespace = row.namespace
			facts, err := s.Prepare(t.Context(), vmi)
			refused(t, err, row.at, row.want)
			if err == nil {
				t.Errorf("got %+v", facts["data"])
			}
		})
	}
}

// The folders of the host may be links; what is found is where they lead.
func TestLinkedRoots(t *testing.T) {
	s := newStore(t, nil)
	dir := filepath.Dir(s.State)
	link(t, s.Volumes, dir+"/volumes")
	link(t, s.Images, dir+"/images")
	s.Volumes, s.Images = dir+"/volumes", dir+"/images"
	for volume, want := range map[string]string{
		"persistentVolumeClaim: {claimName: mine}": dir + "/v/ns/mine/disk.img",
		"containerDisk: {image: 'a.example/b:1'}":  dir + "/i/a.example%2Fb:1/disk.img",
	} {
		if facts, err := s.Prepare(t.Context(), instance(t, volume)); err != nil || facts["data"].Path != want {
			t.Errorf("got %+v, %v", facts["data"], err)
		}
	}
}

// Kernels are files of images, too.
func TestLinkedKernels(t *testing.T) {
	s := &Store{State: t.TempDir(), Images: t.TempDir()}
	folder := s.Images + "/image/kernel-boot"
	write(t, folder+"/vmlinuz", "x")
	link(t, "/etc/passwd", folder+"/initrd")
	link(t, folder, s.Images+"/other/kernel-boot")
	write(t, s.Images+"/elsewhere/vmlinuz", "x")
	complete := func(kernel, initrd string) error {
		return s.Complete(t.Context(), uid, &libvirtxml.Domain{OS: &libvirtxml.DomainOS{Kernel: kernel, Initrd: initrd}, Devices: &libvirtxml.DomainDeviceList{}})
	}
	if err := complete(folder+"/vmlinuz", ""); err != nil {
		t.Error(err)
	}
	refused(t, complete(folder+"/vmlinuz", folder+"/initrd"), "kernelBoot.container.initrdPath", "plain file")
	refused(t, complete(s.Images+"/other/kernel-boot/vmlinuz", ""), "kernelBoot.container.kernelPath", "must be a folder")
	var trouble *Trouble
	if err := complete(folder+"/none", ""); !errors.As(err, &trouble) || trouble.Reason != ReasonNoImage {
		t.Errorf("got %v", err)
	}
}

func refused(t *testing.T, err error, at, want string) {
	t.Helper()
	var trouble *Trouble
	if !errors.As(err, &trouble) || trouble.Reason != ReasonRefused || !strings.Contains(err.Error(), at) || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s with %s and %q", err, ReasonRefused, at, want)
	}
}

func link(t *testing.T, to, file string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.Symlink(to, file)); err != nil {
		t.Fatal(err)
	}
}
