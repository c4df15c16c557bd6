package stories

import (
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// pool is the manifest of a pool of sparse VMs, with more of their metadata and of their VMIs'
// spec.
func pool(metadata, spec string) string {
	return fmt.Sprintf(`
apiVersion: pool.kubevirt.io/v1beta1
kind: VirtualMachinePool
metadata: {name: farm}
spec:
  replicas: 2
  selector: {matchLabels: {pool: farm}}
  virtualMachineTemplate:
    metadata: {labels: {pool: farm, size: small}%s}
    spec:
      runStrategy: Always
      template:
        metadata: {labels: {pool: farm}}
        spec: {domain: {devices: {}}%s}
`, metadata, spec)
}

var _ = Describe("A pool", func() {
	var s *story
	BeforeEach(func() { s = newStory() })

	const farm = "{apiVersion: pool.kubevirt.io/v1beta1, kind: VirtualMachinePool, metadata: {name: farm}}"
	const template = "{spec: {virtualMachineTemplate: {spec: {template: %s}}}}"
	awaitRunning := func() {
		GinkgoHelper()
		s.awaitStatus("farm-0", kubevirtv1.VirtualMachineStatusRunning)
		s.awaitStatus("farm-1", kubevirtv1.VirtualMachineStatusRunning)
	}

	It("keeps the presets of its VMs when its template changes", func() {
		s.preset("small", small)
		s.create(pool("", ""))
		awaitRunning()
		before := s.vm("farm-0")
		Expect(before.Annotations).To(HaveKey("virtwright.dev/provenance"))
		Expect(s.patch(here.Objects, farm, fmt.Sprintf(template, "{metadata: {labels: {revision: two}}}"))).To(Succeed())
		Eventually(func() map[string]string { return s.vm("farm-0").Spec.Template.ObjectMeta.Labels }).Should(HaveKeyWithValue("revision", "two"))
		after := s.vm("farm-0")
		Expect(after.Spec.Template.Spec.Domain.Memory).To(Equal(before.Spec.Template.Spec.Domain.Memory))
		Expect(after.Annotations).To(HaveKeyWithValue("virtwright.dev/provenance", before.Annotations["virtwright.dev/provenance"]))
		Eventually(func() map[string]string { return s.vmi("farm-1").Labels }).Should(HaveKeyWithValue("revision", "two"))
		awaitRunning()
	})

	It("cannot bring what a preset forbids or overrides", func() {
		s.clusterPreset("house", `
overrides: {spec: {template: {spec: {hostname: ruled}}}}
forbid: [{path: "spec.template.spec.volumes[*].hostDisk", message: no files of nodes}]`)
		s.preset("small", small)
		s.create(pool("", ""))
		awaitRunning()
		alice := s.as("alice")
		Expect(s.patch(alice, farm, fmt.Sprintf(template, "{spec: {hostname: mine, subdomain: changed}}"))).To(Succeed())
		Eventually(func() string { return s.vm("farm-0").Spec.Template.Spec.Subdomain }).Should(Equal("changed"))
		Expect(s.vm("farm-0").Spec.Template.Spec.Hostname).To(Equal("ruled"))
		awaitRunning()

		s.rejects("no files of nodes")
		Expect(s.patch(alice, farm, fmt.Sprintf(template, "{spec: {volumes: [{name: host, hostDisk: {path: /etc/shadow, type: Disk}}], domain: {devices: {disks: [{name: host, disk: {bus: virtio}}]}}}}"))).To(Succeed())
		Eventually(func() (string, error) {
			out, _, err := here.Kubectl(here.Context(), "", "get", "events", "-n", s.ns, "--field-selector=involvedObject.kind=VirtualMachinePool", "-o", "jsonpath={.items[*].message}")
			return out, err
		}).Should(And(ContainSubstring("no files of nodes"), ContainSubstring("volumes"), ContainSubstring("house")))
		Expect(s.vm("farm-0").Spec.Template.Spec.Volumes).To(BeEmpty())
		// The pool tries until its template is allowed.
		Expect(s.patch(alice, farm, fmt.Sprintf(template, "{spec: {volumes: null, domain: {devices: {disks: null}}}}"))).To(Succeed())
	})

	It("cannot forge who requests a template", func() {
		s.preset("small", small)
		s.create(pool("", ""))
		awaitRunning()
		carol := s.as("carol")
		stamp := `{"username":"admin","uid":"","groups":["system:masters"],"extra":{},"vmUID":"` + string(s.vm("farm-0").UID) + `","value":"stolen"}`
		Expect(s.patch(carol, farm, fmt.Sprintf(`{spec: {virtualMachineTemplate: {metadata: {annotations: {virtwright.dev/generate-template: stolen, virtwright.dev/template-requester: '%s'}}}}}`, stamp))).To(Succeed())
		Eventually(func() map[string]string { return s.vm("farm-0").Annotations }).Should(HaveKey("virtwright.dev/generate-template"))
		Expect(s.vm("farm-0").Annotations).NotTo(HaveKey("virtwright.dev/template-requester"))
		Consistently(func() (string, error) {
			out, _, err := here.Kubectl(here.Context(), "", "get", "virtualmachinetemplaterequests.ssp.kubevirt.io", "-n", s.ns, "-o", "name")
			return out, err
		}, "2s").Should(BeEmpty())
	})

	It("names presets that its author may use", func() {
		s.preset("small", small)
		s.preset("gpu", "{match: {explicit: true}, defaults: {spec: {template: {spec: {hostname: named}}}}}")
		const named = ", annotations: {virtwright.dev/presets: gpu}"
		carol, alice := s.as("carol"), s.as("alice", "virtwright-preset-use")
		err := carol.Create(here.Context(), s.parse(pool(named, "")))
		Expect(err).To(MatchError(And(ContainSubstring("spec.virtualMachineTemplate.metadata.annotations"), ContainSubstring("user carol may not use preset gpu"))))
		Expect(alice.Create(here.Context(), s.parse(pool(named, "")))).To(Succeed())
		awaitRunning()
		Expect(s.vm("farm-1").Spec.Template.Spec.Hostname).To(Equal("named"))
		Expect(s.patch(carol, farm, fmt.Sprintf(template, "{spec: {subdomain: changed}}"))).To(Succeed(), "carol may change the rest")
		Eventually(func() string { return s.vm("farm-0").Spec.Template.Spec.Subdomain }).Should(Equal("changed"))
		Expect(s.vm("farm-0").Spec.Template.Spec.Hostname).To(Equal("named"))
		awaitRunning()
	})

	It("loses a VM when a trusted writer removes the owner reference", func() {
		s.preset("small", small)
		s.create(pool("", ""))
		awaitRunning()
		alice := s.as("alice")
		const vm = "{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: farm-0}}"
		Expect(s.patch(alice, vm, "{metadata: {ownerReferences: null}}")).To(MatchError(ContainSubstring("(owner-references)")))
		here.Must("", "patch", "vm", "farm-0", "-n", s.ns, "--type=merge", "-p", `{"metadata":{"ownerReferences":null}}`,
			"--as=system:serviceaccount:kube-system:generic-garbage-collector", "--as-group=system:masters")
		Eventually(func() error {
			return here.Objects.Get(here.Context(), client.ObjectKey{Namespace: s.ns, Name: "farm-2"}, &kubevirtv1.VirtualMachine{})
		}).Should(Succeed(), "the pool makes another VM")
		Expect(s.vm("farm-0").OwnerReferences).To(BeEmpty())
		s.awaitStatus("farm-2", kubevirtv1.VirtualMachineStatusRunning)
	})

	It("scales", func() {
		s.preset("small", small)
		s.create(pool("", ""))
		awaitRunning()
		scale := func(n int) {
			Expect(here.Objects.Patch(here.Context(), s.parse(farm), client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, n)))).To(Succeed())
		}
		scale(3)
		s.awaitStatus("farm-2", kubevirtv1.VirtualMachineStatusRunning)
		scale(1)
		Eventually(func() int {
			var vms kubevirtv1.VirtualMachineList
			Expect(here.Objects.List(here.Context(), &vms, client.InNamespace(s.ns))).To(Succeed())
			return len(vms.Items)
		}).Should(Equal(1))
	})
})
