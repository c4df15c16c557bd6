package e2e

import (
	"encoding/json"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// VMs are stored while the manager accepts them. Then it restarts with flags under which it would
// not, like a version with more rules.
var _ = Describe("A rule that is new", Ordered, ContinueOnFailure, func() {
	const (
		// The gates of HostDisk and HostDevices are on in the suite's manager.
		staging  = "--vm-rollout-strategy=Stage"
		addon    = "--mode=addon"
		hostDisk = "volumes: [{name: data, hostDisk: {path: /data/a.img, type: Disk}}]"
		growing  = "domain: {memory: {guest: 512Mi, maxGuest: 1Gi}}"
		// noPassthrough is one problem, however many devices there are.
		noPassthrough = "spec.template.spec.domain.devices.hostDevices: Forbidden: must be left out: the feature gate HostDevices is not enabled (host-devices-enabled)"
	)
	machines := map[string]struct {
		// before is the flag of the manager that admits it.
		before string
		kind   string
		spec   string
		// said is what the one with the new rule says of it.
		said string
	}{
		"gated": {staging, virtualMachine, "spec: {runStrategy: Halted, template: {spec: {" + hostDisk + ", domain: {memory: {guest: 1Gi}}}}}",
			"spec.template.spec.volumes[0].hostDisk: Forbidden: must be left out: the feature gate HostDisk is not enabled (host-disk-enabled)"},
		"staged": {staging, virtualMachine, "spec: {running: false, template: {spec: {" + growing + "}}}",
			`spec.template.spec.domain.memory.guest: Invalid value: "512Mi": must be at least 1Gi with maxGuest (memory-hotplug-minimum)`},
		"beside": {addon, virtualMachine, "spec: {runStrategy: Halted, template: {spec: {domain: {devices: {}}}}}",
			"spec.template.spec.domain.memory.guest: Required value: must say how much memory the guest has, such as 1Gi (memory-given)"},
		"passed": {staging, virtualMachine,
			"spec: {runStrategy: Halted, template: {spec: {domain: {memory: {guest: 1Gi}, devices: {hostDevices: [{name: one, deviceName: example.com/card}]}}}}}", noPassthrough},
		"alone": {staging, instance, "spec: {" + hostDisk + ", domain: {memory: {guest: 1Gi}}}",
			"spec.volumes[0].hostDisk: Forbidden: must be left out: the feature gate HostDisk is not enabled (host-disk-enabled)"},
	}
	manifest := func(as, name string) string {
		m := machines[name]
		return strings.Replace(sparse(as, m.spec), "kind: "+virtualMachine, "kind: "+m.kind, 1)
	}
	var s *story
	BeforeAll(func() {
		ownManager()
		s = newStory()
		usual := here.manager.args
		DeferCleanup(here.manager.restart, usual)
		for _, flag := range []string{staging, addon} {
			here.manager.restart(append(slices.Clone(usual), flag))
			for name, m := range machines {
				if m.before == flag {
					s.create(manifest(name, name))
				}
				if m.before == flag && m.kind == instance { // until then its labels may not change
					Eventually(func() any { return at(s.get(m.kind, name), "status.phase") }).Should(BeEquivalentTo("Scheduling"))
				}
			}
		}
		here.manager.restart(append(slices.Clone(usual), "--feature-gates=HostDisk=false,HostDevices=false"))
	})
	// hold adds a finalizer that has nothing to do with us, or removes it. A VMI has ours, too.
	hold := func(kind, name string, held bool) {
		GinkgoHelper()
		if kind == instance && held {
			Eventually(func() []string { return s.get(kind, name).GetFinalizers() }).Should(ContainElement("virtwright.dev/pod"))
		}
		finalizers := slices.DeleteFunc(s.get(kind, name).GetFinalizers(), func(f string) bool { return f == "example.com/hold" })
		if held {
			finalizers = append(finalizers, "example.com/hold")
		}
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"finalizers": finalizers}})
		Expect(err).NotTo(HaveOccurred())
		s.kubectl("", "patch", kind, name, "--type=merge", "-p", string(patch))
	}
	finalizes := func(kind, name string) {
		hold(kind, name, true)
		Expect(s.get(kind, name).GetFinalizers()).To(ContainElement("example.com/hold"))
		hold(kind, name, false)
		Expect(s.get(kind, name).GetFinalizers()).NotTo(ContainElement("example.com/hold"))
	}
	// labels gives and changes labels and annotations.
	labels := func(kind, name string) {
		s.kubectl("", "label", kind, name, "tier=gold")
		s.kubectl("", "label", kind, name, "tier=lead", "--overwrite")
		s.kubectl("", "annotate", kind, name, "example.com/owner=me")
		s.kubectl("", "annotate", kind, name, "example.com/owner-")
		Expect(s.get(kind, name)).To(And(haveAt("metadata.labels.tier", "lead"), haveAt(`metadata.annotations["example.com/owner"]`, nil)))
	}
	// deletes takes away a machine that waits for a finalizer.
	deletes := func(kind, name string) {
		hold(kind, name, true)
		s.kubectl("", "delete", kind, name, "--wait=false")
		s.kubectl("", "label", kind, name, "tier=gone", "--overwrite")
		if kind == instance { // its controller removes ours once there is no pod
			Eventually(func() []string { return s.get(kind, name).GetFinalizers() }).Should(HaveExactElements("example.com/hold"))
		}
		hold(kind, name, false)
		_, err := s.of(kind).Get(here.ctx, name, metav1.GetOptions{})
		Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
	}

	DescribeTable("rejects what comes now", func(name string) {
		_, _, err := s.tryKubectl(manifest(name+"-again", name), "create", "-f", "-")
		Expect(err).To(MatchError(ContainSubstring(machines[name].said)))
	}, Entry(nil, "gated"), Entry(nil, "passed"), Entry(nil, "staged"), Entry(nil, "beside"), Entry(nil, "alone"))

	DescribeTable("lets a VM that was there before go on", func(name, worse string, told ...string) {
		labels(virtualMachine, name)
		finalizes(virtualMachine, name)

		By("being started and stopped")
		for _, state := range []string{"true", "false"} {
			strategy := map[string]string{"true": `{"spec":{"runStrategy":"Always"}}`, "false": `{"spec":{"runStrategy":"Halted"}}`}[state]
			if at(s.get(virtualMachine, name), "spec.running") != nil {
				strategy = `{"spec":{"running":` + state + `}}`
			}
			s.kubectl("", "patch", "vm", name, "--type=merge", "-p", strategy)
		}

		By("being changed elsewhere, in every way")
		s.kubectl("", "patch", "vm", name, "--type=merge", "-p", `{"spec":{"template":{"spec":{"hostname":"merged"}}}}`)
		s.kubectl("", "patch", "vm", name, "--type=json", "-p", `[{"op":"replace","path":"/spec/template/spec/hostname","value":"patched"}]`)
		Expect(s.get(virtualMachine, name)).To(haveAt("spec.template.spec.hostname", "patched"))
		whole, _ := s.kubectl("", "get", "vm", name, "-o", "json")
		s.kubectl(strings.Replace(whole, `"patched"`, `"replaced"`, 1), "replace", "-f", "-")
		s.kubectl(sparse(name, "spec: {template: {spec: {hostname: applied}}}"), "apply", "--server-side", "--force-conflicts", "-f", "-")
		stored := s.get(virtualMachine, name)
		Expect(stored).To(haveAt("spec.template.spec.hostname", "applied"))

		By("being rejected what makes it worse")
		_, _, err := s.tryPatch(name, worse)
		Expect(err).To(MatchError(contain(told...)))
		if was := machines[name].said; !slices.Contains(told, was) {
			Expect(err).To(MatchError(Not(ContainSubstring(was))), "earlier errors are not reported")
		}
		Expect(s.get(virtualMachine, name).GetGeneration()).To(Equal(stored.GetGeneration()), "status may have followed meanwhile")

		deletes(virtualMachine, name)
	},
		Entry("with a feature that is now off", "gated",
			"spec: {template: {spec: {volumes: [{name: data, hostDisk: {path: /data/a.img, type: Disk}}, {name: more, hostDisk: {path: /data/b.img, type: Disk}}]}}}",
			"spec.template.spec.volumes[1].hostDisk: Forbidden", "HostDisk is not enabled (host-disk-enabled)"),
		Entry("with fields that are now forbidden", "passed",
			"spec: {template: {spec: {domain: {devices: {hostDevices: [{name: one, deviceName: example.com/card}, {name: two, deviceName: example.com/card}]}}}}}",
			noPassthrough),
		Entry("with memory that must now be able to grow", "staged", "spec: {template: {spec: {domain: {memory: {guest: 600Mi}}}}}",
			`memory.guest: Invalid value: "600Mi"`, "(memory-hotplug-minimum)"),
		Entry("from the time alongside KubeVirt", "beside", "spec: {template: {spec: {domain: {devices: {disks: [{name: root}]}}}}}",
			"spec.template.spec.domain.devices.disks[0].name: Not found", "(disk-volume-exists)"),
	)

	It("lets an instance that was there before go on", func() {
		labels(instance, "alone")
		finalizes(instance, "alone")
		_, err := s.as(clientAs(trusted), instance).Patch(here.ctx, "alone", types.MergePatchType,
			[]byte(`{"spec":{"terminationGracePeriodSeconds":7},"status":{"phase":"Running"}}`), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(s.get(instance, "alone")).To(And(haveAt("spec.terminationGracePeriodSeconds", int64(7)), haveAt("status.phase", "Running")))
		deletes(instance, "alone")
	})
})
