package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/signal"
	"strings"
	"syscall"
	"time"

	gorilla "github.com/gorilla/websocket"
	"github.com/spf13/cobra"
	"golang.org/x/term"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/transport/websocket"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/virtwright/virtwright/presets"
)

const consoleHelp = `Connect to the serial console of a running virtual machine.

If the VMI does not run yet, the command waits. Standard input is sent to the guest, and the output
of the guest is printed to standard output, also without a terminal. Ctrl-] (byte 0x1d) ends the
connection; the end of standard input does not. A console has one client: a new client replaces the
previous one.

Exit codes: 0 the connection ended, 1 the cluster rejects the connection, 2 wrong usage, an
unreachable cluster or a lost connection, 3 the wait timed out.`

const vncHelp = `Let a VNC viewer on this host connect to the display of a running virtual machine.

If the VMI does not run yet, the command waits. Then it listens on a port of 127.0.0.1, and serves one
viewer at a time until it is interrupted.

Exit codes: 0 interrupted, 1 the cluster rejects the connection, 2 wrong usage or an unreachable
cluster, 3 the wait timed out.`

// escape is Ctrl-], which ends a console.
const escape = 0x1d

// device connects to a device of a VMI: its serial console or its display.
type device struct {
	connection connection
	name       string // name of the subresource: console or vnc
	vmi        types.NamespacedName
	timeout    time.Duration
	port       int
	s          streams
}

func newConsole(shown string, s streams) *cobra.Command {
	d := &device{name: "console", s: s}
	c := d.command("Connect to the serial console of a virtual machine", consoleHelp, (*device).console)
	c.Example = "  " + shown + " console web -n shop\n\n  # A script\n  printf 'uptime\\n' | timeout 10 " + shown + " console web -n shop"
	return c
}

func newVNC(shown string, s streams) *cobra.Command {
	d := &device{name: "vnc", s: s}
	c := d.command("Let a VNC viewer connect to the display of a virtual machine", vncHelp, (*device).proxy)
	c.Example = "  " + shown + " vnc web -n shop --port 5900"
	c.Flags().IntVar(&d.port, "port", 0, "port of 127.0.0.1; 0 selects a free port")
	return c
}

func (d *device) command(short, help string, serve func(*device, context.Context, *gorilla.Conn) error) *cobra.Command {
	c := &cobra.Command{
		Use: d.name + " NAME", Short: short, Long: help, ValidArgsFunction: d.connection.complete(1),
		RunE: func(c *cobra.Command, args []string) error {
			ctx, stop := signal.NotifyContext(c.Context(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
			defer stop()
			if err := d.choose(args); err != nil {
				return err
			}
			connected, err := d.await(ctx)
			if err != nil {
				return err
			}
			defer func() { _ = connected.Close() }() // the server may have closed it
			return serve(d, ctx, connected)
		},
	}
	d.connection.declare(c)
	c.Flags().DurationVar(&d.timeout, "timeout", 5*time.Minute, "maximum time to wait for the VMI to run")
	return c
}

func (d *device) choose(args []string) (err error) {
	if d.vmi.Name, err = oneVM(args, "connect to", "vm", "vmi"); err != nil {
		return err
	}
	_, d.vmi.Namespace, err = d.connection.config()
	return err
}

// await retries to connect until the VMI runs or the timeout ends.
func (d *device) await(ctx context.Context) (*gorilla.Conn, error) {
	deadline := time.Now().Add(d.timeout)
	for told := false; ; told = true {
		connected, err := d.connect(ctx)
		switch {
		case err == nil:
			return connected, nil
		case !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), "not running"):
			return nil, d.rejected(err)
		case time.Now().After(deadline):
			return nil, unfinished(fmt.Errorf("timed out after %s waiting for VMI %s to run", d.timeout, d.vmi))
		case !told:
			fmt.Fprintf(d.s.err, "waiting for VMI %s to run\n", d.vmi)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

func (d *device) rejected(err error) error {
	return answered(fmt.Errorf("cannot connect to the %s of VMI %s: %w", d.name, d.vmi, err))
}

func (d *device) connect(ctx context.Context) (*gorilla.Conn, error) {
	config, _, err := d.connection.config()
	if err != nil {
		return nil, err
	}
	c, err := newClusterClient(config)
	if err != nil {
		return nil, err
	}
	url := c.verbs.Get().AbsPath("/apis", subresources, "namespaces", d.vmi.Namespace, "virtualmachineinstances", d.vmi.Name, d.name).URL()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url.String(), http.NoBody)
	if err != nil {
		return nil, err
	}
	transport, holder, err := websocket.RoundTripperFor(config)
	if err != nil {
		return nil, err
	}
	connected, err := websocket.Negotiate(transport, holder, request, "plain.kubevirt.io")
	if failed, ok := errors.AsType[*httpstream.UpgradeFailureError](err); ok {
		err = failed.Cause
	}
	return connected, err
}

func (d *device) console(ctx context.Context, connected *gorilla.Conn) error {
	if of, ok := d.s.in.(interface{ Fd() uintptr }); ok && term.IsTerminal(int(of.Fd())) { //nolint:gosec // file descriptors are small
		fd := int(of.Fd()) //nolint:gosec // file descriptors are small
		before, err := term.MakeRaw(fd)
		if err != nil {
			return fmt.Errorf("cannot set the terminal to raw mode: %w", err)
		}
		defer func() { _ = term.Restore(fd, before) }() // there is no other way back
	}
	fmt.Fprintf(raw(d.s.err), "connected to the console of VMI %s; press Ctrl-] to leave\r\n", presets.EscapeLine(d.vmi.String()))
	ended := make(chan error, 2)
	go func() {
		_, err := io.Copy(raw(d.s.out), gorilla.JoinMessages(connected, ""))
		ended <- err
	}()
	go func() {
		if err := send(messages{connected}, d.s.in); !errors.Is(err, io.EOF) {
			ended <- err
		}
	}()
	var err error
	select {
	case <-ctx.Done():
	case err = <-ended:
	}
	if closed, ok := errors.AsType[*gorilla.CloseError](err); ok && closed.Code != gorilla.CloseAbnormalClosure {
		fmt.Fprintf(raw(d.s.err), "\r\nconnection closed: %s\r\n", presets.EscapeLine(closed.Text))
		return nil
	}
	if err != nil {
		return fmt.Errorf("lost the connection: %w", err)
	}
	return nil
}

// send copies input until Ctrl-]. It returns io.EOF at the end of the input.
func send(to io.Writer, from io.Reader) error {
	buffer := make([]byte, 4<<10)
	for {
		n, err := from.Read(buffer)
		text, _, left := bytes.Cut(buffer[:n], []byte{escape})
		if len(text) > 0 {
			if _, err := to.Write(text); err != nil {
				return err
			}
		}
		if left {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// proxy serves VNC viewers one after the other, each over a connection of its own: an API server
// ends one that is not read.
func (d *device) proxy(ctx context.Context, connected *gorilla.Conn) error {
	_ = connected.Close() // the VMI runs
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", d.port))
	if err != nil {
		return fmt.Errorf("cannot listen: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = listener.Close() })
	defer stop()
	fmt.Fprintf(d.s.err, "VNC display of VMI %s is at %s\n", d.vmi, listener.Addr())
	for {
		viewer, err := listener.Accept()
		if err != nil {
			return nil // interrupted
		}
		if connected, err = d.connect(ctx); err != nil {
			_ = viewer.Close() // the other error is returned
			return d.rejected(err)
		}
		through(ctx, viewer, connected)
	}
}

func through(ctx context.Context, viewer net.Conn, connected *gorilla.Conn) {
	end := func() { _, _ = viewer.Close(), connected.Close() } // one side may be closed already
	stop := context.AfterFunc(ctx, end)
	defer stop()
	go func() {
		defer end()
		_, _ = io.Copy(viewer, gorilla.JoinMessages(connected, "")) // ends when a side closes
	}()
	defer end()
	_, _ = io.Copy(messages{connected}, viewer) // ends when a side closes
}

type messages struct{ *gorilla.Conn }

// Write sends a message.
func (m messages) Write(p []byte) (int, error) {
	if err := m.WriteMessage(gorilla.BinaryMessage, p); err != nil {
		return 0, err
	}
	return len(p), nil
}
