package stories

import (
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/presets/provenance"
)

var _ = Describe("A copy of a VM", func() {
	var s *story
	BeforeEach(func() { s = newStory() })

	const (
		claimed = `
match: {labels: {matchLabels: {root: claim}}}
defaults: {spec: {template: {spec: {domain: {devices: {disks: [{name: root, disk: {bus: virtio}}]}}, volumes: [{name: root, persistentVolumeClaim: {claimName: {$cel: "object.metadata.name + '-data'"}}}]}}}}`
		filled = `
match: {labels: {matchLabels: {root: disk}}}
defaults:
  spec:
    dataVolumeTemplates: [{metadata: {name: {$cel: "object.metadata.name + '-disk'"}}, spec: {source: {blank: {}}, storage: {resources: {requests: {storage: 1Gi}}}}}]
    template: {spec: {domain: {devices: {disks: [{name: root, disk: {bus: virtio}}]}}, volumes: [{name: root, dataVolume: {name: {$cel: "object.metadata.name + '-disk'"}}}]}}`
	)
	create := func(name, labels string) *kubevirtv1.VirtualMachine {
		GinkgoHelper()
		s.create(fmt.Sprintf("{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: %s, labels: {size: small%s}}, spec: {runStrategy: Halted, template: {spec: {domain: {devices: {}}}}}}", name, labels))
		return s.vm(name)
	}
	awaitBound := func(claim string) {
		GinkgoHelper()
		Eventually(func() (string, error) {
			out, _, err := here.Kubectl(here.Context(), "", "get", "pvc", claim, "-n", s.ns, "-o", "jsonpath={.status.phase}")
			return out, err
		}).Should(Equal("Bound"))
	}
	snapshot := func(name string) {
		GinkgoHelper()
		s.create(fmt.Sprintf("{apiVersion: snapshot.kubevirt.io/v1beta1, kind: VirtualMachineSnapshot, metadata: {name: %s}, spec: {source: {apiGroup: kubevirt.io, kind: VirtualMachine, name: %s}}}", name, name))
		s.awaitReady("vmsnapshot", name)
	}
	restore := func(snapshot, target string) {
		GinkgoHelper()
		s.create(fmt.Sprintf("{apiVersion: snapshot.kubevirt.io/v1beta1, kind: VirtualMachineRestore, metadata: {name: %s-to-%s}, spec: {target: {apiGroup: kubevirt.io, kind: VirtualMachine, name: %[2]s}, virtualMachineSnapshotName: %[1]s}}", snapshot, target))
		Eventually(func() (string, error) {
			out, _, err := here.Kubectl(here.Context(), "", "get", "vmrestore", snapshot+"-to-"+target, "-n", s.ns, "-o", "jsonpath={.status.complete}")
			return out, err
		}).Should(Equal("true"))
	}
	// sourceOf returns the preset that the record of a VM names for a field.
	sourceOf := func(vm *kubevirtv1.VirtualMachine, field string) string {
		GinkgoHelper()
		record, err := provenance.Decode(vm.Annotations["virtwright.dev/provenance"])
		Expect(err).NotTo(HaveOccurred())
		path, err := provenance.ParsePath(field)
		Expect(err).NotTo(HaveOccurred())
		source, _ := record.SourceOf(path)
		return source.Preset
	}
	reapply := func(name string) {
		GinkgoHelper()
		Expect(s.patch(here.Objects, vmNamed(name), "{metadata: {annotations: {virtwright.dev/reapply: now}}}")).To(Succeed())
	}

	It("that is restored in place is the snapshot, with a claim of its own", func() {
		s.preset("small", small)
		s.preset("claimed", claimed)
		s.create("{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: web-data}, spec: {accessModes: [ReadWriteMany], volumeMode: Block, storageClassName: simulated, resources: {requests: {storage: 1Gi}}}}")
		awaitBound("web-data")
		create("web", ", root: claim")
		snapshot("web")
		restore("web", "web")
		claim := func() string { return s.vm("web").Spec.Template.Spec.Volumes[0].PersistentVolumeClaim.ClaimName }
		restored := claim()
		Expect(restored).To(HavePrefix("restore-"))
		Expect(sourceOf(s.vm("web"), "spec.template.spec.volumes[root].persistentVolumeClaim.claimName")).To(BeEmpty())
		Expect(sourceOf(s.vm("web"), "spec.template.spec.domain.memory.guest")).To(Equal("small"))
		reapply("web")
		Expect(claim()).To(Equal(restored), "a reapply keeps the restored disk")
	})

	It("that is restored in place keeps its restored DataVolume", func() {
		s.preset("small", small)
		s.preset("filled", filled)
		create("web", ", root: disk")
		awaitBound("web-disk")
		snapshot("web")
		restore("web", "web")
		restored := s.vm("web").Spec
		Expect(restored.DataVolumeTemplates).To(HaveLen(1))
		Expect(restored.DataVolumeTemplates[0].Name).To(HavePrefix("restore-"))
		Expect(restored.Template.Spec.Volumes[0].DataVolume.Name).To(Equal(restored.DataVolumeTemplates[0].Name))
		reapply("web")
		Expect(s.vm("web").Spec).To(Equal(restored))
	})

	It("that is restored keeps values of the snapshot and obeys newer overrides", func() {
		s.preset("small", small)
		create("web", "")
		snapshot("web")
		s.preset("small-grows", `
match: {labels: {matchLabels: {size: small}}}
priority: 10
defaults: {spec: {template: {spec: {domain: {memory: {guest: 128Mi}, devices: {tpm: {}}}}}}}`)
		s.clusterPreset("house", "overrides: {spec: {template: {spec: {hostname: ruled}}}}")
		reapply("web")
		Expect(s.vm("web").Spec.Template.Spec.Domain.Memory.Guest.String()).To(Equal("128Mi"))
		for _, target := range []string{"web", "copy"} {
			restore("web", target)
			vm := s.vm(target)
			Expect(vm.Spec.Template.Spec.Domain.Memory.Guest.String()).To(Equal("64Mi"), target)
			Expect(vm.Spec.Template.Spec.Domain.Devices.TPM).To(BeNil(), "no mixture of the snapshot and newer defaults")
			Expect(vm.Spec.Template.Spec.Hostname).To(Equal("ruled"), target)
			Expect(sourceOf(vm, "spec.template.spec.hostname")).To(Equal("cluster/" + s.ns + "-house"))
			Expect(sourceOf(vm, "spec.template.spec.domain.memory.guest")).To(BeEmpty())
		}
	})

	It("does not lose an override to an edited snapshot", func() {
		s.preset("small", small)
		s.clusterPreset("house", "overrides: {spec: {template: {spec: {hostname: ruled}}}}")
		create("web", "")
		snapshot("web")
		alice := s.as("alice")
		content := here.Must("", "get", "vmsnapshot", "web", "-n", s.ns, "-o", "jsonpath={.status.virtualMachineSnapshotContentName}")
		Expect(s.patch(alice, "{apiVersion: snapshot.kubevirt.io/v1beta1, kind: VirtualMachineSnapshotContent, metadata: {name: "+content+"}}",
			"{spec: {source: {virtualMachine: {spec: {template: {spec: {hostname: null}}}}}}}")).To(Succeed())
		restore("web", "web")
		Expect(s.vm("web").Spec.Template.Spec.Hostname).To(Equal("ruled"))
	})

	It("that is a clone has a record of its own, and names no presets", func() {
		s.preset("small", small)
		s.preset("gpu", "{match: {explicit: true}, defaults: {spec: {template: {spec: {hostname: named}}}}}")
		create("web", "")
		carol := s.as("carol")
		clone := func(name, patches string) string {
			return fmt.Sprintf("{apiVersion: clone.kubevirt.io/v1beta1, kind: VirtualMachineClone, metadata: {name: %s}, spec: {source: {apiGroup: kubevirt.io, kind: VirtualMachine, name: web}, target: {apiGroup: kubevirt.io, kind: VirtualMachine, name: %[1]s}%s}}", name, patches)
		}
		for _, patch := range []string{
			`{"op":"add","path":"/metadata/annotations/virtwright.dev~1presets","value":"gpu"}`,
			`{"op":"add","path":"/metadata/ownerReferences","value":[]}`,
		} {
			err := carol.Create(here.Context(), s.parse(clone("forged", fmt.Sprintf(", patches: ['%s']", patch))))
			Expect(err).To(MatchError(ContainSubstring("spec.patches[0]: Forbidden")))
		}
		Expect(carol.Create(here.Context(), s.parse(clone("copy", "")))).To(Succeed())
		vm := s.vm("copy")
		Expect(sourceOf(vm, "spec.template.spec.domain.memory.guest")).To(Equal("small"))
		Expect(vm.Spec.Template.Spec.Hostname).To(BeEmpty())

		// A VM that names a preset gives its values to a clone, but not the name.
		s.create("{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: named, labels: {size: small}, annotations: {virtwright.dev/presets: gpu}}, spec: {runStrategy: Halted, template: {spec: {domain: {devices: {}}}}}}")
		s.create("{apiVersion: clone.kubevirt.io/v1beta1, kind: VirtualMachineClone, metadata: {name: second}, spec: {source: {apiGroup: kubevirt.io, kind: VirtualMachine, name: named}, target: {apiGroup: kubevirt.io, kind: VirtualMachine, name: second}}}")
		second := s.vm("second")
		Expect(second.Spec.Template.Spec.Hostname).To(Equal("named"))
		Expect(second.Annotations).NotTo(HaveKey("virtwright.dev/presets"))
		for _, name := range []string{"copy", "second"} {
			Eventually(func() (string, error) {
				out, _, err := here.Kubectl(here.Context(), "", "get", "vmclone", name, "-n", s.ns, "-o", "jsonpath={.status.phase}")
				return out, err
			}).Should(Or(Equal("Succeeded"), BeEmpty()))
		}
	})
})
