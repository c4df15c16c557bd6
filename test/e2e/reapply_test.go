package e2e

import (
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// commandLine runs the command line on the story's cluster and namespace.
func (s *story) commandLine(args ...string) (code int, stdout, stderr string) {
	GinkgoHelper()
	var out, errs strings.Builder
	command := exec.CommandContext(here.ctx, here.programs+"/virtwright", append(args, "--kubeconfig="+here.kubeconfig, "-n", s.ns)...)
	command.Stdout, command.Stderr = &out, &errs
	err := command.Run()
	if command.ProcessState == nil {
		Expect(err).NotTo(HaveOccurred())
	}
	return command.ProcessState.ExitCode(), out.String(), errs.String()
}

var _ = Describe("virtwright reapply", func() {
	const (
		path     = "spec.template.spec.domain.memory.guest"
		firmware = "spec.template.spec.domain.firmware.serial"
		both     = "2 fields changed: size (" + firmware + ", " + path + ")"
	)
	var s *story
	var size object

	BeforeEach(func() {
		s = newStory()
		size = s.preset(aPreset("size", `{match: {labels: {matchLabels: {size: s}}}, defaults: {spec: {template: {spec: {domain: {memory: {guest: 2Gi}}}}}}}`))
		for name, labels := range map[string]string{"web": "size: s, app: web", "db": "size: s, app: db", "own": "app: web"} {
			s.create("apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: " + name + ", labels: {" + labels + "}}\n" +
				"spec: {runStrategy: Halted, template: {spec: {domain: {devices: {}" + map[bool]string{true: ", memory: {guest: 1Gi}"}[name == "own"] + "}}}}\n")
		}
		s.edit(size, `{spec: {defaults: {spec: {template: {spec: {domain: {memory: {guest: 4Gi}, firmware: {serial: x1}}}}}}}}`)
	})

	It("changes the VMs that are named, labelled or hold values of a preset", func() {
		code, out, _ := s.commandLine("explain", "vm/web", path)
		Expect(code).To(BeZero())
		Expect(out).To(And(ContainSubstring("size (default)"), MatchRegexp(`OUTDATED[^\n]*\n\S+memory\.guest +2Gi +4Gi +size\n`)))

		By("asking first")
		code, out, _ = s.commandLine("reapply", "vm/web", "--dry-run=server")
		Expect(code).To(BeZero())
		Expect(out).To(And(HavePrefix("vm/web: "+both+"\n--- vm/web (stored)\n+++ vm/web (reapplied)\n"),
			ContainSubstring("\n-          guest: 2Gi\n+          guest: 4Gi\n"), HaveSuffix("reapplied 1 VM: 1 changed, 0 unchanged (dry run)\n")))
		Expect(out).NotTo(Or(ContainSubstring("provenance"), ContainSubstring("managedFields"), ContainSubstring("virtwright.dev/reapply")))
		Expect(s.get(virtualMachine, "web")).To(And(haveAt(path, "2Gi"), lackAt(firmware)))

		By("name")
		code, out, _ = s.commandLine("reapply", "vm/web", "vm/own")
		Expect(code).To(BeZero())
		Expect(out).To(Equal("vm/web: " + both + "\nvm/own: unchanged\nreapplied 2 VMs: 1 changed, 1 unchanged\n"))
		Expect(s.get(virtualMachine, "web")).To(And(haveAt(path, "4Gi"), haveAt(firmware, "x1")))
		Expect(s.get(virtualMachine, "db")).To(haveAt(path, "2Gi"))

		By("preset")
		code, out, errs := s.commandLine("reapply", "--preset", "size")
		Expect(code).To(BeZero())
		Expect(errs).NotTo(ContainSubstring("also brought"))
		Expect(out).To(Equal("vm/db: " + both + "\nvm/web: unchanged\nreapplied 2 VMs: 1 changed, 1 unchanged\n"))

		By("label")
		s.edit(size, `{spec: {defaults: {spec: {template: {spec: {domain: {memory: {guest: 5Gi}}}}}}}}`)
		code, out, _ = s.commandLine("reapply", "-l", "app=web")
		Expect(code).To(BeZero())
		Expect(out).To(Equal("vm/own: unchanged\nvm/web: 1 field changed: size (" + path + ")\nreapplied 2 VMs: 1 changed, 1 unchanged\n"))
		code, _, errs = s.commandLine("reapply", "--preset", "cluster/size", "-A")
		Expect(code).To(Equal(2))
		Expect(errs).To(ContainSubstring("--preset cluster/size: the cluster has no such preset"))

		By("a preset that no record names, from Audit to Enforce")
		rng := s.preset(aPreset("rng", `{mode: Audit, match: {labels: {matchLabels: {app: web}}}, overrides: {spec: {template: {spec: {domain: {devices: {rng: {}}}}}}}}`))
		_, out, _ = s.commandLine("reapply", "--preset", "rng")
		Expect(out).To(Equal("reapplied 0 VMs: 0 changed, 0 unchanged\n"))
		s.edit(rng, `{spec: {mode: Enforce}}`)
		const rngField = "rng (spec.template.spec.domain.devices.rng)"
		_, out, _ = s.commandLine("reapply", "--preset", "rng")
		Expect(out).To(Equal("vm/own: 1 field changed: " + rngField + "\nvm/web: 1 field changed: " + rngField + "\nreapplied 2 VMs: 2 changed, 0 unchanged\n"))

		By("a preset, with the changes of another one")
		s.edit(size, `{spec: {defaults: {spec: {template: {spec: {domain: {memory: {guest: 6Gi}}}}}}}}`)
		s.edit(rng, `{spec: {overrides: {spec: {template: {spec: {terminationGracePeriodSeconds: 7}}}}}}`)
		const also = "rng (spec.template.spec.terminationGracePeriodSeconds)"
		_, out, errs = s.commandLine("reapply", "--preset", "rng")
		Expect(out).To(Equal("vm/own: 1 field changed: " + also + "\nvm/web: 2 fields changed: " + also + ", size (" + path + ")\nreapplied 2 VMs: 2 changed, 0 unchanged\n"))
		Expect(errs).To(ContainSubstring("Warning: also brought changes of size to 1 VM; --only rng leaves them out\n"))
	})

	It("keeps the last ten revisions of a preset, and those that VMs have", func() {
		revisions := func() string {
			_, out, _ := s.commandLine("history", "size")
			return strings.Join(regexp.MustCompile(`(?m)^\d+`).FindAllString(out, -1), " ")
		}
		Eventually(revisions).Should(Equal("1 2")) // VMs have the first one
		_, _, _ = s.commandLine("reapply", "vm/web", "vm/db")
		s.create("apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: late, labels: {size: s}}\nspec: {runStrategy: Halted, template: {spec: {domain: {devices: {}}}}}\n")
		for n := 3; n <= 13; n++ {
			s.edit(size, fmt.Sprintf(`{spec: {priority: %d, defaults: {spec: {template: {spec: {domain: {memory: {guest: %dGi}}}}}}}}`, n, n+2))
			Eventually(revisions).Should(HaveSuffix(strconv.Itoa(n)))
		}
		Eventually(revisions).Should(Equal("2 4 5 6 7 8 9 10 11 12 13"))
		s.kubectl("", "delete", "vmpreset", "size")
		Eventually(func() string {
			out, _ := s.kubectl("", "get", "controllerrevisions", "-o", "name")
			return out
		}).ShouldNot(ContainSubstring("preset-"))
	})

	It("brings one preset alone", func() {
		const grace = "spec.template.spec.terminationGracePeriodSeconds"
		other := s.preset(aPreset("grace", `{match: {labels: {matchLabels: {app: web}}}, overrides: {spec: {template: {spec: {terminationGracePeriodSeconds: 5}}}}}`))
		_, out, _ := s.commandLine("reapply", "--all")
		Expect(out).To(HaveSuffix("reapplied 3 VMs: 3 changed, 0 unchanged\n"))
		s.edit(size, `{spec: {defaults: {spec: {template: {spec: {domain: {memory: {guest: 6Gi}}}}}}}}`)
		s.edit(other, `{spec: {overrides: {spec: {template: {spec: {terminationGracePeriodSeconds: 9}}}}}}`)
		Eventually(func() string {
			_, out, _ := s.commandLine("history", "grace")
			return out
		}).Should(MatchRegexp(`\n2 +\d`))
		s.edit(other, `{spec: {overrides: {spec: {template: {spec: {terminationGracePeriodSeconds: 10}}}}}}`)

		By("reapply --only")
		code, out, errs := s.commandLine("reapply", "--only", "size")
		Expect(errs).To(BeEmpty())
		Expect(out).To(Equal("vm/db: 1 field changed: size (" + path + ")\nvm/web: 1 field changed: size (" + path + ")\nreapplied 2 VMs: 2 changed, 0 unchanged\n"))
		Expect(code).To(BeZero())
		Expect(s.get(virtualMachine, "web")).To(And(haveAt(path, "6Gi"), haveAt(grace, int64(5))))
		Expect(s.get(virtualMachine, "own")).To(haveAt(grace, int64(5)))
		_, out, _ = s.commandLine("reapply", "--only", "size")
		Expect(out).To(Equal("vm/db: unchanged\nvm/web: unchanged\nreapplied 2 VMs: 0 changed, 2 unchanged\n"))

		By("history")
		Eventually(func() string {
			_, out, _ := s.commandLine("history", "grace")
			return out
		}).Should(MatchRegexp(`^REVISION +AGE +CHANGE\n1 +\S+ +\(first kept\)\n2 +\S+ +spec.overrides.` + grace + `: 5 → 9\n3 +\S+ +spec.overrides.` + grace + `: 9 → 10\n$`))
		_, out, _ = s.commandLine("history", "grace", "--diff", "1")
		Expect(out).To(And(ContainSubstring("--- grace@1\n+++ grace@3\n"), ContainSubstring("terminationGracePeriodSeconds: 5\n+"), ContainSubstring("terminationGracePeriodSeconds: 10\n")))
		code, _, errs = s.commandLine("history", "grace", "--revision", "7")
		Expect(code).To(Equal(2))
		Expect(errs).To(ContainSubstring("preset grace has no revision 7: there are 1, 2, 3"))

		By("the way back: an earlier revision as the preset, and a reapply of it")
		_, out, _ = s.commandLine("history", "size", "--revision", "2")
		Expect(out).To(ContainSubstring("guest: 4Gi"))
		s.edit(size, `{spec: {defaults: {spec: {template: {spec: {domain: {memory: {guest: 4Gi}}}}}}}}`)
		_, out, _ = s.commandLine("reapply", "-l", "app=web", "--only", "size")
		Expect(out).To(HavePrefix("vm/web: 1 field changed"))
		Expect(s.get(virtualMachine, "web")).To(And(haveAt(path, "4Gi"), haveAt(grace, int64(5))))

		By("other changes in the same request")
		_, _, err := s.tryPatch("web", `{"metadata": {"annotations": {"virtwright.dev/reapply": "only:size"}, "labels": {"more": "x"}}}`)
		Expect(err).To(MatchError(ContainSubstring("a reapply of some presets must not change spec, labels")))
		_, _, err = s.tryPatch("web", `{"metadata": {"annotations": {"virtwright.dev/reapply": "only:sizes"}}}`)
		Expect(err).To(MatchError(ContainSubstring("preset does not exist; did you mean \"size\"")))
	})

	It("says which VMs the cluster rejects, and why", func() {
		s.preset(aPreset("no-db", `{match: {labels: {matchLabels: {app: db}}}, forbid: [{path: spec.template.spec.domain.firmware.serial, message: databases have no serial}]}`))
		code, out, errs := s.commandLine("reapply", "--all")
		Expect(code).To(Equal(1))
		Expect(out).To(Equal("vm/own: unchanged\nvm/web: " + both + "\nreapplied 2 VMs: 1 changed, 1 unchanged; 1 rejected\n"))
		Expect(errs).To(And(ContainSubstring("Error: vm/db: "), ContainSubstring("databases have no serial")))
		Expect(s.get(virtualMachine, "db")).To(haveAt(path, "2Gi"))
	})
})
