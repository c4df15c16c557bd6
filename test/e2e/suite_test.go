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

func TestStories(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a control plane")
	}
	RegisterFailHandler(Fail)
	RunSpecs(t, "Stories")
}

var _ = BeforeSuite(func() {
	log.SetLogger(GinkgoLogr)
	SetDefaultEventuallyTimeout(30 * time.Second)
	SetDefaultEventuallyPollingInterval(20 * time.Millisecond)
	ctx, cancel := context.WithCancel(context.Background())
	DeferCleanup(cancel)
	if path := os.Getenv("KUBECONFIG_E2E"); path != "" {
		here = visit(ctx, path)
		return
	}
	programs := build()
	buildHelm(programs)
	here = found(ctx, programs)
})

var _ = ReportAfterEach(func(report SpecReport) {
	failed = failed || report.Failed()
	if report.Failed() && here != nil && here.manager != nil {
		GinkgoWriter.Printf("log of the manager in this story:\n%s\n", here.manager.log.sinceMark())
	}
})
