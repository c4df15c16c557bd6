package controlplane

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
	"testing"
)

// TestFreePort takes ports in several goroutines. File locks exclude goroutines like processes.
func TestFreePort(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	var taken sync.Map
	var takers sync.WaitGroup
	for range 4 {
		takers.Go(func() {
			for range 250 {
				port, err := FreePort()
				if _, again := taken.LoadOrStore(port, true); err != nil || again {
					t.Errorf("port %d, returned twice: %t, error: %v", port, again, err)
				}
			}
		})
	}
	takers.Wait()
}

func TestFreePortPassesOver(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	port, err := FreePort()
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	before := strconv.Itoa(port - 1) // a new counter, if this was the first port
	if err := os.WriteFile(counterFile(), []byte(before), 0o600); err != nil {
		t.Fatal(err)
	}
	next, err := FreePort()
	if err != nil || next == port {
		t.Errorf("after %s: %d, %v; %d has a listener", before, next, err, port)
	}
}
