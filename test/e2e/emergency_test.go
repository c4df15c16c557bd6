package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/virtwright/virtwright/test/controlplane"
)

var _ = Describe("When every replica is dead", func() {
	It("the commands of docs/operations.md create a sparse VM without the webhooks", func() {
		ownManager()
		s := newStory("tier=gold")
		s.preset(aPreset("sized", defaultMemory))
		s.preset(aPreset("cluster/gold", `{match: {namespaces: {matchLabels: {tier: gold}}}, `+strings.TrimPrefix(overrideClass, "{")))
		inShell := shell(map[string]string{"vm.yaml": s.manifest(sparse("web"))})
		steps := commandsOf("docs/operations.md", "When no replica answers")
		Expect(len(steps)).To(BeNumerically(">=", 3))

		here.manager.stop(syscall.SIGKILL)
		DeferCleanup(func() {
			here.manager.start()
			here.manager.awaitAnswering()
		})
		_, err := inShell("kubectl create -f vm.yaml")
		Expect(err).To(MatchError(ContainSubstring("failed calling webhook")))

		for _, step := range steps[:2] { // save presets and namespaces, delete the webhook configurations
			_, err := inShell(step)
			Expect(err).NotTo(HaveOccurred(), step)
		}
		Eventually(func() error { _, err := inShell("kubectl create -f vm.yaml"); return err }).Should(
			MatchError(ContainSubstring("spec: Required value")))
		out, err := inShell(steps[2])
		Expect(err).NotTo(HaveOccurred(), steps[2])
		Expect(out).To(Equal("virtualmachine.kubevirt.io/web created\n"))
		Expect(s.get(virtualMachine, "web")).To(And(
			haveAt(memory, "2Gi"), haveAt(class, "vms"), haveAt("spec.template.spec.domain.machine.type", "q35")))
	})
})

// manifest is what parse reads, with its namespace.
func (s *story) manifest(text string) string {
	GinkgoHelper()
	raw, err := s.parse(text).MarshalJSON()
	Expect(err).NotTo(HaveOccurred())
	return string(raw)
}

// shell returns what runs a command line as the administrator, in a new folder with files.
func shell(files map[string]string) func(command string) (stdout string, err error) {
	GinkgoHelper()
	dir := GinkgoT().TempDir()
	for name, content := range files {
		Expect(os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600)).To(Succeed())
	}
	assets, err := controlplane.Assets(here.ctx, GinkgoWriter)
	Expect(err).NotTo(HaveOccurred())
	path := strings.Join([]string{here.programs, assets, os.Getenv("PATH")}, string(os.PathListSeparator))
	return func(command string) (string, error) {
		var out, errs strings.Builder
		cmd := exec.CommandContext(here.ctx, "bash", "-o", "pipefail", "-c", command)
		cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &errs
		cmd.Env = append(append(os.Environ(), controlplane.KubectlEnv(here.plane.Dir())...), "PATH="+path)
		if err := cmd.Run(); err != nil {
			return out.String(), fmt.Errorf("cannot run %s: %w: %s", command, err, errs.String())
		}
		return out.String(), nil
	}
}

// commandsOf are the shell commands in a section of a page, one for each block.
func commandsOf(page, section string) []string {
	GinkgoHelper()
	text, err := os.ReadFile(filepath.Join(root, page))
	Expect(err).NotTo(HaveOccurred())
	_, after, found := strings.Cut(string(text), "\n## "+section+"\n")
	Expect(found).To(BeTrue(), "%s has no section %s", page, section)
	after, _, _ = strings.Cut(after, "\n## ")
	var out []string
	for _, block := range regexp.MustCompile("(?ms)^ *```sh\n(.*?)^ *```$").FindAllStringSubmatch(after, -1) {
		out = append(out, strings.TrimSpace(block[1]))
	}
	return out
}
