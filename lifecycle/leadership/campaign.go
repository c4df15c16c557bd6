package leadership

import (
	"context"
	"fmt"
	"sync"

	"github.com/go-logr/logr"
	"k8s.io/client-go/tools/leaderelection"
)

// A Campaign is a candidate's striving for the lease: who loses it, as when no
// API server answers for a while, seeks it again. What runs meanwhile need not
// end: the Fence and While keep it from doing anything.
type Campaign struct {
	elected, ended chan struct{}
	stop           context.CancelFunc
}

// Campaign seeks the lease, again and again, until End.
func (l *Lock) Campaign(ctx context.Context) (*Campaign, error) {
	c := &Campaign{elected: make(chan struct{}), ended: make(chan struct{})}
	log := logr.FromContextOrDiscard(ctx).WithName("leadership")
	first := sync.OnceFunc(func() { close(c.elected) })
	// The end of the process does not end it: End does, after writes under way.
	ctx, c.stop = context.WithCancel(context.WithoutCancel(ctx))
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: l, Name: l.Describe(), ReleaseOnCancel: true,
		LeaseDuration: LeaseDuration, RenewDeadline: RenewDeadline, RetryPeriod: RetryPeriod,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) {
				log.Info("Acquired the lease; the controllers of this replica write", "lease", l.Describe())
				first()
			},
			OnStoppedLeading: func() {
				if ctx.Err() == nil {
					log.Info("Lost the lease; nothing is written until it is acquired again", "lease", l.Describe())
				} else {
					log.Info("Released the lease", "lease", l.Describe())
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
		for ctx.Err() == nil {
			elector.Run(ctx)
		}
	}()
	return c, nil
}

// Elected is closed when this candidate leads for the first time.
func (c *Campaign) Elected() <-chan struct{} { return c.elected }

// End gives the lease back, if it is held, and returns when others may take it. Writes under way
// end first, and none begins: controllers may still run.
func (c *Campaign) End() {
	c.stop()
	<-c.ended
}
