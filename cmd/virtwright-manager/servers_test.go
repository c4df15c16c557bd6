package main

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// slowRequests checks that no server waits for a client that stops sending, for any path and size.
func (l *life) slowRequests(t *testing.T) {
	secure := map[string]bool{l.manager.webhook: true, l.manager.subresources: true}
	var clients sync.WaitGroup
	for _, address := range []string{l.manager.webhook, l.manager.subresources, l.manager.metrics, l.manager.health} {
		for _, path := range []string{"/mutate-kubevirt-io-v1-virtualmachine", "/metrics", "/readyz", "/apis/subresources.kubevirt.io/v1/version", "/nowhere", "//twice"} {
			for _, size := range []int{1000, 7 << 20} {
				clients.Go(func() {
					if err := stopsSending(t, address, secure[address], path, size); err != nil {
						t.Errorf("%s%s, %d bytes: %v", address, path, size, err)
					}
				})
			}
		}
	}
	for _, address := range []string{l.manager.webhook, l.manager.subresources} {
		clients.Go(func() {
			if err := startsLate(t, address); err != nil {
				t.Errorf("%s: a request on a connection that was idle until then: %v", address, err)
			}
		})
	}
	clients.Wait()
}

// startsLate sends the first request on a connection long after its handshake. API servers do so:
// for many requests at once, they open more connections than they use at first.
func startsLate(t *testing.T, address string) error {
	t.Helper()
	dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}
	connection, err := dialer.DialContext(t.Context(), "tcp", address)
	if err != nil {
		return err
	}
	defer func() { _ = connection.Close() }()
	time.Sleep(requestTime + 5*time.Second)
	if _, err := io.WriteString(connection, "GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		return err
	}
	response, err := http.ReadResponse(bufio.NewReader(connection), nil)
	if err != nil {
		return err
	}
	return response.Body.Close()
}

// stopsSending sends a request but for its last byte, and returns nil when the server has closed
// the connection.
func stopsSending(t *testing.T, address string, secure bool, path string, size int) error {
	t.Helper()
	connection, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
	if err != nil {
		return err
	}
	defer func() { _ = connection.Close() }()
	if secure {
		connection = tls.Client(connection, &tls.Config{InsecureSkipVerify: true})
	}
	const patience = 30 * time.Second
	if err := connection.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	go func() { // the server may answer before all is sent
		_, _ = fmt.Fprintf(connection, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", path, size, strings.Repeat(" ", size-1))
	}()
	if _, err := io.Copy(io.Discard, connection); err != nil && strings.Contains(err.Error(), "timeout") {
		return fmt.Errorf("the server still waits after %s", patience)
	}
	return nil
}
