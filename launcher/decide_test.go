package launcher

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/launcher/libvirtd"
)

func TestDecide(t *testing.T) {
	for name, row := range map[string]struct {
		seen observation
		want step
		end  v1alpha1.GuestEndReason
	}{
		"runs":                      {observation{state: libvirtd.Running, press: true, overdue: true}, stepWait, ""},
		"is paused":                 {observation{state: libvirtd.Paused, press: true, overdue: true}, stepWait, ""},
		"must stop":                 {observation{state: libvirtd.Running, stopping: true, press: true}, stepPress, ""},
		"was asked to stop":         {observation{state: libvirtd.Running, stopping: true}, stepWait, ""},
		"must stop, paused":         {observation{state: libvirtd.Paused, stopping: true, press: true}, stepResume, ""},
		"must stop, I/O error":      {observation{state: libvirtd.Stuck, stopping: true, press: true}, stepResume, ""},
		"does not stop":             {observation{state: libvirtd.Running, stopping: true, overdue: true, press: true}, stepDestroy, ""},
		"shut down":                 {observation{state: libvirtd.Shutdown}, stepEnd, v1alpha1.GuestShutdown},
		"shut down on request":      {observation{state: libvirtd.Shutdown, stopping: true}, stepEnd, v1alpha1.GuestStopped},
		"shut down before Destroy":  {observation{state: libvirtd.Shutdown, destroyed: true}, stepEnd, v1alpha1.GuestShutdown},
		"destroyed by the launcher": {observation{state: libvirtd.Destroyed, destroyed: true}, stepEnd, v1alpha1.GuestDestroyed},
		"destroyed by another":      {observation{state: libvirtd.Destroyed}, stepEnd, v1alpha1.GuestCrashed},
		"crashed":                   {observation{state: libvirtd.Crashed}, stepEnd, v1alpha1.GuestCrashed},
		"panicked":                  {observation{state: libvirtd.Panicked}, stepEnd, v1alpha1.GuestCrashed},
		"ended without libvirtd":    {observation{state: libvirtd.Off}, stepEnd, v1alpha1.GuestCrashed},
		"not started":               {observation{state: libvirtd.NotStarted}, stepEnd, v1alpha1.GuestNotStarted},
	} {
		t.Run(name, func(t *testing.T) {
			got, end := decide(row.seen)
			if got != row.want || end.Reason != row.end || (end.Message == "") != (row.end == "") {
				t.Errorf("got %s and %v, want %s and %s", got, end, row.want, row.end)
			}
		})
	}
}

func TestWake(t *testing.T) {
	for name, row := range map[string]struct {
		stopping              bool
		deadline, press, want time.Duration
	}{
		"runs":                  {false, -time.Hour, -time.Hour, pollPeriod},
		"the deadline is next":  {true, time.Second, 2 * time.Second, time.Second},
		"the button is next":    {true, time.Minute, 2 * time.Second, 2 * time.Second},
		"a poll is next":        {true, time.Minute, time.Minute, pollPeriod},
		"the button is overdue": {true, time.Minute, -time.Second, shortestPoll},
	} {
		if got := wake(row.stopping, row.deadline, row.press); got != row.want {
			t.Errorf("%s: got %s, want %s", name, got, row.want)
		}
	}
}

func TestAllowed(t *testing.T) {
	for _, row := range []struct {
		action v1alpha1.LauncherAction
		state  libvirtd.State
		want   string
	}{
		{v1alpha1.LauncherPause, libvirtd.Running, ""},
		{v1alpha1.LauncherPause, libvirtd.Paused, "VMI is already paused"},
		{v1alpha1.LauncherPause, libvirtd.Stuck, "VMI is already paused"},
		{v1alpha1.LauncherPause, libvirtd.Shutdown, "VMI is not running"},
		{v1alpha1.LauncherUnpause, libvirtd.Running, "VMI is not paused"},
		{v1alpha1.LauncherUnpause, libvirtd.Stuck, ""},
		{v1alpha1.LauncherReset, libvirtd.Paused, ""},
		{v1alpha1.LauncherReset, libvirtd.Crashed, "VMI is not running"},
		{v1alpha1.LauncherSoftReboot, libvirtd.Paused, "VMI is paused"},
		{v1alpha1.LauncherSoftReboot, libvirtd.Running, ""},
		{"exec", libvirtd.Running, `unsupported action "exec"`},
	} {
		got := ""
		if err := allowed(row.action, row.state); err != nil {
			got = err.Error()
		}
		if got != row.want {
			t.Errorf("%s, %s: got %q, want %q", row.action, row.state, got, row.want)
		}
	}
}

// TestTerminationMessage shortens messages to what the kubelet accepts.
func TestTerminationMessage(t *testing.T) {
	for name, message := range map[string]string{
		"short": "the guest shut down", "long": strings.Repeat("ä", 5000), "control characters": strings.Repeat("\x01\"\n", 3000),
		"invalid UTF-8": "a\xff\xfe" + strings.Repeat("b", 5000), "just too long": strings.Repeat("x", maxMessage),
	} {
		t.Run(name, func(t *testing.T) {
			text := TerminationMessage(v1alpha1.GuestEnd{Reason: v1alpha1.GuestNotStarted, Message: message})
			var end v1alpha1.GuestEnd
			err := json.Unmarshal(text, &end)
			if err != nil || len(text) > maxMessage || !utf8.Valid(text) || end.Reason != v1alpha1.GuestNotStarted {
				t.Errorf("%d bytes, %v: %s", len(text), err, text)
			}
			if name == "short" && end.Message != message {
				t.Errorf("the message is %q", end.Message)
			}
		})
	}
}
