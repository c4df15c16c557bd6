package e2e

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("Opting out of defaults", func() {
	DescribeTable("by annotation", func(exclude string, want ...OmegaMatcher) {
		s := newStory()
		s.preset(aPreset("sized", `{defaults: {spec: {template: {spec: {domain: {memory: {guest: 2Gi}, cpu: {cores: 4}}}}}}}`))
		s.preset(aPreset("cluster/place", `{defaults: {spec: {template: {spec: {schedulerName: ours}}}}}`))
		s.preset(aPreset("cluster/house", overrideClass))
		got := s.create(strings.Replace(vm("web"), "name: web", `name: web, annotations: {virtwright.dev/exclude: "`+exclude+`"}`, 1))
		Expect(got).To(haveAt(class, "vms"), "overrides cannot be excluded")
		Expect(got).To(And(want...))
	},
		Entry("of a preset of the namespace", "sized", haveAt(memory, floor), haveAt(cores, int64(1)), haveAt("spec.template.spec.schedulerName", "ours")),
		Entry("of a preset of the cluster", "cluster/place", haveAt(memory, "2Gi"), lackAt("spec.template.spec.schedulerName")),
		Entry("of one path", "sized:"+memory, haveAt(memory, floor), haveAt(cores, int64(4)), haveAt("spec.template.spec.schedulerName", "ours")),
		Entry("of two things", "sized:"+cores+", cluster/place", haveAt(memory, "2Gi"), haveAt(cores, int64(1)), lackAt("spec.template.spec.schedulerName")),
		Entry("of everything", "*", haveAt(memory, floor), haveAt(cores, int64(1)), lackAt("spec.template.spec.schedulerName")),
		Entry("of what an override does, in vain", "cluster/house", haveAt(memory, "2Gi")),
		Entry("of a preset of the same name in the other scope, in vain", "cluster/sized, place", haveAt(memory, "2Gi"), haveAt("spec.template.spec.schedulerName", "ours")),
	)

	It("does not allow forbidden fields", func() {
		s := newStory()
		s.preset(aPreset("cluster/bare", `{forbid: [{path: spec.template.spec.hostname}]}`))
		_, _, err := s.tryKubectl(strings.Replace(vm("web", "spec: {template: {spec: {hostname: a}}}"), "name: web", `name: web, annotations: {virtwright.dev/exclude: "*"}`, 1), "create", "-f", "-")
		Expect(err).To(MatchError(ContainSubstring("spec.template.spec.hostname: Forbidden")))
	})
})
