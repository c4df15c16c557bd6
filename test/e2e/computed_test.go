package e2e

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("A value that a preset computes", func() {
	const disk = `{defaults: {spec: {dataVolumeTemplates: [{metadata: {name: NAME}, spec: {source: {blank: {}}, storage: {resources: {requests: {storage: 1Gi}}}}}],
template: {spec: {volumes: [{name: root, dataVolume: {name: NAME}}], domain: {devices: {disks: [{name: root, disk: {bus: virtio}}]}}}}}}}`
	var s *story
	BeforeEach(func() { s = newStory() })

	It("gives every VM a disk of its own", func() {
		s.preset(aPreset("disk", strings.ReplaceAll(disk, "NAME", `{$cel: "object.metadata.name + '-root'"}`)))
		for _, name := range []string{"one", "two"} {
			Expect(s.create(vm(name))).To(haveAt("spec.template.spec.volumes[root].dataVolume.name", name+"-root"))
		}
	})

	It("is the remedy that the rejection of a taken disk names", func() {
		s.preset(aPreset("disk", strings.ReplaceAll(disk, "NAME", "root")))
		s.create(vm("one"))
		Eventually(func() error {
			_, err := s.tryCreate(vm("two"))
			return err
		}).Should(MatchError(And(ContainSubstring("another VirtualMachine has a dataVolumeTemplate of this name"), ContainSubstring(`preset disk gives this name`), ContainSubstring(`{$cel: "object.metadata.name + '-root'"}`))))
	})

	It("follows the author's own change, and not a change of the preset", func() {
		memoryFor := func(gib string) string {
			return `{defaults: {spec: {template: {spec: {domain: {memory: {guest: {$cel: "string(object.spec.template.spec.domain.cpu.cores * ` + gib + `) + 'Gi'"}}}}}}}}`
		}
		preset := s.preset(aPreset("memory", memoryFor("2")))
		Expect(s.create(vm("web", "spec: {template: {spec: {domain: {cpu: {cores: 2}}}}}"))).To(haveAt(memory, "4Gi"))
		after, _ := s.patch("web", `{spec: {template: {spec: {domain: {cpu: {cores: 3}}}}}}`)
		Expect(after).To(haveAt(memory, "6Gi"))
		s.edit(preset, `{spec: `+memoryFor("4")+`}`)
		after, _ = s.patch("web", `{metadata: {labels: {a: b}}}`)
		Expect(after).To(haveAt(memory, "6Gi"))
		after, _ = s.patch("web", `{metadata: {annotations: {virtwright.dev/reapply: now}}}`)
		Expect(after).To(haveAt(memory, "12Gi"))
	})

	It("is checked against the type of its field when the preset is created", func() {
		_, _, err := s.tryKubectl(aPreset("wrong", `{defaults: {spec: {template: {spec: {domain: {cpu: {cores: {$cel: "'two'"}}}}}}}}`), "create", "-f", "-")
		Expect(err).To(MatchError(ContainSubstring(`spec.defaults.spec.template.spec.domain.cpu.cores: Invalid value: "'two'": must be a whole number, but is of type string`)))
	})
})
