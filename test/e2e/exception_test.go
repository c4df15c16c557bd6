package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// anException is the manifest of an exception for VMs labelled image=old.
func anException(name, presets, more string) string {
	return "apiVersion: virtwright.dev/v1alpha1\nkind: PresetException\nmetadata: {name: " + name + "}\n" +
		"spec: {presets: [" + presets + "], vmSelector: {matchLabels: {image: old}}, reason: no UEFI loader" + more + "}\n"
}

// until is spec.until, so far ahead.
func until(ahead time.Duration) string {
	return fmt.Sprintf(`, until: %q`, time.Now().Add(ahead).UTC().Format(time.RFC3339))
}

var _ = Describe("An exception from presets", func() {
	const (
		week       = 7 * 24 * time.Hour
		secureBoot = "spec.template.spec.domain.firmware.bootloader.efi.secureBoot"
		rng        = "spec: {template: {spec: {domain: {devices: {rng: {}}}}}}"
		rule       = `{overrides: {spec: {template: {spec: {domain: {firmware: {bootloader: {efi: {secureBoot: true}}}, features: {smm: {enabled: true}}}}}}}, forbid: [{path: spec.template.spec.domain.devices.rng, message: no random numbers}]}`
		labelled   = "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: %s, labels: {image: %s}}\n" +
			"spec: {runStrategy: Halted, template: {spec: {domain: {devices: {%s}, resources: {requests: {memory: 64Mi}}}}}}\n"
	)
	var s *story
	// knows waits until the replica that serves knows of an exception.
	knows := func(s *story) {
		GinkgoHelper()
		Eventually(func() error {
			_, err := s.of(virtualMachine).Create(here.ctx, s.parse(fmt.Sprintf(labelled, "probe", "old", "rng: {}")), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return err
		}).Should(Succeed())
	}
	BeforeEach(func() { s = newStory() })

	It("keeps overrides and forbid rules away, for the VMs that it selects, in every replica", func() {
		second := newManager(here.programs+"/virtwright-manager", here.as(ourselves))
		second.env = []string{"POD_NAME=virtwright-1", "POD_UID=virtwright-1"}
		DeferCleanup(func() {
			second.kill()
			here.manager.restart(here.manager.args) // which registers itself again
		})
		second.start()
		second.awaitServing()
		other := newStory()
		p := s.submit(aPreset("cluster/secure-boot", `{match: {namespaces: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: In, values: [`+s.ns+`, `+other.ns+`]}]}}, `+rule[1:]))
		s.awaitReady(p)
		s.create(anException("old", "cluster/secure-boot", until(10*week)))
		for range 2 { // with the second replica, then with the first one alone
			knows(s)
			Expect(s.create(fmt.Sprintf(labelled, "a", "old", "rng: {}"))).To(lackAt(secureBoot))
			_, err := s.tryCreate(fmt.Sprintf(labelled, "b", "new", "rng: {}"))
			Expect(err).To(MatchError(ContainSubstring("no random numbers")))
			Expect(s.create(fmt.Sprintf(labelled, "b", "new", ""))).To(haveAt(secureBoot, true))
			_, err = other.tryCreate(fmt.Sprintf(labelled, "a", "old", "rng: {}"))
			Expect(err).To(MatchError(ContainSubstring("no random numbers")))
			for _, name := range []string{"a", "b"} {
				Expect(s.of(virtualMachine).Delete(here.ctx, name, metav1.DeleteOptions{})).To(Succeed())
			}
			if second.cmd.ProcessState == nil {
				second.stop(syscall.SIGTERM)
				here.manager.restart(here.manager.args)
			}
		}
	})

	It("holds alongside KubeVirt, too", func() {
		ownManager()
		here.manager.restartWith("--mode=addon")
		s.preset(aPreset("secure-boot", rule))
		e := s.create(anException("old", "secure-boot", until(10*week)))
		knows(s)
		Expect(s.create(fmt.Sprintf(labelled, "a", "old", "rng: {}"))).To(lackAt(secureBoot))
		Expect(s.create(fmt.Sprintf(labelled, "b", "new", ""))).To(haveAt(secureBoot, true))
		s.eventually(e, haveAt(matched, int64(1)), haveAt("status.vms", ConsistOf("a")))
	})

	It("ends: stored VMs keep what they have, and the next update of their spec applies the preset", func() {
		s.preset(aPreset("secure-boot", rule))
		e := s.create(anException("old", "secure-boot", until(8*time.Second)))
		knows(s)
		_, heard := s.createWarned(fmt.Sprintf(labelled, "a", "old", "rng: {}"))
		s.eventually(e, haveAt(matched, int64(1)), haveAt("status.vms", ConsistOf("a")), haveAt("status.lastUsed", Not(BeNil())))
		Expect(s.condition(e, "Active")).To(HavePrefix("True EndsSoon ends at "))
		Expect(heard).To(say("exception old, which keeps preset secure-boot from acting, ends at"))
		Eventually(func() error {
			_, err := s.tryCreate(fmt.Sprintf(labelled, "late", "old", "rng: {}"))
			if err == nil {
				Expect(s.of(virtualMachine).Delete(here.ctx, "late", metav1.DeleteOptions{})).To(Succeed())
			}
			return err
		}).Should(MatchError(ContainSubstring("no random numbers")))

		Eventually(func() string { return s.condition(e, "Active") }).Should(HavePrefix("False Expired ended at "))
		shown, _ := s.kubectl("", "get", "presetexceptions")
		Expect(shown).To(MatchRegexp(`^NAME +PRESETS +STATE +UNTIL .*\nold +\["secure-boot"\] +Expired `))
		Eventually(func() []string { return s.events(e) }).Should(ContainElements(
			MatchRegexp(`^EndsSoon exception ends at \S+; [01] VMs? uses? it$`),
			// late may be counted until its deletion is seen.
			MatchRegexp(`^Expired exception ended at \S+; (1 VM keeps what it has until its spec|2 VMs keep what they have until their spec) is updated$`)))
		s.eventually(e, haveAt(matched, int64(1)))
		now, heard := s.patch("a", `{metadata: {annotations: {note: x}}}`)
		Expect(now).To(And(lackAt(secureBoot), haveAt("metadata.generation", int64(1))))
		Expect(heard).To(beQuiet())
		now, heard = s.patch("a", `{spec: {template: {spec: {hostname: h}}}}`)
		Expect(now).To(And(haveAt(secureBoot, true), haveAt("spec.template.spec.domain.devices.rng", Not(BeNil()))))
		Expect(heard).To(say("exception old has ended: preset secure-boot acts on this VM again"))
		s.eventually(e, haveAt(matched, int64(0)), lackAt("status.vms"))
	})

	It("is proposed for each VM that needs it, and is then enough", func() {
		for name, image := range map[string]string{"a": "old", "b": "old", "c": "new", "d": "mixed", "e": "mixed"} {
			device := "rng: {}"
			if name == "c" || name == "e" {
				device = ""
			}
			s.create(fmt.Sprintf(labelled, name, image, device))
		}
		s.patch("b", `{spec: {template: {spec: {domain: {firmware: {bootloader: {efi: {secureBoot: false}}}}}}}}`)
		rules := s.preset(aPreset("secure-boot", "{mode: Audit, "+rule[1:]))
		file := filepath.Join(GinkgoT().TempDir(), "preset.yaml")
		Expect(os.WriteFile(file, []byte(aPreset("secure-boot", rule)), 0o600)).To(Succeed())

		code, proposed, errs := s.commandLine("exceptions", "--propose", "-f", file)
		Expect(code).To(BeZero(), errs)
		Expect(proposed).To(ContainSubstring("# 3 VMs: a b d\n# kubectl label vm --namespace " + s.ns + " a b d virtwright.dev/exception=secure-boot\n"))
		s.kubectl("", "label", "vm", "a", "b", "d", "virtwright.dev/exception=secure-boot")
		s.kubectl(proposed, "apply", "-f", "-")
		code, again, errs := s.commandLine("exceptions", "--propose", "-f", file)
		Expect(code).To(BeZero(), errs)
		Expect(again).To(BeEmpty())
		s.edit(rules, `{spec: {mode: Enforce}}`)
		code, out, errs := s.commandLine("reapply", "--all")
		Expect(code).To(BeZero(), errs)
		Expect(out).To(HaveSuffix("reapplied 5 VMs: 2 changed, 3 unchanged\n"))
		for name, want := range map[string]any{"a": nil, "b": false, "c": true, "d": nil, "e": true} {
			Expect(s.get(virtualMachine, name)).To(haveAt(secureBoot, want), name)
		}
		for _, name := range []string{"a", "b", "d"} {
			s.patch(name, `{spec: {template: {spec: {hostname: other}}}}`)
		}
		code, out, errs = s.commandLine("exceptions")
		Expect(code).To(BeZero(), errs)
		Expect(out).To(MatchRegexp(`(?m)^\S+ +secure-boot +secure-boot +(<unknown>|[0-3]) +\S+ +.+ +existed before the preset was enforced$`))
		e := s.get(exception, "secure-boot")
		s.eventually(e, haveAt(matched, int64(3)), haveAt("status.vms", ConsistOf("a", "b", "d")))
	})

	It("is warned of a week before it ends, and not earlier", func() {
		s.preset(aPreset("secure-boot", rule))
		e := s.create(anException("old", "secure-boot", until(2*week)))
		knows(s)
		_, heard := s.createWarned(fmt.Sprintf(labelled, "a", "old", "rng: {}"))
		Expect(heard).To(beQuiet())
		_, err := s.of(exception).Patch(here.ctx, e.GetName(), types.MergePatchType,
			fmt.Appendf(nil, `{"spec":{"until":%q}}`, time.Now().Add(6*24*time.Hour).UTC().Format(time.RFC3339)), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(func() []string {
			var of warnings
			_, err := s.as(of.client(), virtualMachine).Create(here.ctx, s.parse(fmt.Sprintf(labelled, "b", "old", "rng: {}")), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			Expect(err).NotTo(HaveOccurred())
			return of.texts
		}).Should(say("exception old, which keeps preset secure-boot from acting, ends at"))
	})
})

var _ = Describe("Writing exceptions", Ordered, func() {
	var s *story
	BeforeAll(installRoles)
	BeforeEach(func() {
		s = newStory()
		s.bind("requester", "edit", "virtwright-exception-author")
		s.preset(aPreset("house", `{defaults: {spec: {template: {spec: {hostname: a}}}}}`))
	})
	rejected := MatchError(And(ContainSubstring("spec.presets[0]: Forbidden"), ContainSubstring("may not update virtualmachinepresets.virtwright.dev house in namespace")))

	It("comes with no role that people have anyway; looking does", func() {
		s.bind("viewer", "view")
		s.bind("editor", "edit")
		Eventually(func() error { return s.can("viewer", "list", "presetexceptions.virtwright.dev") }).Should(Succeed())
		for _, verb := range []string{"create", "update", "patch", "delete"} {
			Expect(s.can("editor", verb, "presetexceptions.virtwright.dev")).NotTo(Succeed(), verb)
		}
	})

	It("takes the right to update each preset, however the exception is written", func() {
		try := func(user, manifest string) error {
			_, err := s.as(as(user), exception).Create(here.ctx, s.parse(manifest), metav1.CreateOptions{})
			return err
		}
		Expect(try("requester", anException("e", "house", ""))).To(rejected)
		By("generateName")
		generated := s.parse(anException("e", "house", ""))
		generated.SetName("")
		generated.SetGenerateName("e-")
		_, err := s.as(as("requester"), exception).Create(here.ctx, generated, metav1.CreateOptions{})
		Expect(err).To(rejected)
		By("server-side apply")
		_, err = s.as(as("requester"), exception).Apply(here.ctx, "e", s.parse(anException("e", "house", "")), metav1.ApplyOptions{FieldManager: "x"})
		Expect(err).To(rejected)
		By("another spelling")
		for _, ref := range []string{"House", `" house"`, "/house", "cluster/cluster/house", `"house\n"`, s.ns + "/house"} {
			Expect(try("requester", anException("e", ref, ""))).To(MatchError(ContainSubstring("spec.presets[0]: Invalid value")), ref)
		}
		By("a dry run")
		_, err = s.as(as("requester"), exception).Create(here.ctx, s.parse(anException("e", "house", "")), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		Expect(err).To(rejected)

		By("the exception of another")
		s.create(anException("theirs", "house", ""))
		s.create(anException("more", "house, later", ""))
		widen := func(name, patch string, sub ...string) error {
			_, err := s.as(as("requester"), exception).Patch(here.ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, sub...)
			return err
		}
		const wide = `{"spec":{"vmSelector":{"matchLabels":null}}}`
		Expect(widen("theirs", wide)).To(rejected)
		Expect(widen("more", `{"spec":{"presets":["house"]}}`)).To(rejected)
		_, err = s.as(as("requester"), exception).Apply(here.ctx, "theirs", s.parse(anException("theirs", "house", ", ticket: t")), metav1.ApplyOptions{FieldManager: "x", Force: true})
		Expect(err).To(rejected)
		Expect(widen("theirs", `{"metadata":{"labels":{"a":"b"}}}`)).To(Succeed())
		By("one that waits for a finalizer")
		Expect(widen("theirs", `{"metadata":{"finalizers":["example.com/stay"]}}`)).To(Succeed())
		Expect(s.as(as("requester"), exception).Delete(here.ctx, "theirs", metav1.DeleteOptions{})).To(Succeed())
		Expect(widen("theirs", wide)).To(rejected)
		Expect(widen("theirs", `{"metadata":{"finalizers":null}}`)).To(Succeed())

		By("having the right")
		s.bind("requester", "virtwright-preset-author")
		Expect(try("requester", anException("mine", "house", ""))).To(Succeed())
		Expect(try("requester", anException("cluster", "cluster/house", ""))).To(MatchError(ContainSubstring("may not update clustervirtualmachinepresets.virtwright.dev house in all namespaces")))
	})

	It("warns of presets that do not exist", func() {
		_, heard := s.createWarned(anException("e", "hose", ""))
		Expect(heard).To(ConsistOf(`spec.presets[0]: preset "hose" does not exist; did you mean "house"?`))
	})
})
