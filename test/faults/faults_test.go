package faults

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/virtwright/virtwright/launcher/podspec"
)

// settles is how long a VM in the wanted state is watched: a retry follows within a second.
const settles = 1300 * time.Millisecond

// A flow is a user's request, and the state that it leads to.
type flow struct {
	// before brings the machine to where it starts.
	before func(s *scene)
	// wish is done in calls that all may have been heard; it returns how many.
	wish func(s *scene) int
	// done reports why the wish has not come true yet.
	done func(s *scene) error
	// ever is how many instances there are in the end that ever were.
	ever int
	// again says that each further call is a wish of its own.
	again bool
	// calls are some that the controller and the API cannot do without.
	controller, api []string
	// collects says that the garbage collector must be at work.
	collects bool
}

const (
	creates  = "POST virtualmachineinstances"
	deletes  = "DELETE virtualmachineinstances"
	adopts   = "PATCH virtualmachineinstances"
	tells    = "PATCH virtualmachines/status"
	rewrites = "PATCH virtualmachines"
	reads    = "GET virtualmachines"
)

func running(strategy string) func(*scene) {
	return func(s *scene) {
		s.Helper()
		s.create(strategy)
		if strategy == "Manual" {
			eventually(s.T, saying("stopped at first"), s.rests)
			s.put("start")
		}
		eventually(s.T, saying("running at first"), s.runs)
	}
}

func stopped(strategy string) func(*scene) {
	return func(s *scene) {
		s.Helper()
		s.create(strategy)
		eventually(s.T, saying("stopped at first"), s.rests)
	}
}

func put(verb string) func(*scene) int {
	return func(s *scene) int {
		s.Helper()
		return s.put(verb)
	}
}

func deleted(how metav1.DeletionPropagation) func(*scene) int {
	return func(s *scene) int {
		s.Helper()
		s.delete(s.machines(), how)
		return 1
	}
}

// orphaned deletes the VM, not its VMI, and creates the VM again.
func orphaned(s *scene) int {
	s.Helper()
	s.delete(s.machines(), metav1.DeletePropagationOrphan)
	eventually(s.T, saying("the machine is gone"), func() error {
		if s.machine() != nil {
			return errors.New("it is there")
		}
		return nil
	})
	s.create("Always")
	return 1
}

func lostInstance(s *scene) int {
	s.Helper()
	s.delete(s.instances(), metav1.DeletePropagationBackground)
	return 1
}

func lostPod(s *scene) int {
	s.Helper()
	pods := s.stage.client.Resource(corev1.SchemeGroupVersion.WithResource("pods")).Namespace(s.namespace)
	if err := pods.Delete(s.Context(), podspec.Name(s.name), *metav1.NewDeleteOptions(0)); err != nil {
		s.Fatal(err)
	}
	return 1
}

// restarted is that another instance runs than the first.
func restarted(s *scene) error {
	s.Helper()
	if s.stage.ever(s.key()) < 2 {
		return errors.New("it is still the first instance")
	}
	return s.runs()
}

var flows = map[string]flow{
	"start": {
		before: stopped("Halted"), wish: put("start"), done: (*scene).runs, ever: 1,
		controller: []string{reads, creates, tells}, api: []string{reads, rewrites},
	},
	"start-manual": {
		before: stopped("Manual"), wish: put("start"), done: (*scene).runs, ever: 1,
		controller: []string{reads, creates, tells}, api: []string{reads, tells},
	},
	"stop": {
		before: running("Always"), wish: put("stop"), done: (*scene).rests, ever: 1,
		controller: []string{deletes, tells}, api: []string{reads, rewrites},
	},
	"stop-manual": {
		before: running("Manual"), wish: put("stop"), done: (*scene).rests, ever: 1,
		controller: []string{deletes, tells}, api: []string{reads, tells},
	},
	"restart": {
		before: running("Always"), wish: put("restart"), done: restarted, ever: 2, again: true,
		controller: []string{deletes, creates, tells}, api: []string{reads, tells},
	},
	"restart-manual": {
		before: running("Manual"), wish: put("restart"), done: restarted, ever: 2, again: true,
		controller: []string{deletes, creates, tells}, api: []string{reads, tells},
	},
	"lose": {
		before: running("Always"), wish: lostInstance, done: restarted, ever: 2,
		controller: []string{creates, tells},
	},
	"fail": {
		before: running("RerunOnFailure"), wish: lostPod, done: restarted, ever: 2,
		controller: []string{deletes, creates, tells},
	},
	"delete": {
		before: running("Always"), wish: deleted(metav1.DeletePropagationBackground), done: (*scene).nothing, ever: 1, collects: true,
	},
	"delete-foreground": {
		before: running("Always"), wish: deleted(metav1.DeletePropagationForeground), done: (*scene).nothing, ever: 1, collects: true,
		controller: []string{deletes, tells},
	},
	"orphan": {
		before: running("Always"), wish: orphaned, done: (*scene).runs, ever: 1, collects: true,
		controller: []string{reads, adopts, tells},
	},
}

func TestFaults(t *testing.T) {
	stage := newStage(t)
	collects := sync.OnceFunc(func() { stage.awaitCollector(t) })
	for _, name := range slices.Sorted(maps.Keys(flows)) {
		for _, f := range everyFault {
			label := name + "-" + strings.ReplaceAll(string(f), " ", "-")
			t.Run(label, func(t *testing.T) {
				t.Parallel()
				if flows[name].collects {
					collects()
				}
				stage.scene(t, label).everyCall(flows[name], f)
			})
		}
	}
}

// everyCall has the flow happen with its first call broken, its second, and so on, until it has
// none left to break; then with those that timing has hidden.
func (s *scene) everyCall(of flow, f fault) {
	s.Helper()
	for at, must := range map[string][]string{"controller": of.controller, "api": of.api} {
		var broken []string
		for nth := 1; ; nth++ {
			s.name = fmt.Sprintf("%s-%d", at, nth)
			hit := s.once(of, trap{f, at, nth, ""})
			if hit == "" {
				break
			}
			broken = append(broken, hit)
		}
		for i, call := range must {
			if slices.Contains(broken, call) || (f == conflicting && strings.HasPrefix(call, "GET ")) {
				continue
			}
			s.name = fmt.Sprintf("%s-hidden-%d", at, i)
			if s.once(of, trap{f, at, 1, call}) == "" {
				s.Errorf("%s of the %s was never broken, only %v", call, at, broken)
			}
		}
		s.Logf("%s: %v", at, broken)
	}
}

// A trap says which call breaks, whose, and how.
type trap struct {
	fault fault
	at    string
	nth   int
	only  string
}

// once has the flow happen with one call broken, and returns that call.
func (s *scene) once(of flow, by trap) string {
	s.Helper()
	of.before(s)
	saboteur := s.controller
	if by.at == "api" {
		saboteur = s.stage.verbs.replace(s.namespace)
	}
	saboteur.arm(by.fault, by.nth, by.only)
	wished := of.wish(s)
	now := func() string { return fmt.Sprintf("%s, whose %q was %s", s.name, saboteur.struck(), by.fault) }
	eventually(s.T, now, func() error {
		s.revive()
		return of.done(s)
	})
	s.touch()
	time.Sleep(settles)
	s.revive()
	if err := of.done(s); err != nil {
		s.Errorf("%s: it was done, and then: %v", now(), err)
	}
	most := of.ever
	if of.again {
		most += wished - 1
	}
	if ever := s.stage.ever(s.key()); ever < of.ever || ever > most {
		s.Errorf("%s: there were %d instances, want %d (at most %d)", now(), ever, of.ever, most)
	}
	hit := saboteur.struck()
	saboteur.arm("", 0, "")
	return hit
}
