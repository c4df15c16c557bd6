package stories

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

var _ = Describe("A sparse VM", func() {
	var s *story
	BeforeEach(func() { s = newStory() })

	It("is stored as KubeVirt stores the full VM, and runs", func() {
		s.preset("small", `
match: {labels: {matchLabels: {size: small}}}
defaults:
  spec:
    template:
      spec:
        domain: {cpu: {cores: 2}, memory: {guest: 1Gi}, devices: {rng: {}}}
        networks: [{name: default, pod: {}}]
overrides: {spec: {template: {spec: {evictionStrategy: LiveMigrate}}}}`)
		sparse := s.create(`
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: web, labels: {size: small}}
spec:
  runStrategy: Always
  template:
    spec:
      domain: {devices: {interfaces: [{name: default, masquerade: {}}]}}
      volumes: [{name: root, containerDisk: {image: example.org/disk:1}}]`)
		full := s.create(`
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: stored-by-kubevirt-alone, namespace: ` + excluded + `}
spec:
  runStrategy: Always
  template:
    spec:
      evictionStrategy: LiveMigrate
      domain:
        cpu: {cores: 2}
        memory: {guest: 1Gi}
        devices: {rng: {}, interfaces: [{name: default, masquerade: {}}]}
      networks: [{name: default, pod: {}}]
      volumes: [{name: root, containerDisk: {image: example.org/disk:1}}]`)
		expectSameSpec(sparse, full)

		s.awaitStatus("web", kubevirtv1.VirtualMachineStatusRunning)
		Expect(s.vmi("web").Status.Memory.GuestCurrent.String()).To(Equal("1Gi"))
		s.virtctl("stop", "web")
		s.awaitStatus("web", kubevirtv1.VirtualMachineStatusStopped)
	})
})
