package kind

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/virtwright/virtwright/test/kind/cluster"
)

const (
	root  = "../.."
	chart = root + "/charts/virtwright"
	// release and home are the name of the installation and its namespace.
	release = "virtwright"
	home    = "virtwright-system"
	// clusterVariable names the cluster.
	clusterVariable = "KIND_CLUSTER"
)

// here is where the stories take place.
var here struct {
	ctx     context.Context
	cluster *cluster.Cluster
	// tools is the folder with kubectl and helm.
	tools string
}

func TestStories(t *testing.T) {
	if os.Getenv(clusterVariable) == "" {
		t.Skip("needs a cluster of kind: make e2e-kind, or name one by " + clusterVariable)
	}
	RegisterFailHandler(Fail)
	RunSpecs(t, "Stories of a cluster")
}

var _ = BeforeSuite(func() {
	SetDefaultEventuallyTimeout(time.Minute)
	SetDefaultEventuallyPollingInterval(200 * time.Millisecond)
	ctx, cancel := context.WithCancel(context.Background())
	DeferCleanup(cancel)
	found, err := cluster.Open(os.Getenv(clusterVariable), GinkgoWriter)
	Expect(err).NotTo(HaveOccurred())
	tools, err := found.Tools(ctx)
	Expect(err).NotTo(HaveOccurred())
	here.ctx, here.cluster, here.tools = ctx, found, tools
	Expect(found.Load(ctx, archives("manager")...)).To(Succeed(), "make image writes the images")
})

var _ = ReportAfterEach(func(report SpecReport) {
	if !report.Failed() || here.cluster == nil {
		return
	}
	for _, args := range [][]string{
		{"get", "all,certificates,issuers,events", "--namespace", home},
		{"get", "vm,vmi,pods,events", "--namespace", guests, "-o", "wide"},
		{"logs", "--namespace", guests, "--selector=kubevirt.io=virt-launcher", "--prefix", "--tail=20"},
		{"logs", "--namespace", home, "--selector=app.kubernetes.io/name=virtwright", "--prefix", "--tail=50"},
	} {
		out, errs, _ := run("kubectl", "", args...) // what it cannot tell is not there
		GinkgoWriter.Println("kubectl", strings.Join(args, " "), "\n", out, errs)
	}
})

// archives are the images of that name, as make image and test/kind/e2e.sh write them.
func archives(names ...string) []string {
	var paths []string
	for _, name := range names {
		paths = append(paths, root+"/bin/virtwright-"+name+".tar")
	}
	return paths
}

// run runs kubectl or helm on the cluster.
func run(tool, stdin string, args ...string) (stdout, stderr string, err error) {
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(here.ctx, filepath.Join(here.tools, tool), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+here.cluster.Kubeconfig(), "KUBERC=off")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errs
	if err := cmd.Run(); err != nil {
		return out.String(), errs.String(), fmt.Errorf("cannot run %s %s: %w: %s", tool, strings.Join(args, " "), err, errs.String())
	}
	return out.String(), errs.String(), nil
}

// kubectl runs what must succeed and returns what it printed.
func kubectl(args ...string) string {
	GinkgoHelper()
	out, _, err := run("kubectl", "", args...)
	Expect(err).NotTo(HaveOccurred())
	return out
}

// helm runs what must succeed on the release.
func helm(args ...string) string {
	GinkgoHelper()
	out, _, err := run("helm", "", append(args, "--namespace", home)...)
	Expect(err).NotTo(HaveOccurred())
	return out
}

// create creates what must be fine and returns the warnings that came.
func create(manifest string) (warnings string) {
	GinkgoHelper()
	_, warnings, err := run("kubectl", manifest, "create", "-f", "-")
	Expect(err).NotTo(HaveOccurred(), manifest)
	return warnings
}

// field is what a JSON path finds in an object, "namespace/kind/name" or "kind/name".
func field(object, path string) string {
	GinkgoHelper()
	namespace, rest, both := strings.Cut(object, "/")
	if !both || !strings.Contains(rest, "/") {
		return kubectl("get", object, "-o", "jsonpath={"+path+"}")
	}
	return kubectl("get", rest, "--namespace", namespace, "-o", "jsonpath={"+path+"}")
}

// names are the names of the objects of kinds that a selector picks.
func names(kinds string, args ...string) []string {
	GinkgoHelper()
	return strings.Fields(kubectl(append([]string{"get", kinds, "-o", "name"}, args...)...))
}

// verb calls start, stop or restart of a VM through the API server.
func verb(namespace, name, verb string) {
	GinkgoHelper()
	_, _, err := run("kubectl", "{}", "replace", "--raw",
		"/apis/subresources.kubevirt.io/v1/namespaces/"+namespace+"/virtualmachines/"+name+"/"+verb, "-f", "-")
	Expect(err).NotTo(HaveOccurred())
}
