package e2e

import (
	"fmt"
	"io"
	"net/http"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

var _ = Describe("A PresetRollout", func() {
	const memory = "spec.template.spec.domain.memory.guest"
	var s *story
	var size object
	var sized string
	guest := func(name string) any { return at(s.get(virtualMachine, name), memory) }
	vm := func(name, labels string) string {
		return "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: " + name + ", labels: {" + labels + "}}\n" +
			"spec: {runStrategy: Halted, template: {spec: {domain: {devices: {}}}}}\n"
	}
	metrics := func(g Gomega) string {
		response, err := http.Get("http://" + here.manager.metrics + "/metrics")
		g.Expect(err).NotTo(HaveOccurred())
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		g.Expect(err).NotTo(HaveOccurred())
		return string(text)
	}
	target := func() string { return at(s.get(presetRollout, s.ns), "status.target").(string) }

	BeforeEach(func() {
		s = newStory()
		sized = "apiVersion: virtwright.dev/v1alpha1\nkind: ClusterVirtualMachinePreset\nmetadata: {name: " + s.ns + "}\n" +
			"spec: {defaults: {spec: {template: {spec: {domain: {memory: {guest: 1Gi}}}}}}}\n"
		size = s.preset(sized)
		for name, labels := range map[string]string{"canary": `canary: "true"`, "web": "app: web", "db": "app: db", "held": "app: web"} {
			s.create(vm(name, labels))
		}
		s.patch("held", `{metadata: {annotations: {virtwright.dev/rollout: Hold}}}`)
		s.create("apiVersion: virtwright.dev/v1alpha1\nkind: PresetRollout\nmetadata: {name: " + s.ns + "}\nspec:\n  presets: [cluster/" + s.ns + "]\n" +
			"  waves:\n  - {name: canary, vms: {matchLabels: {canary: \"true\"}}}\n  - {name: rest, approval: Required}\n")
		DeferCleanup(func() error {
			return ignoreNotFound(s.of(presetRollout).Delete(here.ctx, s.ns, metav1.DeleteOptions{}))
		})
		Eventually(s.rolloutState).Should(HavePrefix("Complete"))
	})

	It("brings a change to waves in order, and waits for approvals", func() {
		s.edit(size, `{spec: {defaults: {spec: {template: {spec: {domain: {memory: {guest: 2Gi}}}}}}}}`)
		Eventually(s.rolloutState).Should(Equal("WaitingForApproval canary 100%"))
		Expect(guest("canary")).To(Equal("2Gi"))
		Expect(guest("web")).To(Equal("1Gi"))

		By("what new VMs get, and what authors bring themselves")
		s.create(vm("new", "app: web"))
		s.create(vm("new-canary", `canary: "true"`))
		Expect(guest("new")).To(Equal("1Gi"))
		Expect(guest("new-canary")).To(Equal("2Gi"))
		s.patch("db", `{metadata: {annotations: {virtwright.dev/reapply: mine}}}`)
		Expect(guest("db")).To(Equal("1Gi"))
		_, _, err := s.tryPatch("db", `{metadata: {annotations: {virtwright.dev/rolled-out: "only:cluster/`+s.ns+` rollout/`+s.ns+`/`+target()+`"}}}`)
		Expect(err).To(MatchError(ContainSubstring("no PresetRollout has brought this change to the VM")))

		By("after the approval")
		s.annotateRollout("rollout-approved", target()+"/rest")
		Eventually(s.rolloutState).Should(HavePrefix("Complete"))
		for name, want := range map[string]string{"canary": "2Gi", "web": "2Gi", "db": "2Gi", "new": "2Gi", "held": "1Gi"} {
			Expect(guest(name)).To(Equal(want), name)
		}
		Expect(s.get(virtualMachine, "db").GetAnnotations()).To(HaveKeyWithValue("virtwright.dev/reapply", "mine"), "an author may keep it in Git")
		Expect(s.get(virtualMachine, "db").GetAnnotations()).To(HaveKey("virtwright.dev/rolled-out"))
		s.kubectl(s.manifest(vm("web", "app: web")), "replace", "-f", "-")
		Expect(guest("web")).To(Equal("2Gi"))
		copied := strings.Replace(vm("later", "app: web"), "labels:", "annotations: {virtwright.dev/rolled-out: copied}, labels:", 1)
		Expect(s.create(copied).GetAnnotations()).NotTo(HaveKey("virtwright.dev/rolled-out"))
		Expect(guest("later")).To(Equal("2Gi"))
	})

	It("takes a change back when it is aborted", func() {
		before := s.get(virtualMachine, "canary")
		s.edit(size, `{spec: {defaults: {spec: {template: {spec: {domain: {memory: {guest: 2Gi}, cpu: {cores: 3}}}}}}}}`)
		Eventually(s.rolloutState).Should(HavePrefix("WaitingForApproval"))
		Expect(guest("canary")).To(Equal("2Gi"))
		s.annotateRollout("rollout-aborted", target())
		Eventually(s.rolloutState).Should(HavePrefix("Aborted"))
		after := s.get(virtualMachine, "canary")
		Expect(at(after, "spec")).To(Equal(at(before, "spec")))
		record := func(o object) string { return o.GetAnnotations()["virtwright.dev/provenance"] }
		Expect(record(after)).To(Equal(record(before)))
		s.create(vm("new-canary", `canary: "true"`))
		Expect(guest("new-canary")).To(Equal("1Gi"))

		By("which leaves VMs alone that did not have it")
		Expect(s.get(virtualMachine, "web").GetAnnotations()).NotTo(HaveKey("virtwright.dev/rolled-out"))

		By("until the preset changes again")
		s.edit(size, `{spec: {defaults: {spec: {template: {spec: {domain: {memory: {guest: 3Gi}, cpu: null}}}}}}}`)
		Eventually(s.rolloutState).Should(HavePrefix("WaitingForApproval"))
		Expect(guest("canary")).To(Equal("3Gi"))
	})

	It("pauses, and stops at VMs whose update is rejected", func() {
		s.annotateRollout("rollout-paused", "true")
		s.edit(size, `{spec: {require: [{path: spec.template.spec.hostname, message: set a name}], defaults: {spec: {template: {spec: {domain: {memory: {guest: 2Gi}}}}}}}}`)
		Eventually(s.rolloutState).Should(HavePrefix("Paused"))
		Consistently(func() any { return guest("canary") }, "2s").Should(Equal("1Gi"))
		s.annotateRollout("rollout-paused", "")
		Eventually(s.rolloutState).Should(HavePrefix("Failed canary"))
		now := s.get(presetRollout, s.ns)
		Expect(at(now, "status.failed")).To(BeEquivalentTo(1))
		Expect(fmt.Sprint(at(now, "status.failures"))).To(And(ContainSubstring("canary"), ContainSubstring("set a name")))
		if here.manager != nil {
			Eventually(metrics).Should(And(
				ContainSubstring(`virtwright_preset_rollout_state{rollout="`+s.ns+`",state="Failed"} 1`),
				ContainSubstring(`virtwright_preset_rollout_virtual_machines{rollout="`+s.ns+`",state="failed"} 1`)))
		}
		s.edit(size, `{spec: {require: null}}`)
		Eventually(s.rolloutState).Should(HavePrefix("WaitingForApproval canary"))
		Expect(guest("canary")).To(Equal("2Gi"))
	})

	It("leaves alone what another one has brought to the same VMs", func() {
		second := s.ns + "-2"
		cpu := s.preset(strings.NewReplacer(s.ns, second, "memory: {guest: 1Gi}", "cpu: {cores: 1}").Replace(sized))
		s.create("apiVersion: virtwright.dev/v1alpha1\nkind: PresetRollout\nmetadata: {name: " + second + "}\n" +
			"spec: {presets: [cluster/" + second + "], waves: [{name: canary, vms: {matchLabels: {canary: \"true\"}}}, {name: rest, approval: Required}]}\n")
		DeferCleanup(func() error { return s.of(presetRollout).Delete(here.ctx, second, metav1.DeleteOptions{}) })
		Eventually(func() string { return s.stateOfRollout(second) }).Should(HavePrefix("Complete"))
		s.edit(size, `{spec: {defaults: {spec: {template: {spec: {domain: {memory: {guest: 2Gi}}}}}}}}`)
		s.edit(cpu, `{spec: {defaults: {spec: {template: {spec: {domain: {cpu: {cores: 2}}}}}}}}`)
		for _, name := range []string{s.ns, second} {
			Eventually(func() string { return s.stateOfRollout(name) }).Should(Equal("WaitingForApproval canary 100%"))
		}
		done := s.get(virtualMachine, "canary")
		Expect(guest("canary")).To(Equal("2Gi"))
		Expect(at(done, "spec.template.spec.domain.cpu.cores")).To(BeEquivalentTo(2))
		Expect(done.GetAnnotations()["virtwright.dev/rolled-out"]).To(And(ContainSubstring("rollout/"+s.ns+"/"), ContainSubstring("rollout/"+second+"/")))
		Consistently(func() string { return s.get(virtualMachine, "canary").GetResourceVersion() }, "2s").Should(Equal(done.GetResourceVersion()))

		By("also when one is aborted")
		s.annotateRollout("rollout-aborted", target())
		Eventually(s.rolloutState).Should(HavePrefix("Aborted"))
		Expect(guest("canary")).To(Equal("1Gi"))
		Expect(at(s.get(virtualMachine, "canary"), "spec.template.spec.domain.cpu.cores")).To(BeEquivalentTo(2))
		Expect(s.stateOfRollout(second)).To(Equal("WaitingForApproval canary 100%"))
	})

	It("rejects changes that would skip a wave or do nothing", func() {
		s.edit(size, `{spec: {defaults: {spec: {template: {spec: {domain: {memory: {guest: 2Gi}}}}}}}}`)
		Eventually(s.rolloutState).Should(Equal("WaitingForApproval canary 100%"))
		for patch, message := range map[string]string{
			`{"spec":{"waves":[{"name":"web","vms":{"matchLabels":{"app":"web"}},"approval":"Required"},{"name":"canary","vms":{"matchLabels":{"canary":"true"}}},{"name":"rest"}]}}`: "would skip wave web: put it after canary",
			`{"metadata":{"annotations":{"virtwright.dev/rollout-paused":"yes"}}}`:                                                                                                    `Unsupported value: "yes": supported values: "true", "false"`,
			`{"spec":{"waves":[]}}`: "should have at least 1 items",
		} {
			_, err := s.of(presetRollout).Patch(here.ctx, s.ns, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
			Expect(err).To(MatchError(ContainSubstring(message)))
		}
		_, _, err := s.tryPatch("db", `{metadata: {annotations: {virtwright.dev/rollout: hold}}}`)
		Expect(err).To(MatchError(ContainSubstring(`Unsupported value: "hold": supported values: "Hold"`)))

		By("and says that its preset was deleted")
		Expect(s.of(size.GetKind()).Delete(here.ctx, size.GetName(), metav1.DeleteOptions{})).To(Succeed())
		Eventually(s.rolloutState).Should(HavePrefix("Invalid"))
		Expect(fmt.Sprint(at(s.get(presetRollout, s.ns), "status.conditions"))).To(ContainSubstring("preset cluster/" + s.ns + " does not exist"))
	})

	It("takes every change back that is not complete, also from a pause", func() {
		s.edit(size, `{spec: {defaults: {spec: {template: {spec: {domain: {memory: {guest: 2Gi}}}}}}}}`)
		Eventually(s.rolloutState).Should(HavePrefix("WaitingForApproval"))
		first := target()
		s.annotateRollout("rollout-paused", "true")
		s.edit(size, `{spec: {defaults: {spec: {template: {spec: {domain: {memory: {guest: 3Gi}}}}}}}}`)
		Eventually(target).ShouldNot(Equal(first))
		Expect(guest("canary")).To(Equal("2Gi"))
		s.annotateRollout("rollout-aborted", target())
		s.annotateRollout("rollout-paused", "")
		Eventually(s.rolloutState).Should(HavePrefix("Aborted"))
		Expect(guest("canary")).To(Equal("1Gi"))
	})

	It("keeps the stable revision, however often the preset changes", func() {
		s.annotateRollout("rollout-paused", "true")
		for i := range 14 {
			now := s.edit(size, fmt.Sprintf(`{spec: {defaults: {spec: {template: {spec: {domain: {cpu: {cores: %d}}}}}}}}`, i+2))
			Eventually(func(g Gomega) {
				kept, err := here.client.Resource(resources["ControllerRevision"]).List(here.ctx, metav1.ListOptions{LabelSelector: "virtwright.dev/preset-uid=" + string(now.GetUID())})
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(kept.Items).To(ContainElement(WithTransform(func(r unstructured.Unstructured) string { return r.GetName() }, HaveSuffix(fmt.Sprint("-", now.GetGeneration())))))
			}).Should(Succeed())
		}
		Eventually(s.rolloutState).Should(HavePrefix("Paused"))
		s.create(vm("new", "app: web"))
		Expect(at(s.get(virtualMachine, "new"), "spec.template.spec.domain.cpu.cores")).To(BeEquivalentTo(1), "as without a preset")
	})

	It("brings a preset that was deleted and created again to VMs as a new one", func() {
		s.annotateRollout("rollout-paused", "true")
		s.edit(size, `{spec: {defaults: {spec: {template: {spec: {domain: {memory: {guest: 2Gi}}}}}}}}`)
		Eventually(s.rolloutState).Should(HavePrefix("Paused"))
		old := target()
		Expect(s.of(size.GetKind()).Delete(here.ctx, size.GetName(), metav1.DeleteOptions{})).To(Succeed())
		s.preset(sized)
		Eventually(target).ShouldNot(Equal(old))
		s.annotateRollout("rollout-approved", old+"/rest")
		s.annotateRollout("rollout-paused", "")
		Eventually(s.rolloutState).Should(HavePrefix("WaitingForApproval canary"))
	})

	It("needs permission to change the presets, and VMs everywhere", func() {
		installRoles()
		user := s.ns + "-author"
		s.kubectl("", "create", "clusterrolebinding", user, "--clusterrole=virtwright-rollout-author", "--user="+user)
		DeferCleanup(func() { s.kubectl("", "delete", "clusterrolebinding", user) })
		Eventually(func() error { return s.can(user, "create", "presetrollouts.virtwright.dev") }).Should(Succeed())
		author := as(user)
		in := s.parse(strings.ReplaceAll("apiVersion: virtwright.dev/v1alpha1\nkind: PresetRollout\nmetadata: {name: NAME-2}\n"+
			"spec: {presets: [cluster/NAME-2], waves: [{name: all}], restart: Rolling}\n", "NAME", s.ns))
		_, err := s.as(author, presetRollout).Create(here.ctx, in, metav1.CreateOptions{})
		Expect(err).To(MatchError(And(ContainSubstring("spec.presets[0]: Forbidden"), ContainSubstring("update virtualmachines"),
			ContainSubstring("spec.restart: Forbidden"), ContainSubstring("virtualmachines/restart"))))
		_, err = s.as(author, presetRollout).Patch(here.ctx, s.ns, types.MergePatchType,
			[]byte(`{"metadata":{"annotations":{"virtwright.dev/rollout-approved":"x/rest"}}}`), metav1.PatchOptions{})
		Expect(err).To(MatchError(ContainSubstring("approve")))

		By("also to change which waves need an approval, and to abort")
		for patch, message := range map[string]string{
			`{"spec":{"waves":[{"name":"all"}]}}`:                                 "a wave needs an approval",
			`{"spec":{"presets":["cluster/other"]}}`:                              "would no longer hold the preset back",
			`{"metadata":{"annotations":{"virtwright.dev/rollout-aborted":"x"}}}`: "update virtualmachines",
		} {
			_, err = s.as(author, presetRollout).Patch(here.ctx, s.ns, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
			Expect(err).To(MatchError(ContainSubstring(message)))
		}

		By("and no preset of another rollout")
		in.Object["spec"].(map[string]any)["presets"] = []any{"cluster/" + s.ns}
		_, err = s.of(presetRollout).Create(here.ctx, in, metav1.CreateOptions{})
		Expect(err).To(MatchError(ContainSubstring("PresetRollout " + s.ns + " has preset cluster/" + s.ns)))

		By("not even by a change of the older one of two")
		in.Object["spec"].(map[string]any)["presets"] = []any{"cluster/" + s.ns + "-2"}
		_, err = s.of(presetRollout).Create(here.ctx, in, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { s.kubectl("", "delete", "presetrollout", s.ns+"-2") })
		Eventually(func() error { // once the webhook has seen the second one
			_, err := s.of(presetRollout).Patch(here.ctx, s.ns, types.MergePatchType,
				[]byte(`{"spec":{"presets":["cluster/`+s.ns+`","cluster/`+s.ns+`-2"]}}`), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
			return err
		}).Should(MatchError(ContainSubstring("PresetRollout " + s.ns + "-2 has preset cluster/" + s.ns + "-2")))
	})
})

// rolloutState is the reason, the wave and the step of the story's PresetRollout, if its status
// describes the current generation.
func (s *story) rolloutState() string { return s.stateOfRollout(s.ns) }

func (s *story) stateOfRollout(name string) string {
	GinkgoHelper()
	now := s.get(presetRollout, name)
	conditions, _ := at(now, "status.conditions").([]any)
	for _, c := range conditions {
		if c := c.(map[string]any); c["type"] == "Progressing" && c["observedGeneration"] == now.GetGeneration() {
			return fmt.Sprintf("%v %v %v", c["reason"], at(now, "status.wave"), at(now, "status.step"))
		}
	}
	return ""
}

// annotateRollout sets an annotation virtwright.dev/KEY of the story's PresetRollout.
func (s *story) annotateRollout(key, value string) {
	GinkgoHelper()
	patch := fmt.Sprintf(`{"metadata":{"annotations":{"virtwright.dev/%s":%q}}}`, key, value)
	_, err := s.of(presetRollout).Patch(here.ctx, s.ns, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	Expect(err).NotTo(HaveOccurred())
}
