package e2e

import (
	"fmt"
	"os"
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
		load.awaitMore(&load.refused, 5)
		here.manager.start()
		here.manager.awaitServing()
		load.awaitMore(&load.created, 20)
		load.end()

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

// A load creates VMs without a pause.
type load struct {
	story                   *story
	created, refused, named atomic.Int64
	stop                    chan struct{}
	all                     sync.WaitGroup
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

// createOne creates a VM. What fails must fail because nobody answers.
func (l *load) createOne() {
	_, err := l.story.tryCreate(vm(fmt.Sprintf("load-%d", l.named.Add(1))))
	if err == nil {
		l.created.Add(1)
		return
	}
	Expect(apierrors.IsInternalError(err) || apierrors.IsServiceUnavailable(err)).To(BeTrue(), "%v", err)
	l.refused.Add(1)
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
