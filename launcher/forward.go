package launcher

import (
	"context"
	"fmt"
	"io"
	"net"
	"strconv"

	"github.com/virtwright/virtwright/launcher/libvirtd"
)

// forward connects a client to a TCP port of the guest.
func (g *guest) forward(client net.Conn, input io.Reader, port string) error {
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil || number == 0 {
		return fmt.Errorf("port %q must be 1 to 65535", port)
	}
	network := userNetworkOf(g.input.VMI)
	if network == "" {
		return conflict("the VMI has no interface on the pod network")
	}
	server, end, err := g.dial(network, number)
	if err != nil {
		server, end, err = g.dial(network, number) // another process may have taken the port in between
	}
	switch {
	case libvirtd.Invalid(err): // the guest has ended
		return conflict(err.Error())
	case err != nil:
		return fmt.Errorf("cannot forward the port: %w", err)
	}
	defer end()
	return join(client, input, server)
}

// dial connects to a port of the guest through a rule of a user network. Without an error, end must
// be called after the connection: QEMU may accept it late, and needs the rule for that.
func (g *guest) dial(network string, port uint64) (to net.Conn, end func(), err error) {
	local, err := freePort()
	if err != nil {
		return nil, nil, err
	}
	ctx := context.Background()
	rule := fmt.Sprintf("%s tcp:127.0.0.1:%d", network, local)
	end = func() { _ = g.connection.Load().Monitor(ctx, g.domain, "hostfwd_remove "+rule) } // the guest may have ended
	err = g.connection.Load().Monitor(ctx, g.domain, fmt.Sprintf("hostfwd_add %s-:%d", rule, port))
	if err == nil {
		to, err = net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", local))
	}
	if err != nil {
		end()
		return nil, nil, err
	}
	return to, end, nil
}

// freePort returns an unused TCP port of the pod.
func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	port := listener.Addr().(*net.TCPAddr).Port //nolint:forcetypeassert // it listens on TCP
	return port, listener.Close()
}

// join answers a client with "ok" and connects it to a server, until one of them disconnects.
func join(client net.Conn, input io.Reader, server net.Conn) error {
	defer func() { _ = server.Close() }()
	if err := answer(client, nil); err != nil {
		return errAnswered
	}
	go func() {
		_, _ = io.Copy(client, server) // until one of them disconnects
		_ = client.Close()             // it may have disconnected
	}()
	_, _ = io.Copy(server, input)
	return errAnswered
}
