package launcher

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"k8s.io/utils/ptr"

	"github.com/virtwright/virtwright/domain"
)

const (
	clientTimeout = 5 * time.Second // to read before a console client is dropped: the log must not wait
	drainTimeout  = time.Second     // to wait for the rest of the guest's output
)

// A serial copies the output of QEMU's serial socket to a log and to one client.
type serial struct {
	log io.Writer

	wire   net.Conn
	ended  chan struct{}
	mu     sync.Mutex
	client net.Conn
}

// consoleLog returns console, or a writer that discards if the VMI or the backend profile disables
// the log.
func consoleLog(in *domain.Input, console io.Writer) io.Writer {
	wanted := true
	if in.Backend != nil {
		wanted = ptr.Deref(in.Backend.SerialLog, true)
	}
	if !ptr.Deref(in.VMI.Spec.Domain.Devices.LogSerialConsole, wanted) {
		return io.Discard
	}
	return console
}

// connect connects to the socket; it is empty for a guest without a serial port.
func (s *serial) connect(socket string) error {
	if socket == "" {
		return nil
	}
	wire, err := net.Dial("unix", socket)
	if err != nil {
		return fmt.Errorf("cannot connect to the serial console: %w", err)
	}
	s.wire, s.ended = wire, make(chan struct{})
	go s.pump()
	return nil
}

// pump copies the guest's output until QEMU ends.
func (s *serial) pump() {
	defer close(s.ended)
	buffer := make([]byte, 32<<10)
	for {
		n, err := s.wire.Read(buffer)
		if n > 0 {
			_, _ = s.log.Write(buffer[:n]) // the guest must run without a reader of the log, too
			s.send(buffer[:n])
		}
		if err != nil {
			s.replace(nil)
			return
		}
	}
}

func (s *serial) send(text []byte) {
	s.mu.Lock()
	client := s.client
	s.mu.Unlock()
	if client == nil {
		return
	}
	err := client.SetWriteDeadline(time.Now().Add(clientTimeout))
	if err == nil {
		_, err = client.Write(text)
	}
	if err != nil {
		_ = client.Close() // it may have disconnected
	}
}

// replace closes the client and sets another one.
func (s *serial) replace(client net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client != nil {
		_ = s.client.Close() // it may have disconnected
	}
	s.client = client
}

// attach serves a client until it leaves or another one replaces it.
func (s *serial) attach(client net.Conn, input io.Reader) error {
	if s.wire == nil {
		return errors.New("the VMI has no serial console")
	}
	if err := answer(client, nil); err != nil {
		return err
	}
	s.replace(client)
	_, err := io.Copy(s.wire, input)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client == client {
		s.client = nil
	}
	return err
}

// drain waits until the rest of the guest's output is logged.
func (s *serial) drain() {
	if s.wire == nil {
		return
	}
	select {
	case <-s.ended:
	case <-time.After(drainTimeout):
	}
}
