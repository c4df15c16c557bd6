package stories

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

var _ = Describe("Presets alongside KubeVirt", func() {
	var s *story
	BeforeEach(func() {
		s = newStory()
		s.preset("small", small)
	})
	hostname := func(name string) string { return s.vm(name).Spec.Template.Spec.Hostname }

	It("spare the VMs of an exception, until it ends", func() {
		s.clusterPreset("house", `
overrides: {spec: {template: {spec: {hostname: ruled}}}}
forbid: [{path: spec.template.spec.subdomain, message: no subdomains}]`)
		s.create(`{apiVersion: virtwright.dev/v1alpha1, kind: PresetException, metadata: {name: old}, spec: {presets: [cluster/` + s.ns + `-house], vmSelector: {matchLabels: {image: old}}, reason: a test}}`)
		alice := s.as("alice")
		const old = `
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: web, labels: {size: small, image: old}}
spec: {runStrategy: Always, template: {spec: {hostname: mine, subdomain: mine, domain: {devices: {}}}}}`
		Eventually(func() error { return alice.Create(here.Context(), s.parse(old)) }).Should(Succeed(), "the exception holds")
		s.awaitStatus("web", kubevirtv1.VirtualMachineStatusRunning)
		Expect(s.vmi("web").Spec).To(And(HaveField("Hostname", "mine"), HaveField("Subdomain", "mine")))
		s.create(sparse("other", "runStrategy: Always"))
		Expect(hostname("other")).To(Equal("ruled"))

		here.Must("", "delete", "presetexception", "old", "-n", s.ns)
		before := s.vmi("web").UID
		s.virtctl("restart", "web")
		s.awaitNewVMI("web", before)
		Expect(hostname("web")).To(Equal("mine"), "KubeVirt's writes of the run state apply nothing")
		Eventually(func() string {
			Expect(s.patch(alice, vmNamed("web"), "{metadata: {labels: {image: older}}}")).To(Succeed())
			Expect(s.patch(alice, vmNamed("web"), "{metadata: {labels: {image: old}}}")).To(Succeed())
			return hostname("web")
		}).Should(Equal("ruled"))
		Expect(s.vm("web").Spec.Template.Spec.Subdomain).To(Equal("mine"), "a stored violation may stay")
	})

	It("act again on a reapply, and KubeVirt updates the running VMI", func() {
		s.create(sparse("web", "runStrategy: Always"))
		s.awaitStatus("web", kubevirtv1.VirtualMachineStatusRunning)
		s.preset("more", "{match: {labels: {matchLabels: {size: small}}}, defaults: {spec: {template: {spec: {nodeSelector: {kubernetes.io/os: linux}}}}}}")
		before := s.vmi("web")
		reapply := func(want string) {
			GinkgoHelper()
			out, err := s.cli("reapply", "vm/web")
			Expect(err).NotTo(HaveOccurred(), out)
			Expect(out).To(ContainSubstring("reapplied 1 VM: " + want))
		}
		reapply("1 changed, 0 unchanged")
		Eventually(func() map[string]string { return s.vmi("web").Spec.NodeSelector }).Should(HaveKeyWithValue("kubernetes.io/os", "linux"))
		Consistently(s.migrations, "1s").Should(BeEmpty(), "it acts at the next migration")
		Expect(s.vmi("web").UID).To(Equal(before.UID))
		reapply("0 changed, 1 unchanged")
	})

	It("are in templates that are requested by an object and by an annotation", func() {
		s.create(sparse("web", "runStrategy: Halted"))
		alice := s.as("alice")
		Expect(alice.Create(here.Context(), s.parse(`{apiVersion: ssp.kubevirt.io/v1alpha1, kind: VirtualMachineTemplateRequest, metadata: {name: asked}, spec: {source: {vmName: web}, target: {configMap: {name: asked}}}}`))).To(Succeed())
		s.awaitReady("vmtreq", "asked")
		Expect(s.patch(alice, vmNamed("web"), "{metadata: {annotations: {virtwright.dev/generate-template: noted}}}")).To(Succeed())
		for _, name := range []string{"asked", "noted"} {
			Eventually(func() (string, error) { return s.field("configmap/"+name, `{.data.template\.yaml}`) }).Should(And(
				ContainSubstring("kind: VirtualMachine"), ContainSubstring("64Mi"), Not(ContainSubstring("generate-template"))), name)
		}
		Expect(strings.Fields(here.Must("", "get", "vmtreq", "-n", s.ns, "-o", "jsonpath={.items[*].spec.requester.username}"))).To(And(HaveLen(2), HaveEach("alice")))
	})

	It("and names keep one name for one VM, and one disk for one VM", func() {
		const disk = "runStrategy: Halted, dataVolumeTemplates: [{metadata: {name: root}, spec: {source: {blank: {}}, storage: {resources: {requests: {storage: 1Gi}}}}}]"
		s.preset("root", `
match: {labels: {matchLabels: {size: small}}}
defaults: {spec: {template: {spec: {domain: {devices: {disks: [{name: root, disk: {bus: virtio}}]}}, volumes: [{name: root, dataVolume: {name: root}}]}}}}`)
		s.create(sparse("web", disk))
		alice := s.as("alice")
		err := alice.Create(here.Context(), s.parse(`{apiVersion: kubevirt.io/v1, kind: VirtualMachineInstance, metadata: {name: web}, spec: {domain: {memory: {guest: 64Mi}, devices: {}}}}`))
		Expect(err).To(MatchError(And(ContainSubstring("metadata.name"), ContainSubstring("a VirtualMachine has this name"))))
		err = alice.Create(here.Context(), s.parse(sparse("other", disk)))
		Expect(err).To(MatchError(And(ContainSubstring("spec.dataVolumeTemplates[0].metadata.name"), ContainSubstring("both would write to one disk"))))
		s.virtctl("start", "web") // virt-controller may create the VMI of the name
		s.awaitStatus("web", kubevirtv1.VirtualMachineStatusRunning)
	})
})
