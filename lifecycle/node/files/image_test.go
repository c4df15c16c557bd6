package files

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"libvirt.org/go/libvirtxml"
)

// QEMU makes the sockets of displays itself, as a user who may not write to the
// instance's folder: libvirt says where they are.
func TestDisplaySockets(t *testing.T) {
	s := &Store{State: t.TempDir()}
	listeners := func() []libvirtxml.DomainGraphicListener {
		return []libvirtxml.DomainGraphicListener{{Socket: &libvirtxml.DomainGraphicListenerSocket{Socket: s.Dir(uid) + "/display/virt-vnc"}}}
	}
	serial := s.Dir(uid) + "/serial/virt-serial0"
	d := &libvirtxml.Domain{Devices: &libvirtxml.DomainDeviceList{
		Graphics: []libvirtxml.DomainGraphic{
			{VNC: &libvirtxml.DomainGraphicVNC{Listeners: listeners()}}, {Spice: &libvirtxml.DomainGraphicSpice{Listeners: listeners()}},
		},
		Serials: []libvirtxml.DomainSerial{{Source: &libvirtxml.DomainChardevSource{UNIX: &libvirtxml.DomainChardevSourceUNIX{Mode: "bind", Path: serial}}}},
	}}
	if err := s.Complete(t.Context(), uid, d); err != nil {
		t.Fatal(err)
	}
	for _, l := range append(d.Devices.Graphics[0].VNC.Listeners, d.Devices.Graphics[1].Spice.Listeners...) {
		if l.Socket == nil || l.Socket.Socket != "" {
			t.Errorf("a display listens on %+v", l.Socket)
		}
	}
	if _, err := os.Stat(filepath.Join(s.Dir(uid), "display")); err == nil {
		t.Error("there is a folder for the display")
	}
	if _, err := os.Stat(filepath.Dir(serial)); err != nil || d.Devices.Serials[0].Source.UNIX.Path != serial {
		t.Errorf("the serial console is elsewhere: %v", err)
	}
}

// Others may read nothing that is made for an instance, not even while it is
// being made.
func TestModes(t *testing.T) {
	s := newStore(t, nil)
	writers := map[string]string{"genisoimage": "", "qemu-img": ""}
	for program := range writers {
		found, err := exec.LookPath(program)
		if err != nil {
			t.Skipf("needs %s", program)
		}
		writers[program] = found
	}
	// These look at what they were given when they have written it.
	bin, said := t.TempDir(), filepath.Join(t.TempDir(), "modes")
	for program, found := range writers {
		script := "#!/bin/sh\n" + found + " \"$@\" || exit 1\nfor f; do case \"$f\" in *.unfinished) stat -c %a \"$f\" >>" + said + ";; esac; done\n"
		if err := os.WriteFile(filepath.Join(bin, program), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin+":/usr/bin:/bin")
	isoPrograms = []string{"genisoimage"}
	t.Cleanup(func() { isoPrograms = []string{"xorrisofs", "genisoimage", "mkisofs"} })
	var made []string
	for _, volume := range []string{"emptyDisk: {capacity: 1Mi}", "cloudInitNoCloud: {userData: hello}"} {
		facts, err := s.Prepare(t.Context(), instance(t, volume))
		if err != nil {
			t.Fatal(err)
		}
		made = append(made, facts["data"].Path)
	}
	over := s.Dir(uid) + "/overlay.qcow2"
	d := &libvirtxml.Domain{Devices: &libvirtxml.DomainDeviceList{Disks: []libvirtxml.DomainDisk{{
		Source: file(over), Target: &libvirtxml.DomainDiskTarget{Dev: "vda"},
		BackingStore: &libvirtxml.DomainDiskBackingStore{Format: &libvirtxml.DomainDiskFormat{Type: "raw"}, Source: file(s.Volumes + "/ns/mine/disk.img")},
	}}}}
	if err := s.Complete(t.Context(), uid, d); err != nil {
		t.Fatal(err)
	}
	for _, file := range append(made, over) {
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", file, info.Mode(), err)
		}
	}
	if modes, err := os.ReadFile(said); err != nil || string(modes) != "600\n600\n600\n" {
		t.Errorf("unfinished: %q, %v", modes, err)
	}
}
