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
	"syscall"
	"testing"
	"time"

	"github.com/virtwright/virtwright/test/filelock"
)

// Free ports are between firstPort and firstPort + ports. By default, Linux selects ports of
// clients from 32768 on, and Kubernetes node ports from 30000 on.
const firstPort, ports = 20000, 10000

// lockAttempts, a millisecond apart, are made to lock the counter.
const lockAttempts = 10_000

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
	if err != nil || last < firstPort || last >= firstPort+ports {
		last = firstPort + rand.IntN(ports) // a new counter
	}
	for n := range ports {
		port := firstPort + (last+1+n-firstPort)%ports
		listener, err := net.Listen("tcp", fmt.Sprintf(":%d", port))
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		if err == nil {
			err = errors.Join(listener.Close(), write(counter, port))
		}
		if err != nil {
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
	for range lockAttempts {
		counter, err := filelock.Try(counterFile())
		if err != nil || counter != nil {
			return counter, err
		}
		time.Sleep(time.Millisecond)
	}
	return nil, fmt.Errorf("another process keeps %s locked", counterFile())
}

func counterFile() string {
	return filepath.Join(os.TempDir(), fmt.Sprintf("virtwright-port-%d", os.Getuid()))
}

func write(counter *os.File, port int) error {
	_, err := counter.WriteAt([]byte(strconv.Itoa(port)), 0) // always five digits
	return err
}
