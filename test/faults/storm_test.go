package faults

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Each call of the controller and of the API breaks with a chance of a third while people change
// their minds; each gets what they wanted last.
func TestStorm(t *testing.T) {
	const people, wishes = 24, 4
	stage := newStage(t)
	s := stage.scene(t, "storm")
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	verbs := stage.verbs.replace(s.namespace)
	s.controller.storms(rand.New(rand.NewPCG(seed, 1)))
	verbs.storms(rand.New(rand.NewPCG(seed, 2)))
	scenes := make([]*scene, people)
	var all sync.WaitGroup
	for i := range people {
		one := &scene{T: t, stage: stage, namespace: s.namespace, controller: s.controller, name: fmt.Sprintf("vm-%d", i)}
		scenes[i] = one
		one.create([]string{"Always", "Halted"}[i%2])
		all.Go(func() { one.dither(rand.New(rand.NewPCG(seed, uint64(i+3))), wishes) })
	}
	all.Wait()
	blown := []int{s.controller.storms(nil), verbs.storms(nil)}
	for _, one := range scenes {
		eventually(t, saying(one.name), one.asItSays)
	}
	time.Sleep(settles)
	for _, one := range scenes {
		if err := one.asItSays(); err != nil {
			t.Errorf("%s: it was as it should be, and then: %v", one.name, err)
		}
	}
	// The controller makes fewer calls on a slow computer, so fewer go wrong.
	if least := people / 4; blown[0] < least || blown[1] < least {
		t.Errorf("calls that went wrong: %v of the controller and the API, want at least %d of each", blown, least)
	}
	t.Logf("calls that went wrong: %v", blown)
}

// dither starts, stops and restarts the VM at random, and ignores rejections. The VM must reach the
// state of the request that was accepted last.
func (s *scene) dither(chance *rand.Rand, wishes int) {
	for range wishes {
		verb := []string{"start", "stop", "restart"}[chance.IntN(3)]
		for range 3 {
			code, _ := s.call(verb, "{}")
			switch {
			case code == http.StatusAccepted:
				s.promised = verb
			case code >= http.StatusInternalServerError:
				s.promised = "" // it may have been done, or not
				continue
			}
			break
		}
		time.Sleep(time.Duration(chance.IntN(400)) * time.Millisecond)
	}
}

// asItSays reports why the machine is not as its spec says, which verbs change.
func (s *scene) asItSays() error {
	s.Helper()
	strategy, _, _ := unstructured.NestedString(s.machine().Object, "spec", "runStrategy")
	if s.promised != "" && (s.promised == "stop") != (strategy == "Halted") {
		return fmt.Errorf("%s was accepted last, and the strategy is %s", s.promised, strategy)
	}
	if strategy == "Halted" {
		return s.rests()
	}
	return s.runs()
}
