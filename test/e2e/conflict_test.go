package e2e

import (
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("Two presets that set one field", func() {
	var s *story
	BeforeEach(func() { s = newStory() })
	sized := func(ref string, priority int, guest string) {
		GinkgoHelper()
		s.preset(aPreset(ref, fmt.Sprintf(`{priority: %d, defaults: {spec: {template: {spec: {domain: {memory: {guest: %s}}}}}}}`, priority, guest)))
	}

	It("are decided by priority, silently", func() {
		sized("aaa", 1, "1Gi")
		sized("zzz", 2, "2Gi")
		got, warnings := s.createWarned(vm("web"))
		Expect(got).To(haveAt(memory, "2Gi"))
		Expect(warnings).To(beQuiet())
	})

	It("are decided by scope, silently", func() {
		sized("cluster/aaa", 1, "1Gi")
		sized("zzz", 1, "2Gi")
		got, warnings := s.createWarned(vm("web"))
		Expect(got).To(haveAt(memory, "2Gi"))
		Expect(warnings).To(beQuiet())
	})

	It("are decided by name, with a warning that names both", func() {
		sized("zzz", 1, "2Gi")
		sized("aaa", 1, "1Gi")
		_, stderr := s.kubectl(vm("web"), "create", "-f", "-")
		Expect(lines(stderr)).To(say("presets aaa and zzz set "+memory+" to different values", `"1Gi"`, `"2Gi"`))
		Expect(s.get(virtualMachine, "web")).To(haveAt(memory, "1Gi"))
	})

	It("do not conflict where they agree, or where the author decided", func() {
		sized("aaa", 1, "1Gi")
		sized("zzz", 1, "1024Mi")
		_, warnings := s.createWarned(vm("agreed"))
		Expect(warnings).To(beQuiet())
		_, warnings = s.createWarned(vm("mine", "spec: {template: {spec: {domain: {memory: {guest: 5Gi}}}}}"))
		Expect(warnings).To(beQuiet())
	})

	It("by override are decided for the cluster, with any priority", func() {
		s.preset(aPreset("aaa", `{priority: 100, overrides: {spec: {template: {spec: {priorityClassName: team}}}}}`))
		s.preset(aPreset("cluster/zzz", overrideClass))
		Expect(s.create(vm("web", "spec: {template: {spec: {priorityClassName: mine}}}"))).To(haveAt(class, "vms"))
	})
})
