package e2e

import (
	"context"
	"os"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// here is where the stories take place.
var here *world

// patience is how long a story waits for a state. It is long because a busy machine is no failure;
// a story goes on as soon as it sees the state.
const patience = 5 * time.Minute

// clusterVariable names a kubeconfig. With it, the stories run in that cluster, where virtwright is
// installed.
const clusterVariable = "KUBECONFIG_E2E"

func visiting() bool { return os.Getenv(clusterVariable) != "" }

func TestStories(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a control plane")
	}
	RegisterFailHandler(Fail)
	RunSpecs(t, "Stories")
}

// Each process has its own control plane and manager, so that a story may restart either and change
// cluster-wide state. Process 1 builds the programs for all of them.
var _ = SynchronizedBeforeSuite(func() []byte {
	programs := build()
	if !visiting() {
		buildHelm(programs)
	}
	return []byte(programs)
}, func(programs []byte) {
	log.SetLogger(GinkgoLogr)
	SetDefaultEventuallyTimeout(patience)
	SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	ctx, cancel := context.WithCancel(context.Background())
	DeferCleanup(cancel)
	if visiting() {
		here = visit(ctx, os.Getenv(clusterVariable), string(programs))
		here.leavePodsToStandIn()
		return
	}
	here = found(ctx, string(programs))
})

var _ = ReportAfterEach(func(report SpecReport) {
	failed = failed || report.Failed()
	if report.Failed() && here != nil && here.manager != nil {
		GinkgoWriter.Printf("log of the manager in this story:\n%s\n", here.manager.log.sinceMark())
	}
})
