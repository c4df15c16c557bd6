package libvirtd

import (
	"testing"

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
		{libvirt.DomainPaused, int32(libvirt.DomainPausedUser), Paused},
		{libvirt.DomainPaused, int32(libvirt.DomainPausedStartingUp), Paused},
		{libvirt.DomainPaused, int32(libvirt.DomainPausedIoerror), Stuck},
		{libvirt.DomainPaused, int32(libvirt.DomainPausedWatchdog), Stuck},
		{libvirt.DomainCrashed, int32(libvirt.DomainCrashedPanicked), Panicked},
		{libvirt.DomainNostate, 0, Off},
		{libvirt.DomainShutoff, int32(libvirt.DomainShutoffUnknown), Off},
		{libvirt.DomainShutoff, int32(libvirt.DomainShutoffShutdown), Shutdown},
		{libvirt.DomainShutoff, int32(libvirt.DomainShutoffDestroyed), Destroyed},
		{libvirt.DomainShutoff, int32(libvirt.DomainShutoffCrashed), Crashed},
		{libvirt.DomainShutoff, int32(libvirt.DomainShutoffDaemon), Crashed},
		{libvirt.DomainShutoff, int32(libvirt.DomainShutoffFailed), NotStarted},
	} {
		if got := stateOf(int32(row.state), row.reason); got != row.want {
			t.Errorf("%v, %d: got %s, want %s", row.state, row.reason, got, row.want)
		}
	}
}
