package leadership

import (
	"context"
	"fmt"

	"k8s.io/client-go/tools/leaderelection"
)

// A Campaign is one candidate's attempt to lead, once.
type Campaign struct {
	elected, ended chan struct{}
	stop           context.CancelFunc
}

// Campaign seeks the lease until it is had, and keeps it until End. When it is
// lost before, lost is called; then this candidate will not lead again: other
// processes know nothing of what it still has to do, so it should end, at
// leisure, since the Fence lets it write nothing.
func (l *Lock) Campaign(ctx context.Context, lost func()) (*Campaign, error) {
	c := &Campaign{elected: make(chan struct{}), ended: make(chan struct{})}
	// Not ended by whoever ends the process: what it runs as a leader ends first.
	ctx, c.stop = context.WithCancel(context.WithoutCancel(ctx))
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: l, Name: l.Describe(), ReleaseOnCancel: true,
		LeaseDuration: LeaseDuration, RenewDeadline: RenewDeadline, RetryPeriod: RetryPeriod,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { close(c.elected) },
			OnStoppedLeading: func() {
				if ctx.Err() == nil {
					lost()
				}
			},
		},
	})
	if err != nil {
		c.stop()
		return nil, fmt.Errorf("cannot seek the lease %s: %w", l.Describe(), err)
	}
	go func() {
		defer close(c.ended)
		elector.Run(ctx)
	}()
	return c, nil
}

// Elected is closed when this candidate leads.
func (c *Campaign) Elected() <-chan struct{} { return c.elected }

// End gives the lease back, if it is held, and returns when others may take it.
func (c *Campaign) End() {
	c.stop()
	<-c.ended
}
