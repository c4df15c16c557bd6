package e2e

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("A field of every element of a list", func() {
	const noCache = `{overrides: {spec: {template: {spec: {domain: {devices: {disks: [{name: "*", cache: none}]}}}}}}}`
	var s *story
	BeforeEach(func() { s = newStory() })

	It("reaches disks of the author and of platform defaults, also those that are added later", func() {
		s.preset(aPreset("no-cache", noCache))
		const disks = "spec.template.spec.domain.devices.disks"
		web := s.create(vm("web", `spec: {template: {spec: {domain: {devices: {disks: [{name: a, disk: {}, cache: writeback}]}}, volumes: [
			{name: a, emptyDisk: {capacity: 1Gi}}, {name: b, emptyDisk: {capacity: 1Gi}}]}}}`))
		Expect(web).To(And(haveAt(disks+"[a].cache", "none"), haveAt(disks+"[b].cache", "none")))
		after, _ := s.patch("web", `{spec: {template: {spec: {volumes: [
			{name: a, emptyDisk: {capacity: 1Gi}}, {name: b, emptyDisk: {capacity: 1Gi}}, {name: c, emptyDisk: {capacity: 1Gi}}]}}}}`)
		Expect(after).To(And(haveAt(disks+"[a].cache", "none"), haveAt(disks+"[b].cache", "none"), haveAt(disks+"[c].cache", "none")))
	})

	It("is rejected in a list whose elements have no name", func() {
		_, _, err := s.tryKubectl(aPreset("wrong", `{defaults: {spec: {template: {spec: {tolerations: [{key: "*", tolerationSeconds: 5}]}}}}}`), "create", "-f", "-")
		Expect(err).To(MatchError(ContainSubstring(`spec.defaults.spec.template.spec.tolerations[0].key: Invalid value: "*": this list does not support * for every element`)))
	})
})
