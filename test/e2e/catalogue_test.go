package e2e

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("The catalogue", func() {
	const folder = root + "/examples/catalogue"
	// accepted applies all presets, and creates a VM that many of them act on.
	accepted := func(s *story, secondaryNetworks bool) {
		GinkgoHelper()
		s.onlyExamples()
		_, warned, err := here.kubectl("", "apply", "-f", folder)
		DeferCleanup(s.kubectlAnywhere, "delete", "--ignore-not-found", "-f", folder, "--wait=false")
		Expect(err).NotTo(HaveOccurred())
		Expect(warned).To(BeEmpty())
		s.kubectlAnywhere("wait", "--for=condition=Ready", "--timeout=5m", "cvmpreset", "--all")
		network := `"networks":[{"name":"default","pod":{}}]`
		if secondaryNetworks {
			network = `"networkName":"vlan-7"`
			s.kubectlAnywhere("annotate", "namespace", s.ns, "example.com/vm-network=vlan-7")
		}
		const vm = `
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata:
  name: web
  labels: {availability: high, cpu-model: portable, cpu-placement: dedicated, os: linux}
  annotations: {virtwright.dev/presets: cluster/gpu-a10}
spec:
  template:
    spec:
      domain: {cpu: {cores: 4}, memory: {guest: 8Gi}}
      volumes: [{name: root, persistentVolumeClaim: {claimName: web-root}}]
`
		// The annotation of the namespace and the presets reach the manager by its caches.
		Eventually(func(g Gomega) {
			got, warned, err := s.tryKubectl(vm, "create", "--dry-run=server", "-o", "jsonpath={.spec.template.spec}", "-f", "-")
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(warned).To(BeEmpty())
			g.Expect(got).To(SatisfyAll(
				ContainSubstring(network),
				ContainSubstring(`"limits":{"cpu":"4","memory":"8858370048"}`),
				ContainSubstring(`"machine":{"type":"pc-q35-rhel9.6.0"}`),
				ContainSubstring(`"evictionStrategy":"None"`),
				ContainSubstring(`"dedicatedCpuPlacement":true`),
				ContainSubstring(`"secureBoot":true`),
			))
		}).Should(Succeed())
		// Of a stored VM, what presets gave is not the author's: the hardened namespace keeps the
		// GPU.
		s.kubectl(vm, "create", "-f", "-")
		s.kubectl("", "patch", "vm", "web", "--type=merge", "-p", `{"spec": {"template": {"spec": {"hostname": "web"}}}}`)
		Expect(s.kubectl("", "get", "vm", "web", "-o", "jsonpath={.spec.template.spec.domain.devices.gpus[*].name}")).To(Equal("gpu0"))
		_, _, err = s.tryKubectl("", "patch", "vm", "web", "--type=json", "-p",
			`[{"op": "add", "path": "/spec/template/spec/domain/devices/gpus/-", "value": {"name": "gpu1", "deviceName": "example.com/gpu"}}]`)
		Expect(err).To(MatchError(ContainSubstring("no GPUs by hand in a hardened namespace")))
	}
	labels := []string{"machine-type=pinned", "quota=limits", "security=hardened"}

	It("is accepted, and acts", func() {
		accepted(newStory(labels...), false)
	})

	It("is accepted, and acts, alongside KubeVirt", func() {
		ownManager()
		s := newStory(labels...)
		here.manager.restartWith("--mode=addon")
		accepted(s, true)
	})
})
