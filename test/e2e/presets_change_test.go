package e2e

import (
	"strings"

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

	It("an annotation that is set, forbidden, required or read is not changed behind their back", func() {
		s := newStory()
		s.preset(aPreset("noted", `{overrides: {metadata: {annotations: {set: theirs}}}, forbid: [{path: metadata.annotations.bad}], require: [{path: metadata.annotations.owner}]}`))
		s.preset(aPreset("big", `{match: {conditions: [{name: big, expression: "object.metadata.?annotations[?'size'].orValue('') == 'big'"}]}, overrides: {spec: {template: {spec: {priorityClassName: vms}}}}}`))
		s.create(strings.Replace(vm("web"), "name: web", "name: web, annotations: {owner: me}", 1))

		_, warnings, err := s.tryKubectl("", "annotate", "vm", "web", "set=mine", "--overwrite")
		Expect(err).NotTo(HaveOccurred())
		Expect(warnings).To(ContainSubstring("overrides metadata.annotations.set"))
		_, _, err = s.tryKubectl("", "annotate", "vm", "web", "bad=1")
		Expect(err).To(MatchError(ContainSubstring("metadata.annotations.bad")))
		_, _, err = s.tryKubectl("", "annotate", "vm", "web", "owner-")
		Expect(err).To(MatchError(ContainSubstring("metadata.annotations.owner")))
		s.kubectl("", "annotate", "vm", "web", "size=big")
		Expect(s.get(virtualMachine, "web")).To(And(haveAt("metadata.annotations.set", "theirs"), haveAt(class, "vms")))
	})
})
