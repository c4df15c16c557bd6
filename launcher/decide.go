package launcher

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/launcher/libvirtd"
)

// An observation is the state of a guest at one time.
type observation struct {
	state libvirtd.State
	// stopping says that the guest must shut down, overdue that its grace period is over, press
	// that the power button may be pressed again.
	stopping, overdue, press bool
	destroyed                bool // by the launcher
}

// A step is an action on a guest. Its text fits "cannot … the guest".
type step string

const (
	stepWait    step = "wait for"
	stepPress   step = "shut down"
	stepResume  step = "resume"
	stepDestroy step = "destroy"
	stepEnd     step = "end"
)

// decide returns the next step and, for stepEnd, how the guest ended. A paused guest must be
// resumed to receive the power button.
func decide(o observation) (step, v1alpha1.GuestEnd) {
	switch o.state {
	case libvirtd.Running, libvirtd.Paused, libvirtd.Stuck:
		switch {
		case o.stopping && o.overdue:
			return stepDestroy, v1alpha1.GuestEnd{}
		case o.stopping && o.press && o.state != libvirtd.Running:
			return stepResume, v1alpha1.GuestEnd{}
		case o.stopping && o.press:
			return stepPress, v1alpha1.GuestEnd{}
		}
		return stepWait, v1alpha1.GuestEnd{}
	case libvirtd.Shutdown:
		if o.stopping {
			return stepEnd, v1alpha1.GuestEnd{Reason: v1alpha1.GuestStopped, Message: "the guest shut down after SIGTERM"}
		}
		return stepEnd, v1alpha1.GuestEnd{Reason: v1alpha1.GuestShutdown, Message: "the guest shut down"}
	case libvirtd.NotStarted:
		return stepEnd, v1alpha1.GuestEnd{Reason: v1alpha1.GuestNotStarted, Message: "QEMU could not be started"}
	case libvirtd.Panicked:
		return stepEnd, v1alpha1.GuestEnd{Reason: v1alpha1.GuestCrashed, Message: "the guest's kernel panicked"}
	}
	if o.destroyed {
		return stepEnd, v1alpha1.GuestEnd{Reason: v1alpha1.GuestDestroyed, Message: "the guest did not shut down within its grace period"}
	}
	return stepEnd, v1alpha1.GuestEnd{Reason: v1alpha1.GuestCrashed, Message: "the guest or QEMU crashed"}
}

// wake returns how long to wait for an event, given the time until the guest is destroyed and until
// the power button may be pressed again.
func wake(stopping bool, deadline, press time.Duration) time.Duration {
	if !stopping {
		return pollPeriod
	}
	return max(min(deadline, press, pollPeriod), shortestPoll)
}

// A conflict is an error about an action that the state of the guest does not allow.
type conflict string

func (c conflict) Error() string { return string(c) }

// allowed returns KubeVirt's error for an action that a state of the guest does not allow.
func allowed(action v1alpha1.LauncherAction, state libvirtd.State) error {
	paused := state == libvirtd.Paused || state == libvirtd.Stuck
	switch action {
	case v1alpha1.LauncherPause, v1alpha1.LauncherUnpause, v1alpha1.LauncherReset, v1alpha1.LauncherSoftReboot:
	default:
		return fmt.Errorf("unsupported action %q", action)
	}
	switch {
	case !paused && state != libvirtd.Running:
		return conflict("VMI is not running")
	case paused && action == v1alpha1.LauncherPause:
		return conflict("VMI is already paused")
	case paused && action == v1alpha1.LauncherSoftReboot:
		return conflict("VMI is paused")
	case !paused && action == v1alpha1.LauncherUnpause:
		return conflict("VMI is not paused")
	}
	return nil
}

// maxMessage is the longest termination message that the kubelet reads, in bytes.
const maxMessage = 4096

// TerminationMessage encodes the end of a guest as JSON, shortened to what the kubelet reads.
func TerminationMessage(end v1alpha1.GuestEnd) []byte {
	end.Message = strings.ToValidUTF8(end.Message, "\uFFFD")
	for {
		text, err := json.Marshal(end)
		if err != nil || len(text) <= maxMessage {
			return text
		}
		keep := max(0, len(end.Message)-(len(text)-maxMessage)-len("…"))
		end.Message = strings.ToValidUTF8(end.Message[:keep], "") + "…"
	}
}
