package subresources

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/gorilla/websocket"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"

	"github.com/virtwright/virtwright/api/v1alpha1"
)

// Times of streams. A stream is idle while no byte passes in either direction; kubelets, too, end
// idle streams, after 4 hours by default.
const (
	idleTimeout   = time.Hour
	clientTimeout = time.Minute     // bounds reading by a client, and its answers to pings
	lastTimeout   = 3 * time.Second // bounds the delivery of a client's last bytes after it has left
)

// streams are the connections to guests of a replica.
type streams struct {
	*shares
	idleTimeout, clientTimeout time.Duration
}

func newStreams() *streams { return &streams{newShares(), idleTimeout, clientTimeout} }

// An ending is why this server ends a stream, for the client.
type ending string

// Error returns the reason.
func (e ending) Error() string { return string(e) }

const (
	endedOutside ending = "the guest ended, another client connected, or the connection was lost"
	endedIdle    ending = "the connection was idle for too long; connect again"
	endedHere    ending = "this replica stops; connect again"
)

// upgrader implements KubeVirt's protocol: messages of raw bytes. API servers authenticate users,
// so the origin of a page does not matter.
var upgrader = websocket.Upgrader{
	Subprotocols: []string{"plain.kubevirt.io"}, HandshakeTimeout: 10 * time.Second, CheckOrigin: func(*http.Request) bool { return true },
	Error: func(w http.ResponseWriter, _ *http.Request, _ int, reason error) {
		reject(w, apierrors.NewBadRequest(reason.Error()))
	},
}

// An endpoint is the console, the display, or a port of a guest.
type endpoint struct {
	action v1alpha1.LauncherAction
	port   string // for LauncherPortForward
	ofVM   bool   // the name is that of a VM, which must control the VMI
}

// line is the action as the launcher reads it.
func (e endpoint) line() v1alpha1.LauncherAction {
	if e.port == "" {
		return e.action
	}
	return e.action + " " + v1alpha1.LauncherAction(e.port)
}

func (l *launchers) serveStream(of func(*http.Request) (endpoint, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		to, err := of(r)
		if err == nil {
			err = l.stream(w, r, to)
		}
		if err != nil {
			reject(w, err)
		}
	}
}

// stream serves a stream until it ends. Its errors are for the caller, who has no answer yet.
func (l *launchers) stream(w http.ResponseWriter, r *http.Request, to endpoint) error {
	name, err := subject(r)
	if err != nil {
		return err
	}
	if !websocket.IsWebSocketUpgrade(r) {
		return apierrors.NewBadRequest("want a WebSocket: use virtwright or virtctl")
	}
	release, err := l.streams.reserve(userOf(r), name.Namespace)
	if err != nil {
		return err
	}
	defer release()
	ctx, end := context.WithCancelCause(r.Context())
	defer end(nil)
	stop := context.AfterFunc(l.closing, func() { end(endedHere) })
	defer stop()
	launcher, err := l.connect(ctx, name, to)
	if err != nil {
		return err
	}
	defer launcher.end()
	leave, err := l.streams.connected()
	if err != nil {
		return err
	}
	defer leave()
	socket, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		return nil // the upgrader has answered
	}
	l.streams.copyBoth(ctx, end, socket, launcher)
	return nil
}

func userOf(r *http.Request) string {
	if user, ok := apirequest.UserFrom(r.Context()); ok {
		return user.GetName()
	}
	return ""
}

func (l *launchers) connect(ctx context.Context, name types.NamespacedName, to endpoint) (*launcher, error) {
	if to.ofVM {
		if err := l.cluster.checkOwner(ctx, name); err != nil {
			return nil, err
		}
	}
	vmi, pod, err := l.find(ctx, name, to.action, false)
	if err != nil {
		return nil, err
	}
	return l.execute(ctx, vmi, pod, to.line())
}

// copyBoth copies bytes between a client and a launcher until a side closes, the client is lost,
// nothing was copied for the idle timeout, or the context ends. It closes the client. When a client
// has left, its launcher has lastTimeout to read what it sent.
func (s *streams) copyBoth(ctx context.Context, end context.CancelCauseFunc, socket *websocket.Conn, launcher *launcher) {
	defer func() { _ = socket.Close() }() // the client may have disconnected
	answered := func(string) error { return socket.SetReadDeadline(time.Now().Add(s.clientTimeout)) }
	socket.SetPongHandler(answered)
	_ = answered("") // reading fails if this fails
	context.AfterFunc(ctx, launcher.end)
	idle := time.AfterFunc(s.idleTimeout, func() { end(endedIdle) })
	defer idle.Stop()
	active := func() { idle.Reset(s.idleTimeout) }
	go func() { // detect lost clients
		period := s.clientTimeout / 3
		_ = wait.PollUntilContextCancel(ctx, period, false, func(context.Context) (bool, error) {
			_ = socket.WriteControl(websocket.PingMessage, nil, time.Now().Add(period)) // the client may have disconnected
			return false, nil
		})
	}()
	endSoon := func() { time.AfterFunc(lastTimeout, func() { end(endedOutside) }) }
	go func() {
		defer endSoon()
		// While the guest does not read, answers to pings are not read either.
		written := func() { active(); _ = answered("") }
		_, _ = io.Copy(watched{launcher, written}, websocket.JoinMessages(socket, "")) // until either end closes
		_ = launcher.Close()                                                           // does not fail
	}()
	_, err := io.Copy(watched{client{socket, s.clientTimeout}, active}, launcher) // until either end closes
	if late, ok := errors.AsType[net.Error](err); !ok || !late.Timeout() {        // else the client does not read
		endSoon()
		_, _ = io.Copy(io.Discard, launcher) // a launcher that cannot write may stop reading
	}
	end(endedOutside)
	reason := websocket.FormatCloseMessage(websocket.CloseGoingAway, context.Cause(ctx).Error())
	_ = socket.WriteControl(websocket.CloseMessage, reason, time.Now().Add(time.Second)) // the client may have disconnected
}

// watched calls active after each write.
type watched struct {
	io.Writer
	active func()
}

// Write writes p.
func (w watched) Write(p []byte) (int, error) {
	defer w.active()
	return w.Writer.Write(p)
}

// A client writes messages to a WebSocket. It fails if the client does not read in time.
type client struct {
	*websocket.Conn
	timeout time.Duration
}

// Write sends a message.
func (c client) Write(p []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(c.timeout)); err != nil {
		return 0, err
	}
	if err := c.WriteMessage(websocket.BinaryMessage, p); err != nil {
		return 0, err
	}
	return len(p), nil
}
