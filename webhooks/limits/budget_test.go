package limits

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// served is a server under limits whose handler reads the whole body and then waits for hold. It
// answers with the code of the body's error.
func served(t *testing.T, budget *Budget, within time.Duration, hold <-chan struct{}) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(Deadline(within, budget.Handler(within, NewTurns(16, 4), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if status := apierrors.APIStatus(nil); errors.As(err, &status) {
			http.Error(w, status.Status().Message, int(status.Status().Code))
			return
		}
		<-hold
		fmt.Fprint(w, len(body))
	}))))
	t.Cleanup(server.Close)
	return server
}

func post(t *testing.T, server *httptest.Server, body string) (int, string) {
	t.Helper()
	response, err := http.Post(server.URL, "application/json", strings.NewReader(body)) //nolint:noctx // the server ends first
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Error(err)
	}
	return response.StatusCode, string(text)
}

// Large bodies that use the whole budget block more large bodies, but no small ones. All charges
// are returned.
func TestBudget(t *testing.T) {
	budget := NewBudget(MinBudget)
	rejected := 0
	budget.Rejected = func() { rejected++ }
	hold := make(chan struct{})
	server := served(t, budget, 200*time.Millisecond, hold)
	released := served(t, budget, 200*time.Millisecond, closed())
	large := "[" + strings.Repeat("0,", MinBudget/2/(perPart+2*perByte)+1) + "0]" // takes all that is not reserved
	done := make(chan int)
	go func() {
		code, _ := post(t, server, large)
		done <- code
	}()
	await(t, "the large body is charged", func() bool { return inUse(budget.large) > 0 })

	if code, text := post(t, released, large); code != http.StatusTooManyRequests || !strings.Contains(text, "try again") {
		t.Errorf("a second large body: %d %s", code, text)
	}
	if code, text := post(t, released, "{}"); code != http.StatusOK || text != "2" {
		t.Errorf("a small body: %d %s", code, text)
	}
	if rejected != 1 {
		t.Errorf("counted %d rejections, want 1", rejected)
	}
	close(hold)
	if code := <-done; code != http.StatusOK {
		t.Errorf("the first large body: %d", code)
	}
	allIsBack(t, budget)
}

// A short body that costs much does not keep small ones away.
func TestCostlyShortBodies(t *testing.T) {
	hold := make(chan struct{})
	budget := NewBudget(MinBudget)
	server := served(t, budget, 200*time.Millisecond, hold)
	done := make(chan int)
	go func() {
		code, _ := post(t, server, strings.Repeat(",", smallBody))
		done <- code
	}()
	await(t, "the costly body is charged", func() bool { return inUse(budget.large) > 0 })
	if code, text := post(t, served(t, budget, 200*time.Millisecond, closed()), "{}"); code != http.StatusOK {
		t.Errorf("a small body: %d %s", code, text)
	}
	close(hold)
	if code := <-done; code != http.StatusOK {
		t.Errorf("the costly body: %d", code)
	}
	allIsBack(t, budget)
}

// Small bodies that do not arrive keep no others away.
func TestSlowSmallBodies(t *testing.T) {
	budget := NewBudget(MinBudget)
	server := served(t, budget, time.Second, closed())
	for range 300 {
		connection, err := new(net.Dialer).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = connection.Close() })
		if _, err := fmt.Fprintf(connection, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 60001\r\n\r\n%s", strings.Repeat("x", 60_000)); err != nil {
			t.Fatal(err)
		}
	}
	if code, text := post(t, server, "{}"); code != http.StatusOK {
		t.Errorf("got %d %s", code, text)
	}
}

// The share is returned even if a handler does not read its body.
func TestHandlersThatDoNotReadAll(t *testing.T) {
	budget := NewBudget(MinBudget)
	for name, handler := range map[string]http.HandlerFunc{
		"reads nothing": func(http.ResponseWriter, *http.Request) {},
		"reads some":    func(_ http.ResponseWriter, r *http.Request) { _, _ = r.Body.Read(make([]byte, 100_000)) },
		"panics":        func(_ http.ResponseWriter, r *http.Request) { _, _ = io.ReadAll(r.Body); panic(http.ErrAbortHandler) },
	} {
		server := httptest.NewServer(Deadline(time.Second, budget.Handler(time.Second, nil, handler)))
		for _, size := range []int{1000, 1 << 20} {
			response, err := http.Post(server.URL, "application/json", strings.NewReader(strings.Repeat("x", size))) //nolint:noctx // the server ends first
			if err == nil {
				_ = response.Body.Close()
			} else if name != "panics" {
				t.Errorf("%s: %v", name, err)
			}
		}
		server.Close()
	}
	allIsBack(t, budget)
}

// A body that costs more than the whole budget is served, alone.
func TestLargerThanTheBudget(t *testing.T) {
	server := served(t, NewBudget(MinBudget), time.Minute, closed())
	body := strings.Repeat(",", MinBudget/perPart*2)
	if code, text := post(t, server, body); code != http.StatusOK || text != fmt.Sprint(len(body)) {
		t.Errorf("got %d %s", code, text)
	}
}

// However many bodies arrive at once, all of them are answered in the end.
func TestManyAtOnce(t *testing.T) {
	budget := NewBudget(MinBudget)
	server := served(t, budget, time.Minute, closed())
	var clients sync.WaitGroup
	for n := range 64 {
		body := strings.Repeat("x,", smallBody/2-1) // as costly as small bodies are
		if n%2 == 0 {
			body = strings.Repeat("x,,,", 1<<18)
		}
		clients.Go(func() {
			if code, text := post(t, server, body); code != http.StatusOK {
				t.Errorf("got %d %s", code, text)
			}
		})
	}
	clients.Wait()
	allIsBack(t, budget)
}

// A client that stops sending is answered, and its share comes back.
func TestSlowBody(t *testing.T) {
	budget := NewBudget(MinBudget)
	server := served(t, budget, 100*time.Millisecond, closed())
	for name, announced := range map[string]int{"small": 1000, "large": 7 << 20} {
		connection, err := new(net.Dialer).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = connection.Close() })
		sent := bytes.Repeat([]byte("x"), announced-1)
		go fmt.Fprintf(connection, "POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", announced, sent)
		_ = connection.SetReadDeadline(time.Now().Add(10 * time.Second))
		answer, err := io.ReadAll(connection) // until the server closes it
		if err != nil || !bytes.HasPrefix(answer, []byte("HTTP/1.1 408 ")) {
			t.Errorf("%s: %v %s", name, err, answer)
		}
	}
	allIsBack(t, budget)
}

// The deadline of a body does not end what its handler does with it.
func TestDeadlineIsOfTheBodyAlone(t *testing.T) {
	gone := make(chan error, 1)
	server := httptest.NewServer(Deadline(50*time.Millisecond, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		select {
		case <-r.Context().Done():
			gone <- r.Context().Err()
		case <-time.After(300 * time.Millisecond):
			gone <- nil
		}
	})))
	defer server.Close()
	if code, _ := post(t, server, "{}"); code != http.StatusOK {
		t.Errorf("got %d", code)
	}
	if err := <-gone; err != nil {
		t.Errorf("the request ended with the deadline of its body: %v", err)
	}
}

func closed() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// allIsBack ends the test unless every share comes back.
func allIsBack(t *testing.T, budget *Budget) {
	t.Helper()
	for name, part := range map[string]*resource{
		"small memory": budget.small, "large memory": budget.large, "arriving": budget.arriving, "uncharged": budget.uncharged,
	} {
		await(t, "all of "+name+" is back", func() bool { return inUse(part) == 0 })
	}
}

func inUse(r *resource) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.used
}

func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("timed out waiting: %s", what)
		}
	}
}
