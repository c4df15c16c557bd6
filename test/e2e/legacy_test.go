package e2e

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var _ = Describe("A VirtualMachineInstancePreset of KubeVirt", func() {
	const applied = `metadata.annotations["virtualmachinepreset.kubevirt.io/%s"]`
	var s *story
	legacy := func(name, domain string) {
		GinkgoHelper()
		s.create("apiVersion: kubevirt.io/v1\nkind: VirtualMachineInstancePreset\nmetadata: {name: " + name +
			"}\nspec: {selector: {matchLabels: {flavor: old}}, domain: " + domain + "}\n")
		DeferCleanup(func() error {
			return ignoreNotFound(s.of(legacyPreset).Delete(here.ctx, name, metav1.DeleteOptions{}))
		})
	}
	one := func(name, metadata, domain string) string {
		return "apiVersion: kubevirt.io/v1\nkind: VirtualMachineInstance\nmetadata: {name: " + name + ", " + metadata +
			"}\nspec: {domain: {devices: {}, memory: {guest: 64Mi}" + domain + "}}\n"
	}
	mark := func(name string) string { return strings.Replace(applied, "%s", name, 1) }
	BeforeEach(func() {
		s = newStory()
		legacy("old", "{cpu: {cores: 3}, devices: {rng: {}}}")
		Eventually(func() any { return at(s.tryOut(one("probe", "labels: {flavor: old}", "")), "spec.domain.cpu.cores") }).Should(Equal(int64(3)))
	})

	It("acts when an instance is created, and says so", func() {
		got, warnings := s.createWarned(one("web", "labels: {flavor: old}", ""))
		Expect(got).To(And(haveAt("spec.domain.cpu.cores", int64(3)), haveAt("spec.domain.devices.rng", map[string]any{}), haveAt(mark("old"), "kubevirt.io/v1")))
		Expect(warnings).To(say("VirtualMachineInstancePreset is deprecated"))
		Expect(s.create(one("other", "labels: {flavor: new}", ""))).To(And(lackAt(mark("old")), haveAt("spec.domain.cpu.cores", int64(1))))
	})

	It("leaves what the author wrote", func() {
		got := s.create(one("web", "labels: {flavor: old}", ", cpu: {cores: 5}"))
		Expect(got).To(And(haveAt("spec.domain.cpu.cores", int64(5)), haveAt("spec.domain.devices.rng", map[string]any{})))
	})

	It("leaves VMs alone, and acts on the instances that they launch", func() {
		owner := s.create(vm("web", "spec: {template: {metadata: {labels: {flavor: old}}}}"))
		Expect(owner).To(haveAt(cores, int64(1)))
		Expect(s.launch(owner)).To(And(haveAt("spec.domain.devices.rng", map[string]any{}), haveAt(mark("old"), "kubevirt.io/v1")))
	})

	It("keeps away from an instance that excludes it", func() {
		got := s.create(one("web", `labels: {flavor: old}, annotations: {virtualmachineinstancepresets.admission.kubevirt.io/exclude: "true"}`, ""))
		Expect(got).To(And(haveAt("spec.domain.cpu.cores", int64(1)), lackAt(mark("old"))))
	})

	It("that contradicts another one rejects the instance", func() {
		legacy("older", "{cpu: {cores: 2}, devices: {}}")
		Eventually(func() error {
			_, err := s.of(instance).Create(here.ctx, s.parse(one("probe", "labels: {flavor: old}", "")), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return err
		}).ShouldNot(Succeed())
		_, err := s.tryCreate(one("web", "labels: {flavor: old}", ""))
		Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
		Expect(err).To(MatchError(contain("spec.domain.cpu.cores", "old", "older", "both match and differ")))
	})
})
