// Package limits bounds the memory and the time of HTTP request bodies, so that no client can
// exhaust a replica.
package limits

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

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
	// maxBeginning is how much of a body is searched for its namespace, in bytes.
	maxBeginning = 4 << 10
)

// A Budget is memory that all requests share, divided fairly among namespaces: a quarter for small
// bodies, the rest for others. Create it with NewBudget.
//
// A small body has at most smallBody bytes and a low cost. It is charged its cost from its
// completion until it is answered. Other bodies are also charged their bytes while they arrive. If
// too many arrive at once, one at a time is not charged, so that it completes and no body blocks
// another.
type Budget struct {
	small, large *resource
	// arriving is charged the bytes of large bodies; uncharged is held by the one that is not
	// charged.
	arriving, uncharged *resource
	// Rejected, if set, is called for each body that got no share.
	Rejected func()
}

// Turns limit how many requests compute at the same time, fairly among namespaces. Create them with
// NewTurns.
type Turns struct{ small, large *resource }

// NewTurns creates numbers of turns for small and for large bodies.
func NewTurns(small, large int) *Turns {
	return &Turns{newResource(int64(small)), newResource(int64(large))}
}

// NewBudget creates a Budget of a number of bytes. A body that costs more than its part of the
// budget is answered alone.
func NewBudget(size int64) *Budget {
	return &Budget{
		small: newResource(size / 4), large: newResource(size / 2),
		arriving: newResource(size / 4), uncharged: newResource(1),
	}
}

// Handler serves h with bodies that are charged to the budget, and have one of turns, until h
// returns. Nil turns set no limit. A body that gets no share in time fails with a
// *apierrors.StatusError of code 429. h must not use the body after it returns.
func (b *Budget) Handler(within time.Duration, turns *Turns, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body == nil || r.Body == http.NoBody {
			h.ServeHTTP(w, r)
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), within)
		defer cancel()
		charged := &body{ReadCloser: r.Body, budget: b, turns: turns, path: r.URL.Path, large: r.ContentLength > smallBody, within: ctx}
		defer charged.release()
		request := *r
		request.Body = charged
		h.ServeHTTP(w, &request)
	})
}

// A body is the body of one request with its share of a budget.
type body struct {
	io.ReadCloser
	budget *Budget
	turns  *Turns // or nil
	path   string
	within context.Context //nolint:containedctx // it ends when the body must have arrived

	large bool
	// beginning names the namespace.
	beginning []byte
	// size and cost of the bytes that have arrived.
	size, cost int64
	// shares are those of the arriving bytes until the body is complete, then memory and a turn.
	shares []*share
	// uncharged is true if further bytes are not charged.
	uncharged bool
	// waited is true if the body did not arrive for a time, until it got a share.
	waited bool
	// ended is the final result of Read; nil while more may arrive.
	ended error
}

// Read charges what it reads. The last bytes before an error are still valid.
func (b *body) Read(p []byte) (int, error) {
	if b.ended != nil {
		return 0, b.ended
	}
	n, err := b.ReadCloser.Read(p)
	b.beginning = append(b.beginning, p[:min(n, maxBeginning-len(b.beginning))]...)
	b.size += int64(n)
	b.cost += costOf(p[:n])
	// A body that waited for its share may be late only because of that.
	if err != nil && !errors.Is(err, io.EOF) && b.waited || !b.charge(int64(n), errors.Is(err, io.EOF)) {
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
	small := !b.large && b.cost <= b.budget.small.size/smallShare
	memory := b.budget.large
	if small {
		memory = b.budget.small
	}
	name := flowOf(b.path, b.beginning)
	got, err := memory.acquire(b.within, name, b.cost)
	if err != nil {
		return false
	}
	b.release()
	b.shares = append(b.shares, got)
	if b.turns == nil {
		return true
	}
	turns := b.turns.large
	if small {
		turns = b.turns.small
	}
	if got, err = turns.acquire(b.within, name, 1); err != nil {
		return false
	}
	b.shares = append(b.shares, got)
	return true
}

// arrive charges n bytes of a large body.
func (b *body) arrive(n int64) bool {
	if b.uncharged {
		return true
	}
	name := flowOf(b.path, b.beginning)
	if s := b.budget.arriving.try(name, n); s != nil {
		b.shares = append(b.shares, s)
		return true
	}
	s := b.budget.uncharged.try(name, 1)
	if s == nil {
		var err error
		if s, err = b.budget.uncharged.acquire(b.within, name, 1); err != nil {
			return false
		}
		b.waited = true
	}
	b.shares, b.uncharged = append(b.shares, s), true
	return true
}

// release returns all shares.
func (b *body) release() {
	for _, s := range b.shares {
		s.release()
	}
	b.shares = nil
}

func (b *body) tooMany() error {
	if b.budget.Rejected != nil {
		b.budget.Rejected()
	}
	return apierrors.NewTooManyRequests("virtwright is busy with other requests; try again", retryAfterSeconds)
}
