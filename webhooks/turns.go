package webhooks

import (
	"context"
	"time"

	"golang.org/x/sync/semaphore"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const (
	// presetTurns is how many presets a replica checks at the same time. The memory of each is
	// bounded, and VMs need processors too.
	presetTurns = 2
	// analysisSteps limits the analysis of a preset's expressions in a request. They take a
	// hundredth of a second, and no preset of our examples needs a tenth of them.
	analysisSteps = 50_000
)

// turns limit how many requests do costly work at the same time. The others wait in order. Nil
// turns set no limit.
type turns struct{ *semaphore.Weighted }

func newTurns(n int64) *turns { return &turns{semaphore.NewWeighted(n)} }

// take waits for a turn, for at most half of the time that is left to answer. It returns false
// if it got none.
func (t *turns) take(ctx context.Context) bool {
	if t == nil {
		return true
	}
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(deadline)/2)
		defer cancel()
	}
	return t.Acquire(ctx, 1) == nil
}

// end ends a turn that was taken.
func (t *turns) end() {
	if t != nil {
		t.Release(1)
	}
}

// busy rejects a request that got no turn in time.
func busy() Response {
	return denied(apierrors.NewTooManyRequests("virtwright is busy with other presets; try again", 1).Status())
}
