package e2e

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

const (
	memory = "spec.template.spec.domain.memory.guest"
	cores  = "spec.template.spec.domain.cpu.cores"
	class  = "spec.template.spec.priorityClassName"
	record = `metadata.annotations["virtwright.dev/provenance"]`

	defaultMemory = `{defaults: {spec: {template: {spec: {domain: {memory: {guest: 2Gi}}}}}}}`
	defaultCores  = `{defaults: {spec: {template: {spec: {domain: {cpu: {cores: 4}}}}}}}`
	overrideClass = `{overrides: {spec: {template: {spec: {priorityClassName: vms}}}}}`
)

// sayDeprecated matches the one warning about a VM that says whether it runs.
var sayDeprecated = HaveExactElements(ContainSubstring("running-deprecated"))

// matching is the spec of a preset for VMs with a label.
func matching(label, spec string) string {
	return "{match: {labels: {matchLabels: {" + label + "}}}, " + strings.TrimPrefix(spec, "{")
}

var _ = Describe("A VM keeps its preset values until a user asks", func() {
	var s *story
	BeforeEach(func() { s = newStory() })

	It("when only run state changes", func() {
		s.preset(aPreset("sized", defaultMemory))
		before := s.create(vm("web"))
		s.preset(aPreset("late", defaultCores))
		for change, warned := range map[string]OmegaMatcher{
			`{spec: {runStrategy: Always, running: null}}`: BeEmpty(),
			`{spec: {runStrategy: null, running: true}}`:   sayDeprecated,
			`{spec: {runStrategy: null, running: false}}`:  sayDeprecated,
		} {
			after, warnings := s.patch("web", change)
			Expect(warnings).To(warned)
			Expect(after).To(And(haveAt("spec.template", at(before, "spec.template")), haveAt(record, at(before, record))))
		}
	})

	It("when a controller that owns VMs writes", func() {
		ownManager()
		s.preset(aPreset("cluster/house", overrideClass))
		s.create(vm("web", "spec: {template: {spec: {priorityClassName: mine}}}"))
		after := s.patchAs(trusted, "web", `{"spec":{"template":{"spec":{"priorityClassName":"controlled"}}}}`)
		Expect(after).To(haveAt(class, "vms"), "it copies what users write, so the override acts")
	})

	It("when it is being deleted", func() {
		s.preset(aPreset("cluster/house", overrideClass))
		s.create(strings.Replace(vm("web"), "name: web", "name: web, finalizers: [example.com/hold]", 1))
		Expect(s.of(virtualMachine).Delete(here.ctx, "web", metav1.DeleteOptions{})).To(Succeed())
		// An API server may first try on the object as it was before, and pass on the warnings of
		// that attempt, so none are asserted.
		after, _ := s.patch("web", `{metadata: {labels: {a: b}}, spec: {template: {spec: {priorityClassName: last}}}}`)
		Expect(after).To(haveAt(class, "last"))
		s.patch("web", `{metadata: {finalizers: null}}`)
		_, err := s.of(virtualMachine).Get(here.ctx, "web", metav1.GetOptions{})
		Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
	})

	It("when an annotation changes that is none of ours", func() {
		before := s.create(vm("web"))
		s.preset(aPreset("late", defaultCores))
		after, warnings := s.patch("web", `{metadata: {annotations: {example.com/a: b}}}`)
		Expect(warnings).To(BeEmpty())
		Expect(after).To(And(haveAt("spec", at(before, "spec")), haveAt(record, at(before, record))))
	})

	It("when a label changes, apart from presets that match from then on, or no longer", func() {
		sized := s.preset(aPreset("sized", defaultMemory))
		s.preset(aPreset("big", matching("size: big", defaultCores)))
		s.create(vm("web"))
		s.edit(sized, `{spec: {defaults: {spec: {template: {spec: {domain: {memory: {guest: 8Gi}}}}}}}}`)
		after, warnings := s.patch("web", `{metadata: {labels: {size: big}}}`)
		Expect(after).To(And(haveAt(memory, "2Gi"), haveAt(cores, int64(4))))
		Expect(warnings).To(beQuiet())
		after, warnings = s.patch("web", `{metadata: {labels: {size: null}}}`)
		Expect(after).To(And(haveAt(memory, "2Gi"), haveAt(cores, int64(1))))
		Expect(warnings).To(BeEmpty())
	})

	It("when a label of the template changes, apart from presets that match now", func() {
		s.preset(aPreset("big", matching("size: big", defaultCores)))
		s.create(vm("web"))
		after, _ := s.patch("web", `{spec: {template: {metadata: {labels: {size: big}}}}}`)
		Expect(after).To(haveAt(cores, int64(4)))
	})

	It("when it asks for a preset by name, apart from that preset", func() {
		s.preset(aPreset("wanted", `{match: {explicit: true}, `+strings.TrimPrefix(defaultCores, "{")))
		s.create(vm("web"))
		s.preset(aPreset("late", defaultMemory))
		after, warnings := s.patch("web", `{metadata: {annotations: {virtwright.dev/presets: wanted}}}`)
		Expect(after).To(And(haveAt(cores, int64(4)), haveAt(memory, floor)))
		Expect(warnings).To(beQuiet())
	})

	It("apart from a preset that it excludes, or excludes no longer", func() {
		s.preset(aPreset("sized", defaultMemory))
		s.create(vm("web"))
		after, _ := s.patch("web", `{metadata: {annotations: {virtwright.dev/exclude: sized}}}`)
		Expect(after).To(haveAt(memory, floor))
		s.create(strings.Replace(vm("out"), "name: out", `name: out, annotations: {virtwright.dev/exclude: sized}`, 1))
		Expect(s.get(virtualMachine, "out")).To(haveAt(memory, floor))
		after, _ = s.patch("out", `{metadata: {annotations: {virtwright.dev/exclude: null}}}`)
		Expect(after).To(haveAt(memory, "2Gi"))
	})

	It("when its owner forges or drops the provenance", func() {
		s.preset(aPreset("sized", defaultMemory))
		before := s.create(vm("web"))
		Expect(at(before, record)).To(ContainSubstring("sized@1:default"))
		for _, value := range []string{"null", `'{"v":1,"by":["cluster/king@7:override"],"set":{"spec":{"runStrategy":0}}}'`, "nonsense"} {
			after, _ := s.patch("web", `{metadata: {annotations: {virtwright.dev/provenance: `+value+`}}}`)
			Expect(after).To(haveAt(record, at(before, record)))
		}
		after, _ := s.patch("web", `{metadata: {annotations: null}, spec: {template: {spec: {hostname: web}}}}`)
		Expect(after).To(haveAt(record, at(before, record)))
		forged := s.create(strings.Replace(vm("forged"), "name: forged",
			`name: forged, annotations: {virtwright.dev/provenance: '{"v":1,"snapshot":"x","by":["cluster/king@7:override"],"set":{"spec":{"runStrategy":0}}}'}`, 1))
		Expect(at(forged, record)).NotTo(ContainSubstring("king"))
	})
})

var _ = Describe("A change of a VM's spec", func() {
	var s *story
	BeforeEach(func() { s = newStory() })

	It("is put back where an override governs", func() {
		s.preset(aPreset("cluster/house", overrideClass))
		s.create(vm("web"))
		_, stderr := s.kubectl("", "patch", "vm", "web", "--type=merge", "-p", `{"spec":{"template":{"spec":{"priorityClassName":"mine","hostname":"web"}}}}`)
		Expect(lines(stderr)).To(say("Warning: preset cluster/house overrides ", class, "it stays", "vms"))
		Expect(s.get(virtualMachine, "web")).To(And(haveAt(class, "vms"), haveAt("spec.template.spec.hostname", "web")))
		after, warnings := s.patch("web", `{spec: {template: {spec: {priorityClassName: null}}}}`)
		Expect(warnings).To(say("cluster/house", class))
		Expect(after).To(haveAt(class, "vms"))
	})

	It("is put back where a preset removes", func() {
		s.preset(aPreset("cluster/bare", `{remove: [spec.template.spec.domain.devices.rng]}`))
		s.create(vm("web", "spec: {template: {spec: {domain: {devices: {rng: {}}}}}}"))
		after, warnings := s.patch("web", `{spec: {template: {spec: {domain: {devices: {rng: {}}}}}}}`)
		Expect(after).To(lackAt("spec.template.spec.domain.devices.rng"))
		Expect(warnings).To(say("cluster/bare", "devices.rng"))
	})

	It("becomes the author's where a default gave the value", func() {
		s.preset(aPreset("sized", defaultMemory))
		s.create(vm("web"))
		after, warnings := s.patch("web", `{spec: {template: {spec: {domain: {memory: {guest: 3Gi}}}}}}`)
		Expect(after).To(haveAt(memory, "3Gi"))
		Expect(warnings).To(BeEmpty())
		after, _ = s.patch("web", `{metadata: {annotations: {virtwright.dev/reapply: once}}}`)
		Expect(after).To(haveAt(memory, "3Gi"))
	})

	It("brings back what vanished of ours, with the value it had", func() {
		sized := s.preset(aPreset("sized", `{defaults: {spec: {template: {spec: {domain: {memory: {guest: 2Gi}, devices: {disks: [{name: root, disk: {bus: sata}}]}}, volumes: [{name: root, containerDisk: {image: "example.com/os:1"}}]}}}}}`))
		s.create(vm("web"))
		s.edit(sized, `{spec: {defaults: {spec: {template: {spec: {domain: {memory: {guest: 8Gi}}}}}}}}`)
		after, _ := s.patch("web", `{spec: {template: {spec: {volumes: [{name: mine, emptyDisk: {capacity: 1Gi}}], domain: {memory: null, devices: {disks: [{name: mine, disk: {}}]}}}}}}`)
		Expect(after).To(And(haveAt(memory, "2Gi"), haveDisks("mine", "root"),
			haveAt("spec.template.spec.volumes[root].containerDisk.image", "example.com/os:1")))
	})

	It("that is all of it brings back everything of ours", func() {
		s.preset(aPreset("sized", `{defaults: {metadata: {labels: {sized: "yes"}}, spec: {template: {spec: {domain: {memory: {guest: 2Gi}}}}}}}`))
		s.preset(aPreset("cluster/house", overrideClass))
		before := s.create(vm("web", "spec: {running: true, template: {spec: {hostname: web, priorityClassName: mine}}}"))
		s.replace(vm("web", "spec: {running: true, template: {spec: {hostname: other, priorityClassName: mine}}}"))
		want := substance(before)
		Expect(unstructured.SetNestedField(want, "other", "spec", "template", "spec", "hostname")).To(Succeed())
		Expect(substance(s.get(virtualMachine, "web"))).To(Equal(want))
	})

	It("that makes another choice than ours is the author's", func() {
		s.preset(aPreset("disks", `{defaults: {spec: {template: {spec: {domain: {devices: {disks: [{name: root, disk: {bus: sata}}]}}, volumes: [{name: root, containerDisk: {image: "example.com/os:1"}}]}}}}}`))
		s.create(vm("web"))
		after, _ := s.patch("web", `{spec: {template: {spec: {domain: {devices: {interfaces: [{name: default, masquerade: {}}], disks: [{name: root, cdrom: {bus: sata}}]}},
volumes: [{name: root, persistentVolumeClaim: {claimName: root}}]}}}}`)
		Expect(at(after, "spec.template.spec.domain.devices.interfaces")).To(Equal([]any{map[string]any{"name": "default", "masquerade": map[string]any{}}}))
		Expect(at(after, "spec.template.spec.domain.devices.disks")).To(Equal([]any{map[string]any{"name": "root", "cdrom": map[string]any{"bus": "sata", "readonly": true, "tray": "closed"}}}))
		Expect(at(after, "spec.template.spec.volumes")).To(Equal([]any{map[string]any{"name": "root", "persistentVolumeClaim": map[string]any{"claimName": "root"}}}))
		again, _ := s.patch("web", `{spec: {template: {spec: {hostname: web}}}}`)
		Expect(again).To(haveAt("spec.template.spec.domain.devices", at(after, "spec.template.spec.domain.devices")))
	})

	Context("that takes an element of the author's away", func() {
		const disks = `spec: {template: {spec: {domain: {devices: {disks: [{name: root, disk: {}}, {name: data, disk: {}}]}}, volumes: [{name: root, emptyDisk: {capacity: 1Gi}}, {name: data, emptyDisk: {capacity: 1Gi}}]}}}`
		var after object
		BeforeEach(func() {
			s.preset(aPreset("disks", `{defaults: {spec: {template: {spec: {domain: {devices: {disks: [{name: data, cache: none}]}}}}}}}`))
			Expect(s.create(vm("web", disks))).To(haveAt("spec.template.spec.domain.devices.disks[data].cache", "none"))
			var warnings []string
			after, warnings = s.patch("web", `{spec: {template: {spec: {domain: {devices: {disks: [{name: root, disk: {}}]}}, volumes: [{name: root, emptyDisk: {capacity: 1Gi}}]}}}}`)
			Expect(warnings).To(BeEmpty())
		})

		It("takes along what we gave it", func() {
			Expect(after).To(haveDisks("root"))
			Expect(at(after, "spec.template.spec.volumes")).To(HaveLen(1))
		})

		It("leaves nothing of it in the provenance", func() {
			Expect(at(after, record)).NotTo(ContainSubstring("[data]"))
		})
	})

	It("never leaves the VM without run state", func() {
		s.preset(aPreset("sized", `{defaults: {spec: {runStrategy: Always}}}`))
		s.create(vm("web"))
		s.replace(vm("web", "spec: {template: {spec: {hostname: other}}}"))
		Expect(s.get(virtualMachine, "web")).To(And(haveAt("spec.runStrategy", "Always"), lackAt("spec.running")))
		s.replace(vm("web", "spec: {running: false, template: {spec: {hostname: other}}}"))
		Expect(s.get(virtualMachine, "web")).To(And(haveAt("spec.running", false), lackAt("spec.runStrategy")))
	})

	It("by JSON patch is looked at like any other", func() {
		s.preset(aPreset("cluster/house", overrideClass))
		s.create(vm("web"))
		operations := `[{"op":"replace","path":"/spec/template/spec/priorityClassName","value":"mine"},{"op":"add","path":"/spec/template/spec/hostname","value":"web"}]`
		after, err := s.of(virtualMachine).Patch(here.ctx, "web", types.JSONPatchType, []byte(operations), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(after).To(And(haveAt(class, "vms"), haveAt("spec.template.spec.hostname", "web")))
	})

	It("may keep what became forbidden, and add no more of it", func() {
		s.create(vm("web", `spec: {template: {spec: {domain: {devices: {hostDevices: [{name: card, deviceName: example.com/card}]}}}}}`))
		s.preset(aPreset("cluster/bare", `{forbid: [{path: spec.template.spec.domain.devices.hostDevices, message: no passthrough here}]}`))
		s.patch("web", `{spec: {template: {spec: {hostname: web}}}}`)
		_, _, err := s.tryPatch("web", `{spec: {template: {spec: {domain: {devices: {hostDevices: [{name: card, deviceName: example.com/card}, {name: more, deviceName: example.com/card}]}}}}}}`)
		Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
		Expect(err).To(MatchError(And(ContainSubstring("spec.template.spec.domain.devices.hostDevices"), ContainSubstring("no passthrough here (preset cluster/bare)"))))
		s.patch("web", `{spec: {template: {spec: {domain: {devices: {hostDevices: null}}}}}}`)
		_, _, err = s.tryPatch("web", `{spec: {template: {spec: {domain: {devices: {hostDevices: [{name: card, deviceName: example.com/card}]}}}}}}`)
		Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
		_, err = s.tryCreate(vm("new", `spec: {template: {spec: {domain: {devices: {hostDevices: [{name: card, deviceName: example.com/card}]}}}}}`))
		Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
	})
})

var _ = Describe("Reapplying", func() {
	It("expands a VM again, and restores overridden values", func() {
		s := newStory()
		sized := s.preset(aPreset("sized", defaultMemory))
		house := s.preset(aPreset("cluster/house", overrideClass))
		s.create(vm("web", "spec: {template: {spec: {priorityClassName: mine}}}"))
		Expect(s.get(virtualMachine, "web")).To(And(haveAt(memory, "2Gi"), haveAt(class, "vms")))

		s.edit(sized, `{spec: {defaults: {spec: {template: {spec: {domain: {memory: {guest: 8Gi}}}}}}}}`)
		Expect(s.of(clusterPreset).Delete(here.ctx, house.GetName(), metav1.DeleteOptions{})).To(Succeed())
		s.awaitGone(class, "vms")
		after, warnings := s.patch("web", `{metadata: {annotations: {virtwright.dev/reapply: "1"}}}`)
		Expect(after).To(And(haveAt(memory, "8Gi"), haveAt(class, "mine")))
		Expect(warnings).To(beQuiet())

		s.edit(sized, `{spec: {defaults: {spec: {template: {spec: {domain: {memory: {guest: 9Gi}}}}}}}}`)
		after, _ = s.patch("web", `{metadata: {annotations: {virtwright.dev/reapply: "1", example.com/a: b}}}`)
		Expect(after).To(haveAt(memory, "8Gi"), "the value is no new one")
		after, _ = s.patch("web", `{metadata: {annotations: {virtwright.dev/reapply: "2"}}}`)
		Expect(after).To(haveAt(memory, "9Gi"))
	})
})

var _ = Describe("Reapplying, for one who opted out meanwhile,", func() {
	It("takes back what the preset gave, and leaves what the author wrote", func() {
		s := newStory()
		s.preset(aPreset("sized", `{defaults: {spec: {template: {spec: {domain: {memory: {guest: 2Gi}, devices: {disks: [{name: root, disk: {bus: sata}}]}}, volumes: [{name: root, containerDisk: {image: "example.com/os:1"}}]}}}}}`))
		s.create(vm("web", "spec: {template: {spec: {hostname: web, domain: {devices: {disks: [{name: mine, disk: {}}]}}, volumes: [{name: mine, emptyDisk: {capacity: 1Gi}}]}}}"))
		Expect(s.get(virtualMachine, "web")).To(haveDisks("mine", "root"))
		after, _ := s.patch("web", `{metadata: {annotations: {virtwright.dev/exclude: sized, virtwright.dev/reapply: now}}}`)
		Expect(after).To(And(haveAt(memory, floor), haveDisks("mine"), lackAt("spec.template.spec.volumes[root]"), haveAt("spec.template.spec.hostname", "web")))
	})
})

var _ = Describe("A VM that was there before virtwright", func() {
	It("stays as it is until a user asks", func() {
		ownManager()
		s := newStory()
		s.preset(aPreset("sized", defaultMemory))
		s.preset(aPreset("big", matching("size: big", defaultCores)))
		s.unmutated(vm("old", "spec: {running: false, template: {spec: {domain: {devices: {}}}}}"))
		after, warnings := s.patch("old", `{spec: {template: {spec: {hostname: old}}}}`)
		Expect(after).To(And(lackAt(memory), lackAt(record)))
		Expect(warnings).To(sayDeprecated)
		after, _ = s.patch("old", `{metadata: {labels: {size: big}}}`)
		Expect(after).To(And(lackAt(memory), haveAt(cores, int64(4))))
		after, _ = s.patch("old", `{metadata: {annotations: {virtwright.dev/reapply: now}}}`)
		Expect(after).To(And(haveAt(memory, "2Gi"), haveAt(cores, int64(4)), haveAt("spec.running", false), lackAt("spec.runStrategy")))
	})
})

// awaitGone waits until new VMs do not get a value any more.
func (s *story) awaitGone(path string, value any) {
	GinkgoHelper()
	Eventually(func() any { return at(s.tryOut(vm("probe")), path) }).ShouldNot(Equal(value))
}

// tryOut is what creating an object would give.
func (s *story) tryOut(manifest string) object {
	GinkgoHelper()
	in := s.parse(manifest)
	out, err := s.of(in.GetKind()).Create(here.ctx, in, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	Expect(err).NotTo(HaveOccurred())
	return out
}

// patchAs merges into a VM as a user with all permissions.
func (s *story) patchAs(user, name, merge string) object {
	GinkgoHelper()
	out, err := s.as(clientAs(user), virtualMachine).Patch(here.ctx, name, types.MergePatchType, []byte(merge), metav1.PatchOptions{})
	Expect(err).NotTo(HaveOccurred())
	return out
}
