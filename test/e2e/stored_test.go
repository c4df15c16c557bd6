package e2e

import (
	"os/exec"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("The command line shows a stored VM", func() {
	It("as it is, and with --reapply as a reapply makes it", func() {
		s := newStory()
		sized := s.preset(aPreset("sized", `{defaults: {spec: {template: {spec: {domain: {cpu: {cores: 3}, memory: {guest: 2Gi}}}}}}}`))
		before := s.create(vm("web", "spec: {template: {spec: {domain: {cpu: {cores: 2}}}}}"))
		Expect(before).To(And(haveAt(memory, "2Gi"), haveAt(cores, int64(2))))
		s.edit(sized, `{spec: {defaults: {spec: {template: {spec: {domain: {memory: {guest: 8Gi}}}}}}}}`)

		stored, _ := s.kubectl("", "get", "vm", "web", "-o", "yaml")
		presets, _ := s.kubectl("", "get", "vmpreset", "-o", "yaml")
		shown := func(args ...string) (object, string) {
			GinkgoHelper()
			var out, errs strings.Builder
			command := exec.CommandContext(here.ctx, here.programs+"/virtwright", append(args, "-f", "-")...)
			command.Stdin, command.Stdout, command.Stderr = strings.NewReader(stored+"---\n"+presets), &out, &errs
			Expect(command.Run()).To(Succeed(), errs.String())
			if args[0] != "expand" {
				return nil, out.String()
			}
			return s.parse(out.String()), errs.String()
		}
		asItIs, note := shown("expand")
		Expect(asItIs).To(haveAt("spec", at(before, "spec")))
		Expect(note).To(ContainSubstring("a reapply would change " + memory + " (sized): see --reapply"))
		_, explained := shown("explain")
		Expect(explained).To(And(MatchRegexp(`memory\.guest +2Gi +sized \(default\)`), MatchRegexp(`cpu\.cores +2 +user`), MatchRegexp(`OUTDATED[^\n]*\n\S+memory\.guest +2Gi +8Gi +sized\n`)))

		reapplied, _ := shown("expand", "--reapply")
		after, _ := s.patch("web", `{metadata: {annotations: {virtwright.dev/reapply: now}}}`)
		Expect(after).To(haveAt(memory, "8Gi"))
		Expect(reapplied).To(haveAt("spec", at(after, "spec")))
		Expect(reapplied).To(lackAt(`metadata.annotations["virtwright.dev/reapply"]`))
	})
})
