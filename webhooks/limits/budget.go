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
	// drainTime is how long the rest of a refused body is read and thrown away:
	// a client that still sends would not see the answer.
	drainTime = time.Second
)

// A Budget is an amount of memory that all requests share. A body is charged
// while it arrives and until it is answered. Make one with NewBudget.
type Budget struct {
	small, large pool
	// Refused is called for each body that got no share; nil is not.
	Refused func()
}

type pool struct {
	*semaphore.Weighted
	size int64
}

// NewBudget makes a Budget of a number of bytes.
func NewBudget(size int64) *Budget {
	of := func(size int64) pool { return pool{semaphore.NewWeighted(size), size} }
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
			ReadCloser: r.Body, connection: http.NewResponseController(w), budget: b, pool: &b.small,
			within: within, deadline: time.Now().Add(within),
		}
		if r.ContentLength > SmallBody {
			charged.pool = &b.large
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
	pool       *pool
	within     time.Duration
	deadline   time.Time
	// size has arrived; held is its share.
	size, held int64
	refused    error
}

// expect sets when the connection must have delivered the body. It stays as
// it is where the connection has no deadlines, as in tests without one.
func (b *body) expect(deadline time.Time) { _ = b.connection.SetReadDeadline(deadline) }

// Read charges what it reads. The last bytes before an error are still valid.
func (b *body) Read(p []byte) (int, error) {
	if b.refused != nil {
		return 0, b.refused
	}
	n, err := b.ReadCloser.Read(p)
	if chargeErr := b.charge(p[:n]); chargeErr != nil {
		b.drain()
		b.refused = chargeErr
		return n, b.refused
	}
	switch {
	case errors.Is(err, io.EOF):
		b.expect(time.Time{}) // the server watches the connection from here on
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = b.late()
	}
	return n, err
}

func (b *body) charge(chunk []byte) error {
	b.size += int64(len(chunk))
	cost := Cost(chunk)
	if b.size > SmallBody && b.pool == &b.budget.small {
		b.pool.Release(b.held)
		cost, b.held, b.pool = cost+b.held, 0, &b.budget.large
	}
	cost = min(cost, b.pool.size-b.held) // what costs more than all there is runs alone
	if !b.pool.TryAcquire(cost) {
		ctx, cancel := context.WithDeadline(context.Background(), b.deadline)
		defer cancel()
		if err := b.pool.Acquire(ctx, cost); err != nil {
			return b.tooMany()
		}
	}
	b.held += cost
	return nil
}

func (b *body) release() {
	b.pool.Release(b.held)
	b.held = 0
}

// drain gives the share back and throws away what else arrives in a short time.
func (b *body) drain() {
	b.release()
	b.expect(time.Now().Add(drainTime))
	_, _ = io.Copy(io.Discard, b.ReadCloser)
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
