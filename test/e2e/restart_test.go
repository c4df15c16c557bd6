package e2e

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var _ = Describe("The manager restarts under load", func() {
	DescribeTable("and no VM passes unexpanded", func(signal os.Signal) {
		ownManager()
		s := newStory()
		s.preset(aPreset("cluster/sized", `{defaults: {spec: {template: {spec: {domain: {memory: {guest: 2Gi}}}}}}, overrides: {metadata: {labels: {house: ours}}}}`))
		load := startLoad(s)
		load.awaitMore(&load.created, 20)
		here.manager.stop(signal)
		load.awaitMore(&load.rejected, 5)
		here.manager.start()
		here.manager.awaitAnswering()
		load.awaitMore(&load.created, 20)
		load.end()
		Expect(s.create(vm("last"))).To(haveAt(memory, "2Gi"))

		list, err := s.of(virtualMachine).List(here.ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(len(list.Items)).To(BeNumerically(">=", 40))
		for i := range list.Items {
			Expect(&list.Items[i]).To(And(haveAt(memory, "2Gi"), haveAt("metadata.labels.house", "ours"), haveAt(record, Not(BeNil()))))
		}
	},
		Entry("after an orderly end", syscall.SIGTERM),
		Entry("after a crash", syscall.SIGKILL),
	)
})

var _ = Describe("The API server restarts", func() {
	It("and the manager still notices changes of presets", func() {
		ownManager()
		s := newStory()
		sized := s.preset(aPreset("sized", defaultMemory))
		restartAPIServer()
		Expect(s.create(vm("web"))).To(haveAt(memory, "2Gi"))
		s.edit(sized, `{spec: {defaults: {spec: {template: {spec: {domain: {memory: {guest: 3Gi}}}}}}}}`)
		Expect(s.create(vm("next"))).To(haveAt(memory, "3Gi"))
	})
})

var _ = Describe("An API server that cannot stream lists", func() {
	It("is asked for lists", func() {
		ownManager()
		s := newStory()
		here.manager.restartIn(listing, "--subresources-bind-address="+freeAddress())
		s.preset(aPreset("sized", defaultMemory))
		Expect(s.create(vm("web"))).To(haveAt(memory, "2Gi"))
	})
})

var _ = Describe("While no webhook answers", func() {
	It("nothing comes in unexpanded, and what must go on goes on", func() {
		ownManager()
		s := newStory()
		s.preset(aPreset("sized", defaultMemory))
		s.create(strings.Replace(vm("web"), "name: web", "name: web, finalizers: [example.com/hold]", 1))
		here.manager.stop(syscall.SIGTERM)
		DeferCleanup(func() {
			here.manager.start()
			here.manager.awaitAnswering()
		})

		_, _, err := s.tryKubectl(vm("unheard"), "create", "-f", "-")
		Expect(err).To(MatchError(contain("failed calling webhook", "virtualmachines.admission.virtwright.dev")))
		_, _, err = s.tryKubectl(aPreset("unheard", defaultMemory), "create", "-f", "-")
		Expect(err).To(MatchError(ContainSubstring("failed calling webhook")))

		_, _, err = s.tryKubectl("", "annotate", "vm", "web", "example.com/a=b")
		Expect(err).To(MatchError(ContainSubstring("failed calling webhook")))
		s.kubectl("", "annotate", "vm", "web", "virtwright.dev/rollout=Hold")
		s.kubectl("", "delete", "vm", "web", "--wait=false")
		s.kubectl("", "patch", "vm", "web", "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
		_, err = s.of(virtualMachine).Get(here.ctx, "web", metav1.GetOptions{})
		Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
	})
})

// A load creates VMs without a pause.
type load struct {
	story                    *story
	created, rejected, named atomic.Int64
	stop                     chan struct{}
	all                      sync.WaitGroup
}

func startLoad(s *story) *load {
	l := &load{story: s, stop: make(chan struct{})}
	for range 4 {
		l.all.Go(l.work)
	}
	DeferCleanup(l.end)
	return l
}

func (l *load) work() {
	defer GinkgoRecover()
	for {
		select {
		case <-l.stop:
			return
		default:
			l.createOne()
		}
	}
}

// createOne creates a VM. It may only fail because no webhook answers.
func (l *load) createOne() {
	_, err := l.story.tryCreate(vm(fmt.Sprintf("load-%d", l.named.Add(1))))
	if err == nil {
		l.created.Add(1)
		return
	}
	Expect(apierrors.IsInternalError(err) || apierrors.IsServiceUnavailable(err)).To(BeTrue(), "%v", err)
	l.rejected.Add(1)
}

func (l *load) awaitMore(count *atomic.Int64, n int64) {
	GinkgoHelper()
	start := count.Load()
	Eventually(func() int64 { return count.Load() - start }).Should(BeNumerically(">=", n))
}

func (l *load) end() {
	select {
	case <-l.stop:
	default:
		close(l.stop)
	}
	l.all.Wait()
}
