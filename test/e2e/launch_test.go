package e2e

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

var _ = Describe("Launching the instance of a VM", func() {
	const (
		definition = `{priority: 1000, defaults: {spec: {template: {spec: {nodeSelector: {pool: old}, domain: {memory: {guest: 2Gi}, cpu: {cores: 2}}}}}}}`
		launch     = `{applyAt: Launch, match: {labels: {matchLabels: {app: web}}},
defaults: {spec: {template: {spec: {nodeSelector: {pool: new}, evictionStrategy: LiveMigrate, domain: {memory: {guest: 4Gi}, cpu: {cores: 8}}}}}},
overrides: {spec: {template: {spec: {schedulerName: ours}}}}}`
	)
	var s *story
	BeforeEach(func() {
		s = newStory()
		s.preset(aPreset("sized", definition))
		s.preset(aPreset("cluster/place", launch))
	})
	labelled := func(text string) string {
		return strings.Replace(text, "name: web", "name: web, labels: {app: web}", 1)
	}

	It("lets Launch presets win over defaults of presets and platform, never over the author", func() {
		s.kubectl(labelled(vm("web", "spec: {template: {spec: {domain: {cpu: {cores: 3}}}}}")), "create", "-f", "-")
		owner := s.get(virtualMachine, "web")
		Expect(owner).To(And(haveAt(memory, "2Gi"), haveAt("spec.template.spec.nodeSelector.pool", "old"),
			haveAt("spec.template.spec.evictionStrategy", "None"), lackAt("spec.template.spec.schedulerName")))
		got := s.launch(owner)
		Expect(got).To(And(
			haveAt("spec.domain.memory.guest", "4Gi"),
			haveAt("spec.nodeSelector.pool", "new"),
			haveAt("spec.evictionStrategy", "LiveMigrate"),
			haveAt("spec.schedulerName", "ours"),
			haveAt("spec.domain.cpu.cores", int64(3)),
		))
		Expect(at(got, record)).To(ContainSubstring("cluster/place@1:default"))
		Expect(substance(s.get(virtualMachine, "web"))).To(Equal(substance(owner)), "a launch leaves the VM as it is")
	})

	It("gives a VMI without owner presets of both moments", func() {
		got := s.create(strings.Replace(labelled(sparse("web")), "kind: VirtualMachine", "kind: VirtualMachineInstance", 1))
		Expect(got).To(And(
			haveAt("spec.domain.memory.guest", "2Gi"), // the higher priority
			haveAt("spec.evictionStrategy", "LiveMigrate"),
			haveAt("spec.schedulerName", "ours"),
		))
	})

	It("gives each launch the presets as they are then", func() {
		owner := s.create(labelled(vm("web", "spec: {runStrategy: Manual}")))
		Expect(s.launch(owner)).To(haveAt("spec.nodeSelector.pool", "new"))
		Expect(s.of(instance).Delete(here.ctx, "web", metav1.DeleteOptions{})).To(Succeed())
		s.noInstance("web")
		s.edit(s.get(clusterPreset, "place"), `{spec: {defaults: {spec: {template: {spec: {nodeSelector: {pool: newest}}}}}}}`)
		Expect(s.launch(owner)).To(haveAt("spec.nodeSelector.pool", "newest"))
	})

	It("lets the CPUs and the memory of the instance grow, not those of the VM", func() {
		owner := s.create(vm("web", "spec: {runStrategy: Manual}"))
		Expect(owner).To(And(lackAt("spec.template.spec.domain.cpu.maxSockets"), lackAt("spec.template.spec.domain.memory.maxGuest")))
		Expect(s.launch(owner)).To(And(haveAt("spec.domain.cpu.maxSockets", int64(4)), haveAt("spec.domain.memory.maxGuest", "8Gi")))
		owner, _ = s.patch("web", `{"spec": {"template": {"spec": {"domain": {"memory": {"guest": "4Gi"}}}}}}`)
		Expect(owner).To(lackAt("spec.template.spec.domain.memory.maxGuest"))
		Expect(s.of(instance).Delete(here.ctx, "web", metav1.DeleteOptions{})).To(Succeed())
		s.noInstance("web")
		Expect(s.launch(owner)).To(haveAt("spec.domain.memory.maxGuest", "16Gi"))
	})

	It("never copies Definition presets that the VM does not have", func() {
		owner := s.create(labelled(vm("web", "spec: {runStrategy: Manual}")))
		s.preset(aPreset("late", `{defaults: {spec: {template: {spec: {hostname: late}}}}}`))
		Expect(s.launch(owner)).To(lackAt("spec.hostname"))
	})
})

// launch makes the instance of a VM as its controller does.
func (s *story) launch(owner object) object {
	GinkgoHelper()
	controller := true
	out := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "kubevirt.io/v1", "kind": instance, "spec": owner.DeepCopy().Object["spec"].(map[string]any)["template"].(map[string]any)["spec"],
	}}
	if of, ok := at(owner, "spec.template.metadata").(map[string]any); ok {
		out.Object["metadata"] = (&unstructured.Unstructured{Object: of}).DeepCopy().Object
	}
	out.SetName(owner.GetName())
	out.SetNamespace(owner.GetNamespace())
	out.SetOwnerReferences([]metav1.OwnerReference{{
		APIVersion: owner.GetAPIVersion(), Kind: owner.GetKind(), Name: owner.GetName(), UID: owner.GetUID(), Controller: &controller,
	}})
	got, err := s.as(clientAs(collector), instance).Create(here.ctx, out, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	return got
}
