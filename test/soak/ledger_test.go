package soak

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// An answer is what became of a request.
type answer struct {
	event string // during which it came
	verb  string
	ended time.Time
	took  time.Duration
	err   error // nil unless the request failed
	// unsent says that the API server was not there to hear it.
	unsent bool
}

// A ledger has every answer.
type ledger struct {
	mu      sync.Mutex
	event   string
	began   map[string]time.Time
	order   []string
	answers []answer
	back    time.Time // when the API server was ready again
}

// enter begins an event; what ends from now on belongs to it.
func (l *ledger) enter(event string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.began == nil {
		l.began = map[string]time.Time{}
	}
	if _, again := l.began[event]; !again {
		l.order = append(l.order, event)
		l.began[event] = time.Now()
	}
	l.event = event
}

func (l *ledger) record(a answer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a.event, a.ended = l.event, time.Now()
	l.answers = append(l.answers, a)
}

// isBack says that the API server is ready again.
func (l *ledger) isBack() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.back = time.Now()
}

// requests is how many did not fail.
func (l *ledger) requests() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, a := range l.answers {
		if a.err == nil {
			n++
		}
	}
	return n
}

// Of the events, these two may fail requests, and for how long.
const (
	killed    = "a replica is killed"
	apiServer = "the API server restarts"
	recovery  = 5 * time.Second
)

// may says whether a failure is one that there may be: of an API server that is not ready, or of a
// replica that did not know that it would end.
func (l *ledger) may(a answer) bool {
	switch a.event {
	case apiServer:
		return a.unsent || a.ended.Before(l.back) && !apierrors.IsInvalid(a.err)
	case killed:
		return retriable(a.err) && a.ended.Sub(l.began[killed]) <= recovery
	}
	return false
}

// particulars are what differs between failures of one kind.
var particulars = regexp.MustCompile(`"https?://[^"]+"|[0-9.]+:[0-9]+`)

// judge reports every failure that there should not have been, and the figures.
func (l *ledger) judge(t *testing.T) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	of := map[string][]answer{}
	wrong, excused := map[string][]time.Duration{}, map[string][]time.Duration{}
	for _, a := range l.answers {
		of[a.event] = append(of[a.event], a)
		if a.err == nil {
			continue
		}
		of, what := wrong, fmt.Sprintf("%s: %s: %v", a.event, a.verb, a.err)
		if l.may(a) {
			of, what = excused, particulars.ReplaceAllString(what, "…")
		}
		of[what] = append(of[what], a.ended.Sub(l.began[a.event]).Round(time.Millisecond))
	}
	for what, when := range wrong {
		t.Errorf("%d times, first and last after %s and %s, while %s", len(when), slices.Min(when), slices.Max(when), what)
	}
	for what, when := range excused {
		t.Logf("excused: %d times, first and last after %s and %s, while %s", len(when), slices.Min(when), slices.Max(when), what)
	}
	var table strings.Builder
	fmt.Fprintf(&table, "%-36s %8s %8s %8s %8s %6s\n", "while", "requests", "p50", "p99", "max", "failed")
	for _, event := range l.order {
		if len(of[event]) == 0 {
			t.Errorf("%s: no request", event)
			continue
		}
		table.WriteString(l.row(event, of[event]))
	}
	t.Logf("%d requests, those that failed and were sent again among them\n%s", len(l.answers), table.String())
}

// row has the figures of an event.
func (l *ledger) row(event string, answers []answer) string {
	var took []time.Duration
	failures, last := 0, time.Duration(0)
	for _, a := range answers {
		took = append(took, a.took)
		if a.err != nil {
			failures, last = failures+1, a.ended.Sub(l.began[event])
		}
	}
	slices.Sort(took)
	row := fmt.Sprintf("%-36s %8d %8s %8s %8s %6d", event, len(took),
		took[len(took)/2].Round(100*time.Microsecond), took[len(took)*99/100].Round(time.Millisecond), took[len(took)-1].Round(time.Millisecond), failures)
	if failures > 0 {
		row += fmt.Sprintf("  the last after %s", last.Round(time.Millisecond))
	}
	return row + "\n"
}
