package files

import (
	"os"
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
