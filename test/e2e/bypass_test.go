package e2e

import (
	"encoding/json"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

var _ = Describe("Getting past the presets", func() {
	var s *story
	BeforeEach(func() {
		installRoles()
		s = newStory()
		s.bind("jane", "edit")
		s.preset(aPreset("policy", `{overrides: {spec: {template: {spec: {hostname: enforced}}}},
forbid: [{path: spec.template.spec.subdomain, message: "no subdomains here"}]}`))
	})

	// apply sends what the API server does not clean before admission.
	apply := func(name, metadata, spec string) (object, error) {
		manifest := s.parse(fmt.Sprintf(`{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: %s, namespace: %s%s},
spec: {runStrategy: Halted, template: {spec: {domain: {memory: {guest: 64Mi}}, %s}}}}`, name, s.ns, metadata, spec))
		return s.as(as("jane"), virtualMachine).Apply(here.ctx, name, manifest, metav1.ApplyOptions{FieldManager: "jane"})
	}

	It("does not work by saying that a new VM is being deleted", func() {
		const going = `, deletionTimestamp: "2020-01-01T00:00:00Z"`
		vm, err := apply("going", going, "hostname: mine")
		Expect(err).NotTo(HaveOccurred())
		Expect(vm).To(haveAt("spec.template.spec.hostname", "enforced"))
		Expect(vm).To(haveAt("spec.template.spec.domain.machine.type", "q35"))
		_, err = apply("forbidden", going, "subdomain: x")
		Expect(err).To(MatchError(ContainSubstring("no subdomains here")))
		vm, err = apply("forged", going+`, annotations: {virtwright.dev/provenance: '{"forged":1}'}`, "hostname: mine")
		Expect(err).NotTo(HaveOccurred())
		Expect(vm).To(haveAt("spec.template.spec.hostname", "enforced"))
		Expect(at(vm, "metadata.annotations")).To(HaveKeyWithValue("virtwright.dev/provenance", Not(ContainSubstring("forged"))))
	})

	It("does not work by repeating an owner", func() {
		s.kubectl("", "create", "configmap", "pool")
		uid, _ := s.kubectl("", "get", "configmap", "pool", "-o", "jsonpath={.metadata.uid}")
		owner := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "name": "pool", "uid": uid}
		manifest := s.parse(tinyVM("owned", ""))
		manifest.SetNamespace(s.ns)
		manifest.Object["metadata"].(map[string]any)["ownerReferences"] = []any{owner}
		_, err := s.as(clientAs(trusted), virtualMachine).Create(here.ctx, manifest, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		patch := func(spec string, owners ...any) (object, error) {
			merge := s.parse(fmt.Sprintf(`{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {annotations: {virtwright.dev/provenance: null}}, spec: {template: {spec: {%s}}}}`, spec))
			merge.Object["metadata"].(map[string]any)["ownerReferences"] = owners
			raw, err := json.Marshal(merge)
			Expect(err).NotTo(HaveOccurred())
			return s.as(as("jane"), virtualMachine).Patch(here.ctx, "owned", types.MergePatchType, raw, metav1.PatchOptions{})
		}
		vm, err := patch("hostname: mine, terminationGracePeriodSeconds: 7", owner, owner)
		Expect(err).NotTo(HaveOccurred())
		Expect(vm).To(haveAt("spec.template.spec.hostname", "enforced"))
		Expect(vm).To(haveAt("spec.template.spec.terminationGracePeriodSeconds", int64(7)))
		Expect(at(vm, "metadata.ownerReferences")).To(HaveLen(1))
		Expect(at(vm, "metadata.annotations")).To(HaveKey("virtwright.dev/provenance"))
		_, err = patch("subdomain: x", owner, owner)
		Expect(err).To(MatchError(ContainSubstring("no subdomains here")))
		_, err = patch("subdomain: x", owner, owner, map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "name": "other", "uid": "5a0e3b4c-0000-4000-8000-000000000002"})
		Expect(err).To(MatchError(ContainSubstring("(owner-references)")))
	})

	It("does not work by naming a preset before it is there, or before it matters", func() {
		_, err := apply("early", "", "hostname: mine}, metadata: {annotations: {virtwright.dev/presets: later}")
		Expect(err).To(MatchError(And(ContainSubstring(`virtwright.dev/presets`), ContainSubstring(`"later"`))))
		s.preset(aPreset("now", `{match: {labels: {matchLabels: {os: windows}}}, defaults: {spec: {template: {spec: {schedulerName: x}}}}}`))
		_, err = apply("named", ", annotations: {virtwright.dev/presets: now}", "hostname: mine")
		Expect(err).To(MatchError(ContainSubstring("may not use preset now")))
	})

	It("does not work by looking like an orphan", func() {
		created, err := s.as(as("jane"), instance).Create(here.ctx, s.parse(tinyInstance("squat", `, annotations: {kubevirt.io/vm-generation: "1"}`)), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(created.GetAnnotations()).NotTo(HaveKey("kubevirt.io/vm-generation"))
		_, err = s.as(as("jane"), instance).Patch(here.ctx, "squat", types.MergePatchType, []byte(`{"metadata":{"annotations":{"kubevirt.io/vm-generation":"1"}}}`), metav1.PatchOptions{})
		Expect(err).To(MatchError(ContainSubstring("(reserved-generation)")))
		_, err = s.tryCreate(tinyVM("squat", ""))
		Expect(err).To(MatchError(ContainSubstring("a VirtualMachineInstance of this name exists")))
	})
})
