package e2e

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

var _ = Describe("Applying a manifest", func() {
	const text = `
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: applied, labels: {os: windows}}
spec:
  template:
    spec:
      domain:
        devices:
          disks: [{name: data, disk: {bus: scsi}}]
      volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
      tolerations: [{key: mine, operator: Exists}]
`
	var s *story
	BeforeEach(func() {
		s = newStory()
		s.preset(aPreset("disks", `{match: {labels: {matchLabels: {os: windows}}}, defaults: {spec: {template: {spec: {
domain: {memory: {guest: 4Gi}, cpu: {cores: 4}, devices: {disks: [{name: root, disk: {bus: sata}}, {name: data, cache: none}]}},
volumes: [{name: root, containerDisk: {image: "example.com/windows:11"}}],
tolerations: [{key: ours, operator: Exists}]}}}}}`))
		s.preset(aPreset("cluster/class", `{overrides: {spec: {template: {spec: {priorityClassName: vms}}}}}`))
	})

	It("on the client a second time changes nothing", func() {
		s.kubectl(text, "apply", "-f", "-")
		first := s.get(virtualMachine, "applied")
		Expect(first).To(haveDisks("data", "root"))
		// kubectl sends its own lists again, without our elements, which come back.
		_, stderr := s.kubectl(text, "apply", "-f", "-")
		Expect(stderr).To(BeEmpty())
		Expect(substance(s.get(virtualMachine, "applied"))).To(Equal(substance(first)))
	})

	It("whose lists are its own is nothing to send a second time", func() {
		small := vm("small", "spec: {template: {spec: {terminationGracePeriodSeconds: 5}}}")
		s.kubectl(small, "apply", "-f", "-")
		Expect(s.get(virtualMachine, "small")).To(haveAt("spec.template.spec.priorityClassName", "vms"))
		out, stderr := s.kubectl(small, "apply", "-f", "-")
		Expect(out).To(ContainSubstring("unchanged"))
		Expect(stderr).To(BeEmpty())
	})

	DescribeTable("that is what sparsify leaves of a VM changes nothing", func(flags ...string) {
		full := strings.Replace(text, "domain:", "priorityClassName: vms\n      domain:\n        cpu: {cores: 4}\n        memory: {guest: 4Gi}", 1)
		apply := append(append([]string{"apply"}, flags...), "-f", "-")
		s.kubectl(full, apply...)
		before := s.get(virtualMachine, "applied")
		left := s.virtwright("sparsify", "vm/applied")
		Expect(left.cmd.Wait()).To(Succeed(), left.errs.sinceMark())
		Expect(left.out.sinceMark()).To(ContainSubstring("bus: scsi"))
		for _, given := range []string{"guest:", "cores:", "priorityClassName", "bus: sata", "example.com", "resourceVersion"} {
			Expect(left.out.sinceMark()).NotTo(ContainSubstring(given))
		}
		s.kubectl(left.out.sinceMark(), apply...)
		after := s.get(virtualMachine, "applied")
		Expect(after.Object["spec"]).To(Equal(before.Object["spec"]))
		Expect(after.GetGeneration()).To(Equal(before.GetGeneration()))
	},
		Entry("on the client"),
		Entry("on the server", "--server-side"),
	)

	DescribeTable("leaves to presets what a sparse manifest leaves out, although no value changes", func(create, replace []string) {
		full := vm("taken", "spec: {template: {spec: {terminationGracePeriodSeconds: 7, hostname: taken}}}")
		s.kubectl(full, append(create, "-f", "-")...)
		grace := s.preset(aPreset("grace", "{defaults: {spec: {template: {spec: {terminationGracePeriodSeconds: 7}}}}}"))
		before := s.get(virtualMachine, "taken")
		s.kubectl(full, append(replace, "-f", "-")...)
		Expect(at(s.get(virtualMachine, "taken"), record)).NotTo(ContainSubstring("grace"), "it is still the author's")
		s.kubectl(vm("taken", "spec: {template: {spec: {hostname: taken}}}"), append(replace, "-f", "-")...)
		after := s.get(virtualMachine, "taken")
		Expect(after.Object["spec"]).To(Equal(before.Object["spec"]))
		Expect(after.GetGeneration()).To(Equal(before.GetGeneration()))
		Expect(at(after, record)).To(ContainSubstring("grace@1:default"))

		s.edit(grace, `{"spec":{"defaults":{"spec":{"template":{"spec":{"terminationGracePeriodSeconds":9}}}}}}`)
		s.kubectl("", "annotate", "vm", "taken", "virtwright.dev/reapply=1")
		Expect(s.get(virtualMachine, "taken")).To(haveAt("spec.template.spec.terminationGracePeriodSeconds", int64(9)))
	},
		Entry("on the client", []string{"apply"}, []string{"apply"}),
		Entry("on the server", []string{"apply", "--server-side"}, []string{"apply", "--server-side"}),
		Entry("as a whole", []string{"create"}, []string{"replace"}),
	)

	It("on the server a second time changes nothing", func() {
		s.kubectl(text, "apply", "--server-side", "-f", "-")
		first := s.get(virtualMachine, "applied")
		Expect(first).To(haveDisks("data", "root"))
		_, stderr := s.kubectl(text, "apply", "--server-side", "-f", "-")
		Expect(stderr).To(BeEmpty())
		Expect(substance(s.get(virtualMachine, "applied"))).To(Equal(substance(first)))
	})

	It("that has changed keeps what virtwright added", func() {
		changed := text + "      hostname: web\n"
		for _, way := range [][]string{{"apply", "-f", "-"}, {"apply", "--server-side", "-f", "-"}} {
			s.kubectl(text, way...)
			s.kubectl(changed, way...)
			got := s.get(virtualMachine, "applied")
			Expect(got).To(And(haveDisks("data", "root"), haveAt("spec.template.spec.hostname", "web"),
				haveAt("spec.template.spec.priorityClassName", "vms"), haveAt("spec.template.spec.domain.memory.guest", "4Gi")))
			Expect(at(got, "spec.template.spec.tolerations")).To(HaveLen(2))
			s.kubectl("", "delete", "vm", "applied")
		}
	})

	It("that claims what a default gave gets it, on the client and on the server", func() {
		claiming := text + "      domain: {cpu: {cores: 3}, devices: {disks: [{name: data, disk: {bus: scsi}}]}}\n"
		claiming = strings.Replace(claiming, "      domain:\n        devices:\n          disks: [{name: data, disk: {bus: scsi}}]\n", "", 1)
		for _, way := range [][]string{{"apply", "-f", "-"}, {"apply", "--server-side", "-f", "-"}} {
			s.kubectl(text, way...)
			s.kubectl(claiming, way...)
			Expect(s.get(virtualMachine, "applied")).To(And(haveAt(cores, int64(3)), haveDisks("data", "root")))
			s.kubectl(text, way...) // and gives it back
			Expect(s.get(virtualMachine, "applied")).To(haveDisks("data", "root"))
			s.kubectl("", "delete", "vm", "applied")
		}
	})

	It("in a dry run shows what creating it gives", func() {
		dry, dryWarnings := s.kubectl(text, "create", "--dry-run=server", "-o", "yaml", "-f", "-")
		Expect(s.kubectl("", "get", "vm", "-o", "name")).To(BeEmpty(), "stored by a dry run")
		done, doneWarnings := s.kubectl(text, "create", "-o", "yaml", "-f", "-")
		Expect(substance(s.parse(dry))).To(Equal(substance(s.parse(done))))
		Expect(dryWarnings).To(Equal(doneWarnings))
	})
})

func haveDisks(names ...any) OmegaMatcher {
	return WithTransform(func(of object) []any {
		disks, _ := at(of, "spec.template.spec.domain.devices.disks").([]any)
		found := make([]any, 0, len(disks))
		for _, d := range disks {
			found = append(found, d.(map[string]any)["name"])
		}
		return found
	}, Equal(names))
}

// substance is an object without the fields that differ each time it is created.
func substance(of object) map[string]any {
	out := of.DeepCopy()
	for _, name := range []string{"uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"} {
		unstructured.RemoveNestedField(out.Object, "metadata", name)
	}
	const applied = "kubectl.kubernetes.io/last-applied-configuration"
	unstructured.RemoveNestedField(out.Object, "metadata", "annotations", applied)
	unstructured.RemoveNestedField(out.Object, "status") // which controllers write
	return out.Object
}
