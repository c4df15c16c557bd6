package stories

import (
	"path/filepath"

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

	It("takes the place of a running VM that its author wrote in full, and changes nothing", func() {
		names := []string{"a", "b", "c"}
		for _, name := range names {
			s.create(`
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: ` + name + `, labels: {tier: web}}
spec:
  runStrategy: Always
  template:
    spec:
      domain:
        cpu: {sockets: 1, cores: 2}
        memory: {guest: 1Gi}
        clock: {timezone: UTC, timer: {}}
        firmware: {serial: 4c4c4544-` + name + `, bootloader: {bios: {}}}
        devices:
          disks: [{name: root, disk: {bus: virtio}}]
          interfaces: [{name: default, model: virtio, masquerade: {}}]
      networks: [{name: default, pod: {}}]
      volumes: [{name: root, containerDisk: {image: example.org/disk:1}}]`)
		}
		folder := filepath.Join(GinkgoT().TempDir(), "fleet")
		adopt := func(want string, args ...string) {
			GinkgoHelper()
			out, err := s.cli(append([]string{"adopt", folder, "--namespaced"}, args...)...)
			Expect(err).NotTo(HaveOccurred(), out)
			Expect(out).To(MatchRegexp(want))
		}
		kubectl := func(verb, part string) {
			GinkgoHelper()
			_, stderr, err := here.Kubectl(here.Context(), "", verb, "-R", "-f", filepath.Join(folder, part))
			Expect(err).NotTo(HaveOccurred(), stderr)
		}
		for _, name := range names {
			s.awaitStatus(name, kubevirtv1.VirtualMachineStatusRunning)
		}
		adopt("audit +next")
		kubectl("apply", "presets")
		adopt("enforce +next", "--enforce")
		kubectl("apply", "presets")
		s.awaitReady("vmpreset", "every-vm")
		adopt("sparse +next +0 of 3 VMs")
		before := map[string]*kubevirtv1.VirtualMachine{}
		for _, name := range names {
			before[name] = s.vm(name)
		}
		kubectl("replace", "vms")
		adopt("sparse +done +3 of 3 VMs")
		for _, name := range names {
			Expect(s.vm(name).Spec).To(Equal(before[name].Spec))
			Expect(s.vm(name).Annotations).To(HaveKeyWithValue("virtwright.dev/provenance", ContainSubstring("every-vm")))
			Consistently(func() bool { return isRestartRequired(s.vm(name)) }, "2s").Should(BeFalse())
			Expect(s.vm(name).Generation).To(Equal(before[name].Generation))
		}
	})

	It("keeps the identity that KubeVirt gave it when its manifest loses its last field", func() {
		s.preset("small", `
match: {labels: {matchLabels: {size: small}}}
defaults: {spec: {template: {spec: {domain: {memory: {guest: 1Gi}, devices: {interfaces: [{name: default, masquerade: {}}]}}, networks: [{name: default, pod: {}}]}}}}`)
		apply := func(template string) {
			GinkgoHelper()
			_, stderr, err := here.Kubectl(here.Context(), `
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: web, namespace: `+s.ns+`, labels: {size: small}}
spec: {runStrategy: Halted, `+template+`}`, "apply", "-f", "-")
			Expect(err).NotTo(HaveOccurred(), stderr)
		}
		apply("template: {spec: {hostname: shop, domain: {cpu: {cores: 2}}}}")
		firmware := func() *kubevirtv1.Firmware { return s.vm("web").Spec.Template.Spec.Domain.Firmware }
		Eventually(firmware).ShouldNot(BeNil()) // virt-controller writes it
		before := firmware()
		Expect(before.UUID).NotTo(BeEmpty())
		apply("template: {spec: {domain: {cpu: {cores: 3}}}}")
		Expect(firmware()).To(Equal(before))
		apply("template: {}")
		Expect(firmware()).To(Equal(before))
		Expect(s.vm("web").Spec.Template.Spec.Domain.Memory.Guest.String()).To(Equal("1Gi"))
		Expect(s.vm("web").Spec.Template.Spec.Hostname).To(BeEmpty())
	})
})
