// Package limits bounds the memory and the time of HTTP request bodies, so that no client can
// exhaust a replica.
package limits

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"golang.org/x/sync/semaphore"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const (
	// DefaultBudget is the default size of a Budget, in bytes.
	DefaultBudget = 96 << 20
	// MinBudget is the minimum size of a Budget, in bytes.
	MinBudget = 32 << 20
	// smallBody is the maximum size of a small body, in bytes.
	smallBody = 64 << 10
	// retryAfterSeconds is when a client that got no share should retry.
	retryAfterSeconds = 1

	// smallShare is the part of the budget of small bodies that one of them may use.
	smallShare = 16
)

// A Budget is memory that all requests share: a quarter for small bodies, the rest for others.
// Create it with NewBudget.
//
// A small body has at most smallBody bytes and a low cost. It is charged its cost from its
// completion until it is answered. Other bodies are also charged their bytes while they arrive. If
// too many arrive at once, one at a time is not charged, so that it completes and no body blocks
// another.
type Budget struct {
	small, large pool
	// arriving is charged the bytes of large bodies; uncharged is held by the one that is not
	// charged.
	arriving, uncharged *semaphore.Weighted
	// Refused, if set, is called for each body that got no share.
	Refused func()
}

// A pool is memory for bodies that are being answered. A body that costs more than the pool is
// answered alone.
type pool struct {
	*semaphore.Weighted
	size int64
}

// NewBudget creates a Budget of a number of bytes.
func NewBudget(size int64) *Budget {
	of := func(size int64) pool { return pool{semaphore.NewWeighted(size), size} }
	return &Budget{small: of(size / 4), arriving: semaphore.NewWeighted(size / 4), large: of(size / 2), uncharged: semaphore.NewWeighted(1)}
}

// Handler serves h with bodies that are charged to the budget until h returns. A body that gets no
// share in time fails with a *apierrors.StatusError of code 429. h must not use the body after it
// returns.
func (b *Budget) Handler(within time.Duration, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body == nil || r.Body == http.NoBody {
			h.ServeHTTP(w, r)
			return
		}
		charged := &body{ReadCloser: r.Body, budget: b, large: r.ContentLength > smallBody, deadline: time.Now().Add(within)}
		defer charged.release()
		request := *r
		request.Body = charged
		h.ServeHTTP(w, &request)
	})
}

// A body is the body of one request with its share of a budget.
type body struct {
	io.ReadCloser
	budget   *Budget
	deadline time.Time

	large bool
	// size and cost of the bytes that have arrived.
	size, cost int64
	// arriving and answering are shares, the latter from a pool.
	arriving, answering int64
	from                *pool
	uncharged           bool
	// ended is the final result of Read; nil while more may arrive.
	ended error
}

// Read charges what it reads. The last bytes before an error are still valid.
func (b *body) Read(p []byte) (int, error) {
	if b.ended != nil {
		return 0, b.ended
	}
	n, err := b.ReadCloser.Read(p)
	b.size += int64(n)
	b.cost += costOf(p[:n])
	// A body that waited for its share may be late only because of that.
	if err != nil && !errors.Is(err, io.EOF) && b.uncharged || !b.charge(int64(n), errors.Is(err, io.EOF)) {
		b.release()
		err = b.tooMany()
	}
	b.ended = err
	return n, err
}

// charge acquires a share for n more bytes and, once the body is complete, for the answer. It
// returns false on a timeout.
func (b *body) charge(n int64, complete bool) bool {
	if !b.large && b.size > smallBody {
		b.large, n = true, b.size
	}
	if b.large && !b.arrive(n) {
		return false
	}
	if !complete {
		return true
	}
	from := &b.budget.large
	if !b.large && b.cost <= b.budget.small.size/smallShare {
		from = &b.budget.small
	}
	cost := min(b.cost, from.size)
	if !b.acquire(from.Weighted, cost) {
		return false
	}
	b.release()
	b.from, b.answering = from, cost
	return true
}

// arrive charges n bytes of a large body.
func (b *body) arrive(n int64) bool {
	switch {
	case b.uncharged:
	case b.budget.arriving.TryAcquire(n):
		b.arriving += n
	case b.acquire(b.budget.uncharged, 1):
		b.uncharged = true
	default:
		return false
	}
	return true
}

// acquire waits for a share until the deadline of the body.
func (b *body) acquire(from *semaphore.Weighted, share int64) bool {
	if from.TryAcquire(share) {
		return true
	}
	ctx, cancel := context.WithDeadline(context.Background(), b.deadline)
	defer cancel()
	return from.Acquire(ctx, share) == nil
}

// release returns all shares.
func (b *body) release() {
	b.budget.arriving.Release(b.arriving)
	if b.uncharged {
		b.budget.uncharged.Release(1)
	}
	if b.from != nil {
		b.from.Release(b.answering)
	}
	b.arriving, b.uncharged, b.from = 0, false, nil
}

func (b *body) tooMany() error {
	if b.budget.Refused != nil {
		b.budget.Refused()
	}
	return apierrors.NewTooManyRequests("virtwright is busy with other large requests; try again", retryAfterSeconds)
}
