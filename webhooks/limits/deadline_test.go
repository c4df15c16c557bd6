package limits

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// An answer that comes before the body, or after its deadline, leaves the connection whole: the
// client uses it again.
func TestAnswersBeforeBodies(t *testing.T) {
	var addresses []string
	server := httptest.NewServer(Deadline(50*time.Millisecond, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		addresses = append(addresses, r.RemoteAddr)
		time.Sleep(100 * time.Millisecond)
		w.WriteHeader(http.StatusTooManyRequests)
	})))
	t.Cleanup(server.Close)
	for range 3 {
		if code, _ := post(t, server, strings.Repeat("x", 4<<20)); code != http.StatusTooManyRequests {
			t.Errorf("got %d", code)
		}
	}
	if len(addresses) != 3 || addresses[0] != addresses[1] || addresses[1] != addresses[2] {
		t.Errorf("the connections came from %v: want one", addresses)
	}
}
