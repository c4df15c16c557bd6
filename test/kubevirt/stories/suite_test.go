package stories

import (
	"os"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/virtwright/virtwright/test/installation"
	"github.com/virtwright/virtwright/test/kubevirt"
)

// here is the cluster in which the stories take place.
var here *kubevirt.Cluster

// patience is how long a story waits for a state. It is long because a busy machine is no failure.
const patience = 2 * time.Minute

func TestMain(m *testing.M) { os.Exit(installation.Main(m)) }

// The stories share a cluster, which the test starts: it ends with the test.
func TestStories(t *testing.T) {
	RegisterFailHandler(Fail)
	began := time.Now()
	here = kubevirt.Start(t, kubevirt.Options{Chart: []string{"templates.formats={configMap}"}}) // no other is served
	t.Logf("started in %s", time.Since(began).Round(time.Millisecond))
	SetDefaultEventuallyTimeout(patience)
	SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	RunSpecs(t, "Stories with KubeVirt")
}
