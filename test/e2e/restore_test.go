package e2e

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var _ = Describe("A VM that is created from a copy of a stored one", func() {
	const cores = "spec.template.spec.domain.cpu.cores"
	sized := func(memory, cores string) string {
		return `{defaults: {spec: {template: {spec: {domain: {memory: {guest: ` + memory + `}, cpu: {cores: ` + cores + `}}}}}}}`
	}

	It("keeps the origin of what presets still give, and presets reach it again", func() {
		s := newStory()
		size := s.preset(aPreset("size", sized("2Gi", "2")))
		s.create(vm("web"))
		backup, _ := s.kubectl("", "get", "vm", "web", "-o", "yaml")
		Expect(s.of(virtualMachine).Delete(here.ctx, "web", metav1.DeleteOptions{})).To(Succeed())
		size = s.edit(size, `{spec: `+sized("4Gi", "2")+`}`)

		s.kubectl(backup, "create", "-f", "-")
		restored := s.get(virtualMachine, "web")
		Expect(restored).To(And(haveAt(memory, "2Gi"), haveAt(cores, int64(2))))
		Expect(at(restored, record)).To(And(ContainSubstring("size@2:default"), ContainSubstring(`"cores"`), Not(ContainSubstring(`"guest"`))))

		s.edit(size, `{spec: `+sized("8Gi", "3")+`}`)
		after, _ := s.patch("web", `{metadata: {annotations: {virtwright.dev/reapply: now}}}`)
		Expect(after).To(And(haveAt(memory, "2Gi"), haveAt(cores, int64(3))))
	})
})
