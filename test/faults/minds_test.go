package faults

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// roundTrip is a transport that is a function.
type roundTrip func(*http.Request) (*http.Response, error)

// RoundTrip calls the function.
func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Users change their minds while a VMI is being created, which takes time: the request that was
// accepted last is carried out, with every run strategy.
func TestMinds(t *testing.T) {
	const people, wishes = 24, 30
	stage := newStage(t)
	s := stage.scene(t, "minds")
	s.slowly(100 * time.Millisecond)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	scenes := make([]*scene, people)
	var all sync.WaitGroup
	for i := range people {
		one := &scene{T: t, stage: stage, namespace: s.namespace, controller: s.controller, name: fmt.Sprintf("vm-%d", i)}
		one.create([]string{"Manual", "RerunOnFailure"}[i%2])
		scenes[i] = one
		all.Go(func() { one.waver(rand.New(rand.NewPCG(seed, uint64(i))), wishes) })
	}
	all.Wait()
	accepted := 0
	for _, one := range scenes {
		if one.promised != "" {
			accepted++
			eventually(t, saying(one.name+": "+one.promised), one.asPromised)
		}
	}
	time.Sleep(settles)
	for _, one := range scenes {
		if err := one.asPromised(); err != nil {
			t.Errorf("%s: %s was accepted last, came true, and then: %v", one.name, one.promised, err)
		}
	}
	if accepted < people/2 {
		t.Errorf("only %d of %d VMs got a request", accepted, people)
	}
}

// slowly has instances made slowly from now on.
func (s *scene) slowly(delay time.Duration) {
	inner := s.controller.inner
	s.controller.inner = roundTrip(func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/virtualmachineinstances") {
			time.Sleep(delay)
		}
		return inner.RoundTrip(r)
	})
}

// waver starts, stops and restarts the machine in quick succession.
func (s *scene) waver(chance *rand.Rand, wishes int) {
	for range wishes {
		verb := []string{"start", "stop", "stop", "restart"}[chance.IntN(4)]
		if code, _ := s.call(verb, "{}"); code == http.StatusAccepted {
			s.promised = verb
		}
		time.Sleep(time.Duration(chance.IntN(30)) * time.Millisecond)
	}
}

// asPromised reports why the machine is not as was accepted last.
func (s *scene) asPromised() error {
	s.Helper()
	switch s.promised {
	case "":
		return nil
	case "stop":
		return s.rests()
	}
	return s.runs()
}
