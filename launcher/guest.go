package launcher

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"sync/atomic"
	"time"

	"k8s.io/utils/ptr"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/domain"
	"github.com/virtwright/virtwright/launcher/libvirtd"
)

const (
	pollPeriod   = 5 * time.Second        // the longest time between two observations of the guest
	shortestPoll = 100 * time.Millisecond // the least time between two observations without an event
	pressPeriod  = 10 * time.Second       // the time between two presses of the power button
	defaultGrace = 30                     // Kubernetes' default grace period, in seconds
)

// A guest is a VMI's domain under a libvirt daemon.
type guest struct {
	input  *domain.Input
	daemon *libvirtd.Daemon
	domain *libvirtd.Domain
	serial *serial
	vnc    string // the socket of the display; empty if there is none

	started    atomic.Bool // the domain was resumed, or must stay paused
	connection atomic.Pointer[libvirtd.Connection]
}

// connect connects to the daemon. It starts the daemon if it does not run.
func (g *guest) connect(ctx context.Context) error {
	c, err := g.daemon.Connect(ctx)
	if err == nil {
		g.connection.Store(c)
	}
	return err
}

// watch observes the guest, decides and applies until the guest has ended. It shuts the guest down
// when stop ends.
func (g *guest) watch(stop context.Context) v1alpha1.GuestEnd {
	ctx, stopping := context.WithoutCancel(stop), stop.Done()
	seen := observation{}
	var deadline, pressed time.Time
	for {
		state, err := g.connection.Load().State(ctx, g.domain)
		if err != nil && !errors.Is(err, libvirtd.ErrNotConnected) {
			return v1alpha1.GuestEnd{Reason: v1alpha1.GuestCrashed, Message: err.Error()}
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "virtwright: connecting to libvirtd again:", err)
			if err := g.connect(ctx); err != nil {
				return v1alpha1.GuestEnd{Reason: v1alpha1.GuestCrashed, Message: err.Error()}
			}
			continue
		}
		seen.state, seen.overdue, seen.press = state, !time.Now().Before(deadline), time.Since(pressed) >= pressPeriod
		step, end := decide(seen)
		if step == stepEnd {
			return end
		}
		if err := g.apply(ctx, step); err != nil {
			fmt.Fprintf(os.Stderr, "virtwright: cannot %s the guest: %v\n", step, err)
		} else if step == stepResume || step == stepDestroy {
			seen.destroyed = seen.destroyed || step == stepDestroy
			continue
		}
		if step == stepPress {
			pressed = time.Now()
		}
		select {
		case <-g.connection.Load().Changed:
		case <-time.After(wake(seen.stopping, time.Until(deadline), time.Until(pressed.Add(pressPeriod)))):
		case <-stopping:
			seen.stopping, stopping = true, nil
			grace := ptr.Deref(g.input.VMI.Spec.TerminationGracePeriodSeconds, defaultGrace)
			deadline = time.Now().Add(time.Duration(min(grace, math.MaxInt32)) * time.Second)
		}
	}
}

func (g *guest) apply(ctx context.Context, s step) error {
	switch s {
	case stepDestroy:
		return g.connection.Load().Destroy(ctx, g.domain)
	case stepResume:
		return g.connection.Load().Resume(ctx, g.domain)
	case stepPress:
		return g.connection.Load().Shutdown(ctx, g.domain)
	}
	return nil
}
