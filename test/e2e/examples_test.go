package e2e

import (
	"os/exec"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const (
	exampleNamespaces = root + "/examples/namespaces.yaml"
	examplePresets    = root + "/examples/presets"
	exampleVMs        = root + "/examples/vms"
	exampleRejected   = root + "/examples/rejected"
)

var _ = Describe("The examples", Ordered, func() {
	var s *story
	BeforeAll(func() {
		s = newStory() // its namespace stays empty: examples name theirs
		s.onlyExamples()
		s.kubectlAnywhere("apply", "-f", exampleNamespaces)
		s.kubectlAnywhere("apply", "-f", examplePresets)
		DeferCleanup(s.kubectlAnywhere, "delete", "--ignore-not-found", "-f", exampleNamespaces, "--wait=false")
		DeferCleanup(s.kubectlAnywhere, "delete", "--ignore-not-found", "-f", examplePresets, "--wait=false")
		s.kubectlAnywhere("wait", "--for=condition=Ready", "--timeout=5m", "cvmpreset", "--all")
		s.kubectlAnywhere("wait", "--for=condition=Ready", "--timeout=5m", "vmpreset", "--all", "-n", "lab")
		s.awaitSettled()
	})
	call := func(command string, args ...string) (stdout, stderr string, err error) {
		cmd := exec.Command(here.programs+"/virtwright", append([]string{command, "-f", examplePresets, "-f", exampleNamespaces}, args...)...)
		var out, errs strings.Builder
		cmd.Stdout, cmd.Stderr = &out, &errs
		err = cmd.Run()
		return out.String(), errs.String(), err
	}

	DescribeTable("are stored as expand prints them", func(file string) {
		printed, said, err := call("expand", "-o", "json", "-f", file, "--feature-gates="+gates)
		Expect(err).NotTo(HaveOccurred(), said)
		kept, warned, err := here.kubectl("", "create", "-o", "json", "-f", file)
		Expect(err).NotTo(HaveOccurred())
		Expect(stored(kept)).To(Equal(stored(printed)))
		Expect(lines(said)).To(Equal(lines(warned)))
	}, entriesOf(exampleVMs))

	DescribeTable("that are rejected are rejected by validate in the same words", func(file string) {
		said, _, err := call("validate", "-f", file, "--feature-gates="+gates)
		Expect(err).To(HaveOccurred())
		_, _, err = here.kubectl("", "create", "-f", file)
		Expect(err).To(HaveOccurred())
		// kubectl sets off each cause with a star, where there are several.
		_, cause, _ := strings.Cut(err.Error(), " is invalid: ")
		Expect(said).To(ContainSubstring(strings.TrimSpace(cause)))
	}, entriesOf(exampleRejected))
})

// entriesOf has an entry for each manifest of a folder.
func entriesOf(dir string) []TableEntry {
	files, err := filepath.Glob(dir + "/*.yaml")
	if err != nil || len(files) == 0 {
		panic("no manifests in " + dir)
	}
	out := make([]TableEntry, 0, len(files))
	for _, file := range files {
		out = append(out, Entry(filepath.Base(file), file))
	}
	return out
}

// onlyExamples waits until presets of earlier stories are gone: the comparison includes the hash of
// all presets.
func (s *story) onlyExamples() {
	GinkgoHelper()
	if here.manager == nil && len(compileOthers("")) > 0 {
		Skip("the cluster has presets of its own")
	}
	// Some are deleted with their namespaces, after other objects.
	Eventually(func() int { return len(compileOthers("")) }).Should(BeZero())
}

// kubectlAnywhere runs what must succeed, in no particular namespace.
func (*story) kubectlAnywhere(args ...string) {
	GinkgoHelper()
	_, _, err := here.kubectl("", args...)
	Expect(err).NotTo(HaveOccurred())
}

// stored is the substance of an object in JSON.
func stored(text string) map[string]any {
	GinkgoHelper()
	out := &unstructured.Unstructured{}
	Expect(out.UnmarshalJSON([]byte(text))).To(Succeed())
	return substance(out)
}
