package limits

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A flow gets at most half, so a new flow finds some.
func TestOneFlowGetsHalf(t *testing.T) {
	r := newResource(8)
	held := map[string]int{}
	for _, name := range []string{"a", "b", "c"} {
		for r.try(name, 1) != nil {
			held[name]++
		}
	}
	if want := map[string]int{"a": 4, "b": 2, "c": 1}; !maps.Equal(held, want) {
		t.Errorf("got %v, want %v", held, want)
	}
}

// A request that needs more than its share is served alone, and is not overtaken for ever.
func TestLargeAmount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newResource(8)
		small := r.try("a", 1)
		served := make(chan *share)
		go func() {
			s, err := r.acquire(t.Context(), "b", 100)
			if err != nil {
				t.Error(err)
			}
			served <- s
		}()
		synctest.Wait()
		waits := make(chan *share)
		go func() {
			s, err := r.acquire(t.Context(), "a", 4)
			if err != nil {
				t.Error(err)
			}
			waits <- s
		}()
		time.Sleep(time.Second) // charged to a, so b is next
		small.release()
		(<-served).release()
		(<-waits).release()
		if r.used != 0 {
			t.Errorf("%d are in use", r.used)
		}
	})
}

// Flows that always wait share by time, however many requests each has, and a flow that is idle
// saves nothing up.
func TestFlowsShareByTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newResource(4)
		ctx, stop := context.WithCancel(t.Context())
		used := map[string]time.Duration{}
		var mu sync.Mutex
		var clients sync.WaitGroup
		work := func(name string, clientCount int, takes time.Duration) {
			for range clientCount {
				clients.Go(func() {
					for ctx.Err() == nil {
						s, err := r.acquire(ctx, name, 1)
						if err != nil {
							return
						}
						time.Sleep(takes)
						s.release()
						mu.Lock()
						used[name] += takes
						mu.Unlock()
					}
				})
			}
		}
		work("long", 40, 100*time.Millisecond)
		time.Sleep(time.Second)
		work("short", 8, time.Millisecond)
		work("late", 8, 10*time.Millisecond)
		mu.Lock()
		clear(used)
		mu.Unlock()
		time.Sleep(10 * time.Second)
		stop()
		clients.Wait()
		times := slices.Sorted(maps.Values(used))
		if len(times) != 3 || times[0] < times[2]/2 {
			t.Errorf("got %v, want similar times", used)
		}
	})
}

// Shares come back in any order of events, and no more is in use than there is.
func TestSharesComeBack(t *testing.T) {
	r := newResource(10)
	var clients sync.WaitGroup
	for n := range 200 {
		clients.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(n)))
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(random.IntN(20))*time.Millisecond)
			defer cancel()
			s, err := r.acquire(ctx, fmt.Sprint(n%7), 1+random.Int64N(12))
			if err != nil {
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Error(err)
				}
				return
			}
			if used := inUse(r); used > r.size {
				t.Errorf("%d of %d are in use", used, r.size)
			}
			time.Sleep(time.Duration(random.IntN(3)) * time.Millisecond)
			s.release()
		})
	}
	clients.Wait()
	if used := inUse(r); used != 0 {
		t.Errorf("%d are in use", used)
	}
	r.now = 1e9
	if r.try("new", 1); len(r.flows) != 1 {
		t.Errorf("%d flows are remembered, want one", len(r.flows))
	}
}

// The namespace of a review stands before the object, which may name others.
func TestFlowOf(t *testing.T) {
	for want, c := range map[string]struct{ path, body string }{
		"namespace/shop":     {"/validate", `{"request": {"uid": "1", "name": "a\"namespace\":\"x", "namespace": "shop", "userInfo": {"username": "ada"}, "object": {"metadata": {"namespace": "other"}}}}`},
		`username/CORP\\ada`: {"/validate", `{"request": {"uid": "1", "name": "a", "userInfo": {"username": "CORP\\ada"}, "object": {"metadata": {"namespace": "other"}}}}`},
		"namespace/paths":    {"/apis/subresources.kubevirt.io/v1/namespaces/paths/virtualmachines/a/start", `{"namespace": "other"}`},
		"":                   {"/convert", `{"kind": "ConversionReview", "request": {"objects": [{"metadata": {"annotations": {"namespace": "other"}}}]}}`},
	} {
		if got := flowOf(c.path, []byte(c.body)); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// A large request is not overtaken for ever by requests of new namespaces.
func TestNewFlowsDoNotOvertake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newResource(8)
		ctx, stop := context.WithCancel(t.Context())
		var clients sync.WaitGroup
		clients.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				clients.Go(func() {
					if s, err := r.acquire(ctx, fmt.Sprint("new-", n), 1); err == nil {
						time.Sleep(50 * time.Millisecond)
						s.release()
					}
				})
				time.Sleep(10 * time.Millisecond)
			}
		})
		time.Sleep(time.Second)
		within, cancel := context.WithTimeout(ctx, time.Second)
		s, err := r.acquire(within, "large", 8)
		if err != nil {
			t.Errorf("the large request got no share: %v", err)
		} else {
			s.release()
		}
		cancel()
		stop()
		clients.Wait()
	})
}
