package subresources

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"
)

// hijacked is the answer on a connection that is upgraded.
type hijacked struct {
	http.ResponseWriter
	conn net.Conn
	in   *bufio.Reader
}

// Hijack returns the connection.
func (h *hijacked) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return h.conn, bufio.NewReadWriter(h.in, bufio.NewWriter(h.conn)), nil
}

// A stream has a client and a guest. Its clock is that of a bubble of synctest.
type stream struct {
	client *websocket.Conn
	guest  struct {
		io.Reader
		io.Writer
	}
	served chan struct{} // closed once the server has let go of the stream
}

func streamed(t *testing.T) *stream {
	t.Helper()
	near, far := net.Pipe()
	input, to := io.Pipe()
	from, output := io.Pipe()
	out := &stream{served: make(chan struct{})}
	out.guest.Reader, out.guest.Writer = input, output
	go func() {
		defer close(out.served)
		in := bufio.NewReader(far)
		request, err := http.ReadRequest(in)
		if err != nil {
			t.Error(err)
			return
		}
		socket, err := upgrader.Upgrade(&hijacked{conn: far, in: in}, request, nil)
		if err != nil {
			t.Error(err)
			return
		}
		ctx, end := context.WithCancelCause(t.Context())
		newStreams().copyBoth(ctx, end, socket, &launcher{WriteCloser: to, Reader: from, end: func() { _, _ = to.Close(), from.Close() }})
	}()
	dialer := &websocket.Dialer{NetDialContext: func(context.Context, string, string) (net.Conn, error) { return near, nil }}
	var err error
	if out.client, _, err = dialer.DialContext(t.Context(), "ws://here/", nil); err != nil { //nolint:bodyclose // the body is the connection
		t.Fatal(err)
	}
	return out
}

// watch reads as a client that answers pings, until the stream ends.
func (s *stream) watch() <-chan error {
	ended := make(chan error, 1)
	go func() {
		for {
			if _, _, err := s.client.ReadMessage(); err != nil {
				ended <- err
				return
			}
		}
	}()
	return ended
}

// TestIdleStreams checks that a stream ends once it is idle, and no earlier.
func TestIdleStreams(t *testing.T) {
	sides := map[string]func(*stream) error{
		"the guest writes": func(s *stream) error { _, err := s.guest.Write([]byte(".")); return err },
		"the client types": func(s *stream) error { return s.client.WriteMessage(websocket.BinaryMessage, []byte(".")) },
	}
	for name, act := range sides {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := streamed(t)
				ended := s.watch()
				go func() { _, _ = io.Copy(io.Discard, s.guest) }() // until the stream ends
				for range 5 {
					time.Sleep(idleTimeout - time.Second)
					select {
					case err := <-ended:
						t.Fatalf("the stream ended early: %v", err)
					default:
					}
					if err := act(s); err != nil {
						t.Fatal(err)
					}
				}
				select {
				case err := <-ended:
					if closed, ok := errors.AsType[*websocket.CloseError](err); !ok || closed.Code != websocket.CloseGoingAway || closed.Text != string(endedIdle) {
						t.Errorf("got %v", err)
					}
				case <-time.After(2 * idleTimeout):
					t.Error("the stream is still open")
					_ = s.client.Close()
				}
				<-s.served
			})
		})
	}
}

// TestClientsThatDoNotRead checks that the stream of a client that does not read ends, although its
// guest keeps writing.
func TestClientsThatDoNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := streamed(t)
		for {
			if _, err := s.guest.Write(make([]byte, 1<<10)); err != nil {
				break // the server has ended the stream
			}
		}
		<-s.served
	})
}

// TestGuestsThatStay checks that the stream of a client that left ends soon, although its guest
// neither reads nor ends.
func TestGuestsThatStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := streamed(t)
		if err := s.client.WriteMessage(websocket.BinaryMessage, []byte(".")); err != nil {
			t.Fatal(err)
		}
		if _, err := s.guest.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		left := time.Now()
		_ = s.client.Close()
		if _, err := s.guest.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("want the end of the input, got %v", err)
		}
		if _, err := s.guest.Write([]byte("bye")); err != nil {
			t.Errorf("the guest was cut off: %v", err)
		}
		<-s.served
		if after := time.Since(left); after != lastTimeout {
			t.Errorf("ended after %s", after)
		}
	})
}

// TestGuestsThatReadLate checks that a guest may read later than the client must answer pings.
func TestGuestsThatReadLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := streamed(t)
		s.client.SetPingHandler(func(text string) error { // the connection has no buffer
			go func() { _ = s.client.WriteControl(websocket.PongMessage, []byte(text), time.Now().Add(time.Hour)) }()
			return nil
		})
		ended := s.watch()
		for range 3 {
			if err := s.client.WriteMessage(websocket.BinaryMessage, []byte(".")); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * clientTimeout)
			if _, err := s.guest.Read(make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
		}
		select {
		case err := <-ended:
			t.Fatal(err)
		case <-time.After(2 * clientTimeout):
		}
		_ = s.client.Close()
		<-s.served
	})
}
