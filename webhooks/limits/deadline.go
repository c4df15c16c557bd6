package limits

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Deadline serves h with bodies that must arrive within a time. Otherwise reading fails with a
// *apierrors.StatusError of code 408. It must wrap all handlers that replace the
// http.ResponseWriter.
//
// It reads what h did not read of a body, up to maxUnread bytes and for unreadTime. Otherwise the
// server would close the connection while the client still sends, and the client might lose the
// answer.
func Deadline(within time.Duration, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body == nil || r.Body == http.NoBody {
			h.ServeHTTP(w, r)
			return
		}
		body := &timedBody{ReadCloser: r.Body, connection: http.NewResponseController(w), within: within}
		body.expect(time.Now().Add(within))
		request := *r
		request.Body = body
		h.ServeHTTP(w, &request)
		if !body.complete {
			body.expect(time.Now().Add(unreadTime)) // the first deadline may have passed
			_, _ = io.CopyN(io.Discard, body, maxUnread)
		}
	})
}

const (
	// maxUnread is the size of the largest body that is answered.
	maxUnread = 32 << 20
	// unreadTime is how long an answer waits for the rest of a body that was not read.
	unreadTime = time.Second
)

// A timedBody is a body with a deadline.
type timedBody struct {
	io.ReadCloser
	connection *http.ResponseController
	within     time.Duration
	complete   bool
}

// expect sets the read deadline of the connection, if it supports deadlines.
func (b *timedBody) expect(deadline time.Time) { _ = b.connection.SetReadDeadline(deadline) }

func (b *timedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	switch {
	case errors.Is(err, io.EOF):
		b.complete = true
		b.expect(time.Time{}) // the server monitors the connection from now on
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusRequestTimeout, Reason: metav1.StatusReasonTimeout,
			Message: fmt.Sprintf("the body of the request did not arrive within %s", b.within),
		}}
	}
	return n, err
}
