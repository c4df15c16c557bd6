package e2e

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("A preset that is not enforced", func() {
	const spec = `defaults: {spec: {template: {spec: {domain: {memory: {guest: 2Gi}}}}}}, overrides: {spec: {template: {spec: {priorityClassName: vms}}}},
forbid: [{path: spec.template.spec.hostname, message: no names}]}`

	DescribeTable("changes and rejects nothing", func(mode string, warned OmegaMatcher) {
		s := newStory()
		p := s.preset(aPreset("trial", `{mode: `+mode+`, `+spec))
		got, warnings := s.createWarned(vm("web", "spec: {template: {spec: {hostname: web, priorityClassName: mine}}}"))
		Expect(got).To(And(haveAt(memory, floor), haveAt(class, "mine"), haveAt("spec.template.spec.hostname", "web")))
		Expect(warnings).To(warned)

		s.edit(p, `{spec: {mode: Enforce}}`)
		_, err := s.tryCreate(vm("named", "spec: {template: {spec: {hostname: web}}}"))
		Expect(err).To(MatchError(contain("spec.template.spec.hostname: Forbidden: no names (preset trial)")))
		Expect(s.create(vm("nameless"))).To(And(haveAt(memory, "2Gi"), haveAt(class, "vms")))
	},
		Entry("and says what it would do, in mode Warn", "Warn", And(say("trial", memory), say("trial", class), say("trial", "hostname", "no names"))),
		Entry("and is silent, in mode Audit", "Audit", BeEmpty()),
		Entry("and does nothing, in mode Off", `"Off"`, BeEmpty()),
	)
})
