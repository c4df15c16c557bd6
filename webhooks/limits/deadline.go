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
// It reads what h did not read of a body, up to maxUnread bytes. Otherwise the server would close
// the connection while the client still sends, and the client might lose the answer.
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
		_, _ = io.CopyN(io.Discard, body, maxUnread) // until the deadline
	})
}

// maxUnread is more than the largest body that is answered.
const maxUnread = 32 << 20

// A timedBody is a body with a deadline.
type timedBody struct {
	io.ReadCloser
	connection *http.ResponseController
	within     time.Duration
}

// expect sets the read deadline of the connection, if it supports deadlines.
func (b *timedBody) expect(deadline time.Time) { _ = b.connection.SetReadDeadline(deadline) }

func (b *timedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	switch {
	case errors.Is(err, io.EOF):
		b.expect(time.Time{}) // the server monitors the connection from now on
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusRequestTimeout, Reason: metav1.StatusReasonTimeout,
			Message: fmt.Sprintf("the body of the request did not arrive within %s", b.within),
		}}
	}
	return n, err
}
