package faults

import (
	"flag"
	"log"
	"os"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

// scenes is how many scenes are played at once: they mostly wait.
const scenes = "24"

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", scenes); err != nil {
		log.Fatal(err)
	}
	ctrl.SetLogger(logr.Discard()) // faults are logged as they should be
	klog.SetLogger(logr.Discard())
	os.Exit(m.Run())
}
