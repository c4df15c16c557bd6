package libvirtd

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"testing"
	"time"

	libvirt "github.com/digitalocean/go-libvirt"
)

func TestStateOf(t *testing.T) {
	for _, row := range []struct {
		state  libvirt.DomainState
		reason int32
		want   State
	}{
		{libvirt.DomainRunning, 1, Running}, {libvirt.DomainBlocked, 0, Running}, {libvirt.DomainPmsuspended, 0, Running},
		{libvirt.DomainShutdown, 0, Running}, // on its way
		{libvirt.DomainPaused, int32(libvirt.DomainPausedUser), Paused}, {libvirt.DomainPaused, int32(libvirt.DomainPausedIoerror), Paused},
		{libvirt.DomainCrashed, int32(libvirt.DomainCrashedPanicked), Panicked}, {libvirt.DomainNostate, 0, Off},
		{libvirt.DomainShutoff, int32(libvirt.DomainShutoffUnknown), Off}, {libvirt.DomainShutoff, int32(libvirt.DomainShutoffShutdown), Shutdown},
		{libvirt.DomainShutoff, int32(libvirt.DomainShutoffSaved), Destroyed}, {libvirt.DomainShutoff, int32(libvirt.DomainShutoffFromSnapshot), Destroyed}, {libvirt.DomainShutoff, int32(libvirt.DomainShutoffDestroyed), Destroyed},
		{libvirt.DomainShutoff, int32(libvirt.DomainShutoffCrashed), Crashed}, {libvirt.DomainShutoff, int32(libvirt.DomainShutoffDaemon), Crashed},
		{libvirt.DomainShutoff, int32(libvirt.DomainShutoffFailed), NotStarted},
	} {
		got, byUser := stateOf(int32(row.state), row.reason)
		if got != row.want || byUser != (got == Paused && row.reason == int32(libvirt.DomainPausedUser)) {
			t.Errorf("%v, %d: got %s, by a user %t; want %s", row.state, row.reason, got, byUser, row.want)
		}
	}
}

// A daemon that takes connections and says nothing hangs nobody who ends.
func TestSilence(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	c := &Connection{Socket: socket, URI: "test:///default", Happened: func(string) {}, Look: func() {}}
	if _, err := c.Names(t.Context()); !errors.Is(err, ErrNotConnected) || c.Connected() {
		t.Errorf("not connected, and: %v", err)
	}
	wire, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = wire.Close() }()
	c.to, c.wire = libvirt.NewWithDialer(nil), wire
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := run(ctx, c, func(*libvirt.Libvirt) error { select {} }); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the call ended with %v", err)
	}
}
