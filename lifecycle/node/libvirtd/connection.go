// Package libvirtd is a connection to a libvirt daemon that comes back when it
// was lost: the domains of a host, what happens to them, and what can be done
// to them. It knows nothing of Kubernetes.
//
// Every call has a time limit, since a daemon that hangs must not hang its
// callers. What can be done to a domain may be done twice: what is the case
// already is no error.
package libvirtd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	libvirt "github.com/digitalocean/go-libvirt"
	"github.com/digitalocean/go-libvirt/socket/dialers"
	"github.com/go-logr/logr"
)

const (
	// callTimeout bounds a call. To start a domain takes longest.
	callTimeout = 2 * time.Minute
	// dialTimeout bounds the way to the daemon, which asks QEMU what it can do
	// when somebody comes for the first time.
	dialTimeout = 30 * time.Second
	// retryPeriod is between two attempts to connect.
	retryPeriod = 500 * time.Millisecond
	// DefaultResync is how often everything is looked at, whatever happened.
	DefaultResync = 30 * time.Second
)

// ErrNotConnected says that there is no daemon to ask now.
var ErrNotConnected = errors.New("libvirtd cannot be reached")

// A Connection leads to the daemon at a socket. Run Start beside what uses it.
type Connection struct {
	// Socket is the path of the daemon's socket.
	Socket string
	// URI is the driver's, qemu:///system.
	URI string
	// Happened is called with the name of a domain to which something has
	// happened. It must not block.
	Happened func(domain string)
	// Look is called when every domain is to be looked at: after a connection
	// was made, since what happened before was not told, and every Resync. It
	// must not block for long.
	Look func()
	// Resync is how often that is; 0 is DefaultResync.
	Resync time.Duration

	mu   sync.Mutex
	to   *libvirt.Libvirt
	wire net.Conn
}

// NeedLeaderElection says that every agent has a connection of its own.
func (*Connection) NeedLeaderElection() bool { return false }

// Start keeps the connection until the context ends.
func (c *Connection) Start(ctx context.Context) error {
	log := logr.FromContextOrDiscard(ctx).WithName("libvirtd")
	for told := false; ctx.Err() == nil; {
		lost := c.session(ctx, func() {
			log.Info("Connected to libvirtd", "uri", c.URI)
			told = false
		})
		if !told && ctx.Err() == nil {
			log.Info("Not connected to libvirtd; trying again", "socket", c.Socket, "reason", lost.Error())
			told = true
		}
		select {
		case <-ctx.Done():
		case <-time.After(retryPeriod):
		}
	}
	return nil
}

// session is one connection, from its begin to its end.
func (c *Connection) session(ctx context.Context, connected func()) error {
	to, conn, err := c.connect()
	if err != nil {
		return err
	}
	lost := to.Disconnected()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer func() { _ = conn.Close() }() // which may be lost
	events, err := subscribe(ctx, to)
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.to, c.wire = to, conn
	c.mu.Unlock()
	defer c.forget(to)
	connected()
	c.Look()
	every := c.Resync
	if every == 0 {
		every = DefaultResync
	}
	resync := time.NewTicker(every)
	defer resync.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-lost:
			return errors.New("the connection was lost")
		case name := <-events:
			c.Happened(name)
		case <-resync.C:
			c.Look()
		}
	}
}

// forget makes calls fail until there is another connection.
func (c *Connection) forget(to *libvirt.Libvirt) {
	c.mu.Lock()
	if c.to == to {
		c.to, c.wire = nil, nil
	}
	c.mu.Unlock()
}

// connect opens the driver, within the time limit.
func (c *Connection) connect() (*libvirt.Libvirt, net.Conn, error) {
	wire, err := net.DialTimeout("unix", c.Socket, dialTimeout)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot connect to libvirtd: %w", err)
	}
	to := libvirt.NewWithDialer(dialers.NewAlreadyConnected(wire))
	err = wire.SetDeadline(time.Now().Add(dialTimeout))
	if err == nil {
		err = to.ConnectToURI(libvirt.ConnectURI(c.URI))
	}
	if err == nil {
		err = wire.SetDeadline(time.Time{})
	}
	if err != nil {
		_ = wire.Close()
		return nil, nil, fmt.Errorf("cannot connect to %s: %w", c.URI, err)
	}
	return to, wire, nil
}

// subscribe asks for what happens to domains. The channel has their names, and
// ends with the context.
func subscribe(ctx context.Context, to *libvirt.Libvirt) (<-chan string, error) {
	names := make(chan string)
	tell := func(name string) {
		select {
		case names <- name:
		case <-ctx.Done():
		}
	}
	lives, err := to.LifecycleEvents(ctx)
	if err != nil {
		return nil, fmt.Errorf("cannot subscribe to what happens to domains: %w", err)
	}
	go func() {
		for event := range lives {
			tell(event.Dom.Name)
		}
	}()
	agents, err := to.SubscribeEvents(ctx, libvirt.DomainEventIDAgentLifecycle, nil)
	if err != nil {
		return names, nil //nolint:nilerr // a driver without guests has no agents in them
	}
	go func() {
		for event := range agents {
			if msg, ok := event.(*libvirt.DomainEventCallbackAgentLifecycleMsg); ok {
				tell(msg.Dom.Name)
			}
		}
	}()
	return names, nil
}

// Connected says whether there is a connection.
func (c *Connection) Connected() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.to != nil
}

// call makes a call on the connection. One that takes too long, or whose
// context ends, costs the connection: the answer could not be told from that to
// another call.
func call[T any](ctx context.Context, c *Connection, do func(*libvirt.Libvirt) (T, error)) (T, error) {
	var none T
	c.mu.Lock()
	to, conn := c.to, c.wire
	c.mu.Unlock()
	if to == nil {
		return none, ErrNotConnected
	}
	type answer struct {
		value T
		err   error
	}
	answers := make(chan answer, 1)
	go func() {
		value, err := do(to)
		answers <- answer{value, err}
	}()
	limit := time.NewTimer(callTimeout)
	defer limit.Stop()
	select {
	case a := <-answers:
		var refused libvirt.Error
		if a.err != nil && !errors.As(a.err, &refused) {
			return none, fmt.Errorf("%w: %w", ErrNotConnected, a.err)
		}
		return a.value, a.err
	case <-limit.C:
		_ = conn.Close()
		return none, fmt.Errorf("%w: no answer within %s", ErrNotConnected, callTimeout)
	case <-ctx.Done():
		return none, ctx.Err() // whoever ends, ends with the connection
	}
}

// run is call for what has no answer.
func run(ctx context.Context, c *Connection, do func(*libvirt.Libvirt) error) error {
	_, err := call(ctx, c, func(to *libvirt.Libvirt) (struct{}, error) { return struct{}{}, do(to) })
	return err
}
