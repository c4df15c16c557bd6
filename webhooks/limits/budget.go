// Package limits bounds the memory and the time that the bodies of HTTP
// requests take, so that no client can exhaust a replica.
package limits

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"golang.org/x/sync/semaphore"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// DefaultBudget is the usual size of a Budget, in bytes.
	DefaultBudget = 96 << 20
	// MinBudget is the least size of a Budget, in bytes: 16 small bodies that
	// cost most, and a large one beside them.
	MinBudget = 32 << 20
	// SmallBody is the size in bytes up to which a body draws on the quarter of
	// a Budget that is reserved for small bodies.
	SmallBody = 64 << 10
	// RetryAfterSeconds is when a client that got no share tries again.
	RetryAfterSeconds = 1

	// perByte and perPart estimate the memory that a body of JSON takes until it
	// is answered: its bytes are copied several times, and each object, list,
	// field and element becomes a Go value. test/load measures both.
	perByte = 4
	perPart = 256
	// drainTime is how long the server may throw away the rest of a refused body,
	// so that the connection can be used again.
	drainTime = time.Second
)

// A Budget is an amount of memory that all requests share: a quarter of it those
// with small bodies, the rest all others. Make one with NewBudget.
//
// A body is charged its bytes while it arrives, and what it costs once it is
// complete and until it is answered. No body holds a share while it waits for
// another body to arrive: when too many arrive at once, one at a time goes on
// without being charged. So one of them is complete soon, and then answered.
type Budget struct {
	small, large class
	// Refused is called for each body that got no share; nil is not.
	Refused func()
}

// A class is the part of a budget for bodies of some sizes.
type class struct {
	arriving, answering *semaphore.Weighted
	// uncharged is held by the body that arrives without being charged.
	uncharged *semaphore.Weighted
	// most is all of answering. A body that costs more is answered alone.
	most int64
}

// NewBudget makes a Budget of a number of bytes.
func NewBudget(size int64) *Budget {
	of := func(size int64) class {
		most := size / 3 * 2
		return class{arriving: semaphore.NewWeighted(size - most), answering: semaphore.NewWeighted(most), uncharged: semaphore.NewWeighted(1), most: most}
	}
	return &Budget{small: of(size / 4), large: of(size - size/4)}
}

// Handler serves h with bodies that are charged to the budget and that must
// arrive within a time. A body without a share in that time fails with a
// *apierrors.StatusError of code 429, a late one with code 408.
func (b *Budget) Handler(within time.Duration, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body == nil || r.Body == http.NoBody {
			h.ServeHTTP(w, r)
			return
		}
		charged := &body{
			ReadCloser: r.Body, connection: http.NewResponseController(w), budget: b,
			class: &b.small, within: within, deadline: time.Now().Add(within),
		}
		if r.ContentLength > SmallBody {
			charged.class = &b.large
		}
		defer charged.release()
		charged.expect(charged.deadline)
		request := *r
		request.Body = charged
		h.ServeHTTP(w, &request)
	})
}

// A body is the body of one request with its share of a budget.
type body struct {
	io.ReadCloser
	connection *http.ResponseController
	budget     *Budget
	class      *class
	within     time.Duration
	deadline   time.Time

	// size and cost are of what has arrived.
	size, cost int64
	// arriving and answering are shares of the class.
	arriving, answering int64
	uncharged           bool
	// ended is what reading returns from now on; nil while more may arrive.
	ended error
}

// expect sets when the connection must have delivered the body. It stays as
// it is where the connection has no deadlines, as in tests without one.
func (b *body) expect(deadline time.Time) { _ = b.connection.SetReadDeadline(deadline) }

// Read charges what it reads. The last bytes before an error are still valid.
func (b *body) Read(p []byte) (int, error) {
	if b.ended != nil {
		return 0, b.ended
	}
	n, err := b.ReadCloser.Read(p)
	b.size += int64(n)
	b.cost += Cost(p[:n])
	complete := errors.Is(err, io.EOF)
	late := errors.Is(err, os.ErrDeadlineExceeded)
	switch {
	case late && b.uncharged, !b.charge(int64(n), complete): // it arrived late because it had to wait
		b.release()
		b.expect(time.Now().Add(drainTime))
		err = b.tooMany()
	case complete:
		b.expect(time.Time{}) // the server watches the connection from here on
	case late:
		err = b.late()
	}
	b.ended = err
	return n, err
}

// charge takes a share for n more bytes, and for the answer once the body is
// complete. It reports whether there was one in time.
func (b *body) charge(n int64, complete bool) bool {
	if b.size > SmallBody && b.class == &b.budget.small {
		b.release()
		b.class, n = &b.budget.large, b.size
	}
	switch {
	case b.uncharged:
	case b.class.arriving.TryAcquire(n):
		b.arriving += n
	case b.acquire(b.class.uncharged, 1):
		b.uncharged = true
	default:
		return false
	}
	if !complete {
		return true
	}
	cost := min(b.cost, b.class.most)
	if !b.acquire(b.class.answering, cost) {
		return false
	}
	b.release()
	b.answering = cost
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

// release gives back all shares.
func (b *body) release() {
	b.class.arriving.Release(b.arriving)
	b.class.answering.Release(b.answering)
	if b.uncharged {
		b.class.uncharged.Release(1)
	}
	b.arriving, b.answering, b.uncharged = 0, 0, false
}

func (b *body) tooMany() error {
	if b.budget.Refused != nil {
		b.budget.Refused()
	}
	return apierrors.NewTooManyRequests("virtwright is busy with other large requests; try again", RetryAfterSeconds)
}

func (b *body) late() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusRequestTimeout, Reason: metav1.StatusReasonTimeout,
		Message: fmt.Sprintf("the body of the request did not arrive within %s", b.within),
	}}
}

// Cost estimates the memory in bytes that JSON takes until it is answered. It
// counts separators, also those inside strings, and so never finds too few parts.
func Cost(json []byte) int64 {
	parts := bytes.Count(json, []byte{','}) + bytes.Count(json, []byte{'{'}) + bytes.Count(json, []byte{'['})
	return int64(len(json))*perByte + int64(parts)*perPart
}
