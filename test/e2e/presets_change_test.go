package e2e

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var _ = Describe("Presets come, change and go while VMs exist", func() {
	DescribeTable("an old VM keeps its fields, a new one gets those of the presets now", func(ref string) {
		s := newStory()
		before := s.create(vm("before"))
		p := s.preset(aPreset(ref, `{defaults: {spec: {template: {spec: {domain: {memory: {guest: 2Gi}}}}}}, overrides: {spec: {template: {spec: {priorityClassName: vms}}}}}`))
		first := s.create(vm("first"))
		Expect(first).To(And(haveAt(memory, "2Gi"), haveAt(class, "vms")))

		s.edit(p, `{spec: {defaults: {spec: {template: {spec: {domain: {memory: {guest: 3Gi}}}}}}, overrides: {spec: {template: {spec: {priorityClassName: others}}}}}}`)
		second := s.create(vm("second"))
		Expect(second).To(And(haveAt(memory, "3Gi"), haveAt(class, "others")))

		Expect(s.of(p.GetKind()).Delete(here.ctx, p.GetName(), metav1.DeleteOptions{})).To(Succeed())
		s.awaitGone(memory, "3Gi")
		Expect(s.create(vm("third"))).To(And(haveAt(memory, floor), lackAt(class)))

		for name, was := range map[string]object{"before": before, "first": first, "second": second} {
			Expect(substance(s.get(virtualMachine, name))).To(Equal(substance(was)))
			after, warnings := s.patch(name, `{spec: {template: {spec: {hostname: host}}}}`)
			Expect(warnings).To(BeEmpty())
			Expect(after).To(And(haveAt(memory, at(was, memory)), haveAt(class, at(was, class))))
		}
		after, _ := s.patch("first", `{spec: {template: {spec: {priorityClassName: mine}}}}`)
		Expect(after).To(haveAt(class, "mine"), "a preset that is gone governs nothing")
	},
		Entry("of the namespace", "house"),
		Entry("of the cluster", "cluster/house"),
	)
})
