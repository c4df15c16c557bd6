package kind

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// built builds a main package of a module, and is the program's path.
func built(dir, program string) string {
	GinkgoHelper()
	path := filepath.Join(GinkgoT().TempDir(), filepath.Base(program))
	cmd := exec.CommandContext(here.ctx, "go", "build", "-o", path, program)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), string(out))
	return path
}

// commands tells how people and KubeVirt's clients command the guest of VM web.
func commands() {
	// opens starts a program that is a console, and returns what it prints and what types there.
	opens := func(program string, args ...string) (*follower, io.Writer) {
		GinkgoHelper()
		typed, keyboard, err := os.Pipe()
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(keyboard.Close)
		screen := &follower{}
		start(screen, typed, program, args...)
		return screen, keyboard
	}
	types := func(keyboard io.Writer, text string) {
		GinkgoHelper()
		_, err := io.WriteString(keyboard, text)
		Expect(err).NotTo(HaveOccurred())
	}

	It("prints its hardware on virtwright console, and passes on typed text", func() {
		uid := vmi("web", ".metadata.uid")
		screen, keyboard := opens(built(root, "./cmd/virtwright"), "console", "web", "--namespace", guests)
		Eventually(func() string {
			types(keyboard, "ping\n")
			return screen.String()
		}).Should(ContainSubstring("GUEST event=pong"))
		types(keyboard, "reboot\n")
		Eventually(screen.String).Should(And(ContainSubstring("GUEST event=reboot"), ContainSubstring("GUEST cpu/online=1"), ContainSubstring(ready)))
		Expect(vmi("web", ".metadata.uid")).To(Equal(uid))
	})

	It("is paused, unpaused, rebooted and reset", func() {
		program := built(root, "./cmd/virtwright")
		command := func(verb string) {
			GinkgoHelper()
			cmd := exec.CommandContext(here.ctx, program, verb, "web", "--namespace", guests)
			cmd.Env = append(os.Environ(), "KUBECONFIG="+here.cluster.Kubeconfig())
			out, err := cmd.CombinedOutput()
			Expect(err).NotTo(HaveOccurred(), string(out))
		}
		paused := func() string { return vmi("web", ".status.conditions[?(@.type=='Paused')].status") }
		command("pause")
		Eventually(paused).Should(Equal("True"))
		command("unpause")
		Eventually(paused).Should(BeEmpty())
		boots := func() int { return strings.Count(console("web"), ready) }
		for _, verb := range []string{"softreboot", "reset"} {
			before := boots()
			command(verb)
			Eventually(boots).Should(BeNumerically(">", before), verb)
		}
	})

	It("has a console for KubeVirt's own client", func() {
		screen, keyboard := opens(built(root+"/test/render/kubevirt", "./client"), guests, "web", "console")
		Eventually(func() string {
			types(keyboard, "ping\n")
			return screen.String()
		}).Should(ContainSubstring("GUEST event=pong"))
	})
}
