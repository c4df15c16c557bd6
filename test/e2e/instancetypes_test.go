package e2e

import (
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	instancetype        = "VirtualMachineInstancetype"
	clusterInstancetype = "VirtualMachineClusterInstancetype"
	preference          = "VirtualMachinePreference"
	clusterPreference   = "VirtualMachineClusterPreference"
)

// instancetypeKinds are those of KubeVirt, with their scopes.
var instancetypeKinds = map[string]string{
	instancetype: "Namespaced", clusterInstancetype: "Cluster", preference: "Namespaced", clusterPreference: "Cluster",
}

var _ = Describe("Instancetypes alongside KubeVirt", Ordered, func() {
	const pool = `spec.template.spec.nodeSelector.pool`
	var s *story
	BeforeAll(func() {
		ownManager()
		DeferCleanup(unserveInstancetypes) // after the manager has stopped
		here.manager.restartIn(listing, "--mode=addon")
	})
	BeforeEach(func() { s = newStory() })

	It("are not needed: presets act without them", func() {
		s.preset(aPreset("sized", `{defaults: {spec: {instancetype: {name: u1}}}}`))
		s.preset(aPreset("pooled", `{defaults: {spec: {template: {spec: {nodeSelector: {pool: plain}}}}}}`))
		By("holding a default instancetype back where a VM has sizes")
		Expect(s.create(sparse("sizes", "spec: {runStrategy: Halted, template: {spec: {domain: {devices: {}, memory: {guest: 1Gi}}}}}"))).To(And(
			lackAt("spec.instancetype"), haveAt(pool, "plain")))
		By("withholding what an unknown instancetype may own")
		Expect(s.create(sparse("named", "spec: {runStrategy: Halted, instancetype: {name: u1}, template: {spec: {domain: {devices: {}}}}}"))).To(lackAt(pool))
	})

	It("are found as soon as KubeVirt serves them, and watched", func() {
		serveInstancetypes()
		s.preset(aPreset("pooled", `{defaults: {spec: {template: {metadata: {annotations: {team: mine, owner: me}}, spec: {nodeSelector: {pool: plain}, domain: {memory: {guest: 1Gi}}}}}}}`))
		typed := func(name string) object {
			return s.create(sparse(name, "spec: {runStrategy: Halted, instancetype: {kind: VirtualMachineInstancetype, name: small}, template: {spec: {domain: {devices: {}}}}}"))
		}
		annotations := "spec.template.metadata.annotations"
		s.create(named(instancetype, "small", "{cpu: {guest: 1}, memory: {guest: 1Gi}, annotations: {team: theirs}}"))
		Expect(typed("at-once")).To(And(haveAt(pool, "plain"), lackAt(memory), lackAt(annotations+".team"), haveAt(annotations+".owner", "me")))
		Eventually(func() string { return here.manager.log.tail(1 << 20) }).Should(ContainSubstring("Watching instancetypes and preferences"))
		Expect(typed("cached")).To(And(haveAt(pool, "plain"), lackAt(memory)))

		By("taking back what presets gave when a user adds an instancetype, and giving it again")
		Expect(s.create(sparse("later", "spec: {runStrategy: Halted, template: {spec: {domain: {devices: {}}}}}"))).To(And(haveAt(memory, "1Gi"), haveAt(annotations+".team", "mine")))
		got, _ := s.patch("later", "spec: {instancetype: {kind: VirtualMachineInstancetype, name: small}}")
		Expect(got).To(And(lackAt(memory), lackAt(annotations+".team"), haveAt(pool, "plain")))
		got, _ = s.patch("later", "spec: {instancetype: null}")
		Expect(got).To(And(haveAt(memory, "1Gi"), haveAt(annotations+".team", "mine")))
	})

	It("become presets by import", func() {
		// Imported presets meet a stronger one, and one that is newer than the VM.
		s.preset(aPreset("sized", `{priority: 1000, defaults: {spec: {template: {spec: {domain: {memory: {guest: 2Gi}}}}}}}`))
		s.create(named(instancetype, "small", "{cpu: {guest: 4}, memory: {guest: 1Gi}}"))
		s.create(named(preference, "cores", "{cpu: {preferredCPUTopology: cores}, devices: {preferredDiskBus: sata, preferredRng: {}}}"))
		s.create(sparse("web", `spec: {runStrategy: Halted, instancetype: {kind: VirtualMachineInstancetype, name: small}, preference: {kind: VirtualMachinePreference, name: cores},
			template: {spec: {domain: {devices: {disks: [{name: root}]}}, volumes: [{name: root, containerDisk: {image: i}}]}}}`))
		s.preset(aPreset("newer", `{priority: 1000, defaults: {spec: {template: {spec: {nodeSelector: {pool: newer}}}}}}`))
		imported := func(args ...string) string {
			code, out, errs := s.commandLine(append([]string{"import"}, args...)...)
			Expect(code).To(BeZero(), errs)
			return out
		}
		vms := imported("--vms")
		presets := imported()
		s.kubectl(presets, "create", "-f", "-")
		s.kubectl(presets, "wait", "--for=condition=Ready", "-f", "-")
		s.kubectl(vms, "replace", "-f", "-")
		const domain = "spec.template.spec.domain."
		Expect(s.get("VirtualMachine", "web")).To(And(
			lackAt("spec.instancetype"), lackAt("spec.preference"), haveAt("metadata.labels.instancetype", "small"), haveAt("metadata.labels.preference", "cores"),
			haveAt(domain+"cpu.sockets", int64(1)), haveAt(domain+"cpu.cores", int64(4)), haveAt(memory, "1Gi"),
			lackAt(pool),
			haveAt(domain+"devices.rng", HaveLen(0)), haveAt(domain+"devices.disks", ContainElement(HaveKeyWithValue("disk", HaveKeyWithValue("bus", "sata"))))))
	})

	It("are no way around overrides and forbid", func() {
		s.create(named(instancetype, "small", "{cpu: {guest: 1}, memory: {guest: 1Gi}}"))
		s.create(named(instancetype, "large", "{cpu: {guest: 8, model: Skylake}, memory: {guest: 16Gi}, gpus: [{name: g, deviceName: nvidia.com/x}]}"))
		s.create(named(preference, "win", "{devices: {preferredTPM: {}}}"))
		typed := func(vm, it string) string {
			return sparse(vm, "spec: {runStrategy: Halted, instancetype: {kind: VirtualMachineInstancetype, name: "+it+"}, template: {spec: {domain: {devices: {}}}}}")
		}
		s.create(typed("older", "large"))
		s.preset(aPreset("cluster/model", `{overrides: {spec: {template: {spec: {domain: {cpu: {model: Haswell}}}}}}}`))
		s.preset(aPreset("cluster/plain", `{forbid: [{path: spec.template.spec.domain.devices.gpus, message: no GPUs here}], remove: [spec.template.spec.domain.devices.tpm]}`))

		By("rejecting what the expansion has otherwise")
		_, err := s.tryCreate(typed("web", "large"))
		Expect(err).To(MatchError(apierrors.IsInvalid, "an invalid VM"))
		Expect(err).To(MatchError(And(
			ContainSubstring(`spec.template.spec.domain.cpu.model: Invalid value: "Skylake": must be "Haswell", as preset cluster/model overrides it, but VirtualMachineInstancetype large sets "Skylake"`),
			ContainSubstring("spec.template.spec.domain.devices.gpus: Forbidden: no GPUs here (preset cluster/plain)"))))
		_, err = s.tryCreate(sparse("web", "spec: {runStrategy: Halted, preference: {kind: VirtualMachinePreference, name: win}, template: {spec: {domain: {devices: {}}}}}"))
		Expect(err).To(MatchError(ContainSubstring("devices.tpm: Forbidden: preset cluster/plain removes it, but VirtualMachinePreference win sets")))

		By("admitting what it has as presets want it")
		Expect(s.create(typed("web", "small"))).To(haveAt("spec.template.spec.domain.cpu.model", "Haswell"))

		By("letting a VM keep what it had before the presets, and adding nothing")
		_, _, err = s.tryPatch("older", "metadata: {labels: {a: b}}") // the instancetype may be newer
		Expect(err).To(MatchError(ContainSubstring("no GPUs here")))
		// KubeVirt stores the instancetype of each VM as a revision.
		s.create("apiVersion: apps/v1\nkind: ControllerRevision\nmetadata: {name: stored, labels: {instancetype.kubevirt.io/object-name: large}}\nrevision: 1\ndata: " +
			"{apiVersion: instancetype.kubevirt.io/v1beta1, kind: VirtualMachineInstancetype, metadata: {name: large}, spec: {cpu: {guest: 8, model: Skylake}, memory: {guest: 16Gi}, gpus: [{name: g, deviceName: nvidia.com/x}]}}")
		s.kubectl("", "patch", "vm", "older", "--as="+trusted, "--as-group=system:masters", "--subresource=status", "--type=merge", "-p",
			`{"status": {"instancetypeRef": {"kind": "VirtualMachineInstancetype", "name": "large", "controllerRevisionRef": {"name": "stored"}}}}`)
		s.patch("older", "metadata: {labels: {a: b}}")
		s.patch("older", "spec: {template: {spec: {hostname: older}}}")
		_, _, err = s.tryPatch("web", "spec: {instancetype: {name: large}}")
		Expect(err).To(MatchError(ContainSubstring("no GPUs here")))
	})

	It("are read as they were when a VM pins a revision", func() {
		s.preset(aPreset("cluster/sized", `{overrides: {spec: {template: {spec: {domain: {memory: {guest: 1Gi}}}}}}}`))
		s.create(named(instancetype, "small", "{cpu: {guest: 1}, memory: {guest: 2Gi}}"))
		s.create("apiVersion: apps/v1\nkind: ControllerRevision\nmetadata: {name: pinned}\nrevision: 1\ndata: " +
			"{apiVersion: instancetype.kubevirt.io/v1beta1, kind: VirtualMachineInstancetype, metadata: {name: small}, spec: {cpu: {guest: 1}, memory: {guest: 1Gi}}}")
		typed := "spec: {runStrategy: Halted, instancetype: {kind: VirtualMachineInstancetype, name: small%s}, template: {spec: {domain: {devices: {}}}}}"
		_, err := s.tryCreate(sparse("latest", fmt.Sprintf(typed, "")))
		Expect(err).To(MatchError(ContainSubstring(`memory.guest: Invalid value: "2Gi"`)))
		s.create(sparse("pinned", fmt.Sprintf(typed, ", revisionName: pinned")))
	})

	It("that do not exist are KubeVirt's to judge", func() {
		s.preset(aPreset("cluster/sized", `{overrides: {spec: {template: {spec: {domain: {memory: {guest: 1Gi}}}}}}}`))
		for _, kind := range []string{"VirtualMachineInstancetype", "VirtualMachineClusterInstancetype"} {
			s.create(sparse(strings.ToLower(kind), "spec: {runStrategy: Halted, instancetype: {name: missing, kind: "+kind+"}, preference: {name: missing, kind: "+
				strings.Replace(kind, "Instancetype", "Preference", 1)+"}, template: {spec: {domain: {devices: {}}}}}"))
		}
	})
})

// named is the manifest of an instancetype or a preference.
func named(kind, name, spec string) string {
	return "apiVersion: instancetype.kubevirt.io/v1beta1\nkind: " + kind + "\nmetadata: {name: " + name + "}\nspec: " + spec + "\n"
}

// serveInstancetypes makes the API server serve KubeVirt's kinds, with any spec.
func serveInstancetypes() {
	GinkgoHelper()
	for kind, scope := range instancetypeKinds {
		plural := resources[kind].Resource
		_, _, err := here.kubectl(fmt.Sprintf(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[1]s.instancetype.kubevirt.io}
spec:
  group: instancetype.kubevirt.io
  scope: %[3]s
  names: {kind: %[2]s, plural: %[1]s, singular: %[4]s}
  versions:
  - {name: v1beta1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
`, plural, kind, scope, strings.ToLower(kind)), "apply", "-f", "-")
		Expect(err).NotTo(HaveOccurred())
	}
	for kind := range instancetypeKinds {
		Eventually(func() error {
			_, err := here.client.Resource(resources[kind]).List(here.ctx, metav1.ListOptions{})
			return err
		}).Should(Succeed())
	}
}

func unserveInstancetypes() {
	for kind := range instancetypeKinds {
		err := here.client.Resource(resources["CustomResourceDefinition"]).Delete(here.ctx, resources[kind].Resource+".instancetype.kubevirt.io", metav1.DeleteOptions{})
		Expect(ignoreNotFound(err)).To(Succeed())
	}
}
