package controlplane

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/virtwright/virtwright/test/filelock"
)

// Free ports are between firstPort and firstPort + ports. Linux selects ports of clients from 32768
// on, and Kubernetes node ports from 30000 on.
const firstPort, ports = 20000, 10000

// FreePort returns a TCP port without a listener. All processes of a user share a counter in the
// folder for temporary files, so no call returns the same port again before all others were
// returned. A server that starts later can therefore still listen there.
func FreePort() (int, error) {
	counter, err := lockCounter()
	if err != nil {
		return 0, fmt.Errorf("cannot choose a port: %w", err)
	}
	defer counter.Close()
	content, err := io.ReadAll(counter)
	if err != nil {
		return 0, fmt.Errorf("cannot choose a port: %w", err)
	}
	last, err := strconv.Atoi(string(content))
	if err != nil {
		last = rand.IntN(ports) // a new counter
	}
	for n := range ports {
		port := firstPort + (last+1+n)%ports
		listener, err := net.Listen("tcp", fmt.Sprintf(":%d", port))
		if err != nil {
			continue
		}
		listener.Close()
		if err := errors.Join(counter.Truncate(0), write(counter, port-firstPort)); err != nil {
			return 0, fmt.Errorf("cannot choose a port: %w", err)
		}
		return port, nil
	}
	return 0, fmt.Errorf("cannot choose a port: all of %d to %d are in use", firstPort, firstPort+ports-1)
}

// FreeAddress returns the loopback address with a FreePort.
func FreeAddress(t testing.TB) string {
	t.Helper()
	port, err := FreePort()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", port)
}

// lockCounter returns the file with the last port, locked until it is closed.
func lockCounter() (*os.File, error) {
	for {
		counter, err := filelock.Try(counterFile())
		if err != nil || counter != nil {
			return counter, err
		}
		time.Sleep(time.Millisecond)
	}
}

func counterFile() string {
	return filepath.Join(os.TempDir(), fmt.Sprintf("virtwright-port-%d", os.Getuid()))
}

func write(counter *os.File, n int) error {
	_, err := counter.WriteAt([]byte(strconv.Itoa(n)), 0)
	return err
}
