package e2e

import (
	"os"
	"path/filepath"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// fileOf writes a file in a new folder.
func fileOf(name, content string) string {
	GinkgoHelper()
	path := filepath.Join(GinkgoT().TempDir(), name)
	Expect(os.WriteFile(path, []byte(content), 0o600)).To(Succeed())
	return path
}

var _ = Describe("virtwright plan", func() {
	It("says before kubectl apply what it does to stored VMs, with two replicas that serve", func() {
		s := newStory()
		second := newManager(here.programs+"/virtwright-manager", here.as(ourselves))
		second.env = []string{"POD_NAME=virtwright-1", "POD_UID=virtwright-1"}
		second.start()
		second.awaitServing()
		DeferCleanup(func() {
			second.stop(syscall.SIGTERM)
			here.manager.restart(here.manager.args) // which registers itself again
		})

		small := func(memory, more string) string {
			return aPreset("small", `{match: {labels: {matchLabels: {size: small}}}, defaults: {spec: {template: {spec: {domain: {memory: {guest: `+memory+`}}`+more+`}}}}}`)
		}
		s.preset(small("1Gi", ""))
		old := s.preset(aPreset("old", `{defaults: {spec: {template: {spec: {terminationGracePeriodSeconds: 30}}}}}`))
		for _, name := range []string{"a", "b"} {
			s.create("apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: " + name + ", labels: {size: small}}\nspec: {runStrategy: Halted}\n")
		}
		s.create(vm("named", "spec: {template: {spec: {hostname: named}}}"))

		By("a change that two VMs would take")
		changed := fileOf("presets.yaml", small("2Gi", ", hostname: h"))
		code, out, stderr := s.commandLine("plan", "-f", changed)
		Expect(code).To(Equal(1), stderr)
		Expect(out).To(Equal("Presets: 1 changed\nVMs: 2 of 3 VMs change\n  changed  " + s.ns + "/small\n" +
			"    spec.defaults.spec.template.spec.domain.memory.guest  1Gi → 2Gi\n" +
			"    spec.defaults.spec.template.spec.hostname             (none) → h\n\nCHANGES\n  2 VMs\n" +
			"    spec.template.spec.domain.memory.guest  1Gi → 2Gi   restart  small\n" +
			"    spec.template.spec.hostname             (none) → h  restart  small\n    " + s.ns + "/a, " + s.ns + "/b\n"))
		Expect(s.get(virtualMachine, "a")).To(haveAt(memory, "1Gi"))

		By("a reapply, once the change is applied")
		s.kubectl("", "apply", "-f", changed)
		s.awaitReady(s.get(preset, "small"))
		code, out, _ = s.commandLine("plan", "-f", changed)
		Expect(code).To(BeZero(), out)
		code, out, _ = s.commandLine("reapply", "--preset", "small")
		Expect(code).To(BeZero(), out)
		Expect(s.get(virtualMachine, "b")).To(And(haveAt(memory, "2Gi"), haveAt("spec.template.spec.hostname", "h")))

		By("a deletion")
		code, out, _ = s.commandLine("plan", "-f", changed, "--prune")
		Expect(code).To(Equal(1))
		Expect(out).To(And(ContainSubstring("deleted  "+s.ns+"/old"), ContainSubstring("terminationGracePeriodSeconds  30 → (none)")))
		Expect(s.get(preset, "old").GetUID()).To(Equal(old.GetUID()))

		By("a rule that a VM breaks, and a conflict")
		bad := fileOf("bad.yaml", aPreset("no-names", `{forbid: [{path: "spec.template.spec.hostname", message: "names are ours"}]}`)+
			"---\n"+aPreset("other", `{defaults: {spec: {template: {spec: {terminationGracePeriodSeconds: 60}}}}}`))
		code, out, _ = s.commandLine("plan", "-f", bad)
		Expect(code).To(Equal(4))
		Expect(out).To(And(ContainSubstring("REJECTED"), ContainSubstring("names are ours (preset no-names)"), ContainSubstring("NEW CONFLICTS\n  VW301 "+s.ns+"/other")))
		_, err := s.tryKubectlErr("", "get", "vmpreset", "no-names")
		Expect(err).To(HaveOccurred())

		By("the API server as a referee")
		code, out, stderr = s.commandLine("plan", "-f", fileOf("more.yaml", small("3Gi", "")), "--dry-run=server")
		Expect(code).To(Equal(1), out+stderr)
		code, _, stderr = s.commandLine("plan", "-f", fileOf("none.yaml", aPreset("x", `{defaults: {spec: {memroy: 1}}}`)), "--dry-run=server")
		Expect(code).To(Equal(2))
		Expect(stderr).To(ContainSubstring(`unknown field "memroy"`))
	})
})

// tryKubectlErr is tryKubectl without standard output.
func (s *story) tryKubectlErr(stdin string, args ...string) (string, error) {
	_, stderr, err := s.tryKubectl(stdin, args...)
	return stderr, err
}
