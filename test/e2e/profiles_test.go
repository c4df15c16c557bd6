package e2e

import (
	"encoding/json"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// aProfile is the manifest of a profile.
func aProfile(kind, name, spec string) string {
	return "apiVersion: virtwright.dev/v1alpha1\nkind: " + kind + "\nmetadata: {name: " + name + "}\nspec: " + spec + "\n"
}

// profile creates a profile that goes with the story.
func (s *story) profile(manifest string) object {
	GinkgoHelper()
	out := s.create(manifest)
	DeferCleanup(func() error {
		return ignoreNotFound(s.of(out.GetKind()).Delete(here.ctx, out.GetName(), metav1.DeleteOptions{}))
	})
	return out
}

// plugged is a VM with an interface that no rule rejects and no domain can have.
const plugged = "spec: {runStrategy: Halted, template: {spec: {networks: [{name: default, pod: {}}], domain: {devices: {interfaces: [{name: default, binding: {name: other}}]}}}}}"

var _ = Describe("Profiles", func() {
	It("are rejected where they cannot be right, in words that help", func() {
		s := newStory()
		for manifest, want := range map[string]string{
			aProfile(frontend, s.ns, `{match: {labels: {matchLabels: {"a b": c}}}}`):                              `spec.match.labels: `,
			aProfile(backendProfile, s.ns, `{match: {namespaces: {matchExpressions: [{key: a, operator: Is}]}}}`): `spec.match.namespaces`,
			aProfile(backendProfile, s.ns, `{disks: {cache: sometimes}}`):                                         `spec.disks.cache`,
			aProfile(frontend, s.ns, `{match: {architectures: [sparc]}}`):                                         `spec.match.architectures[0]: Unsupported value: "sparc"`,
		} {
			_, err := s.tryCreate(manifest)
			Expect(err).To(MatchError(ContainSubstring(want)), manifest)
			Expect(err.Error()).To(ContainSubstring(s.ns))
		}
		_, _, err := s.tryKubectl(aProfile(frontend, s.ns, `{watchdg: x}`), "create", "--validate=strict", "-f", "-")
		Expect(err).To(MatchError(ContainSubstring("watchdg")))
	})

	It("may stay as they are and cannot get worse", func() {
		s := newStory()
		p := s.profile(aProfile(frontend, s.ns, `{priority: 3, match: {labels: {matchLabels: {of: `+s.ns+`}}}}`))
		patch := func(merge string) error {
			_, err := s.of(frontend).Patch(here.ctx, p.GetName(), types.MergePatchType, []byte(merge), metav1.PatchOptions{})
			return err
		}
		Expect(patch(`{"metadata": {"labels": {"a": "b"}}}`)).To(Succeed())
		Expect(patch(`{"spec": {"match": {"labels": {"matchLabels": {"c d": "e"}}}}}`)).To(MatchError(ContainSubstring("spec.match.labels")))
	})
})

var _ = Describe("A VM that no host could run", Ordered, func() {
	var s *story
	BeforeEach(func() { s = newStory() })
	const path = "spec.template.spec.domain.devices.interfaces[0].binding.name"

	It("is rejected with the field's name, and so is a launch", func() {
		_, err := s.tryCreate(vm("web", plugged))
		Expect(err).To(MatchError(ContainSubstring(path + ": Forbidden: not supported: binding plugins")))
		_, err = s.tryCreate("{apiVersion: kubevirt.io/v1, kind: VirtualMachineInstance, metadata: {name: web}, spec: {networks: [{name: default, pod: {}}], " +
			"domain: {memory: {guest: 64Mi}, devices: {interfaces: [{name: default, binding: {name: other}}]}}}}")
		Expect(err).To(MatchError(ContainSubstring(" spec.domain.devices.interfaces[0].binding.name: Forbidden")))
	})

	It("is rejected in the version that was sent", func() {
		_, _, err := s.tryKubectl(`
apiVersion: kubevirt.io/v1alpha2
kind: VirtualMachine
metadata: {name: web}
spec: {runStrategy: Halted, template: {spec: {domain: {resources: {requests: {memory: 64Mi}}, devices: {disks: [{name: boot, volumeName: root, disk: {bus: virtio}, cache: writeback, io: native}]}},
  volumes: [{name: root, emptyDisk: {capacity: 1Gi}}]}}}
`, "create", "-f", "-")
		Expect(err).To(MatchError(ContainSubstring("spec.template.spec.domain.devices.disks[0].io")))
	})

	It("may stay as it was stored", func() {
		ownManager()
		usual := here.manager.args
		DeferCleanup(here.manager.restart, usual)
		here.manager.restart(append(append([]string{}, usual...), "--mode=addon"))
		s.create(vm("web", plugged))
		here.manager.restart(usual)
		out, _ := s.patch("web", `{metadata: {labels: {a: b}}, spec: {template: {spec: {hostname: web}}}}`)
		Expect(out).To(haveAt("spec.template.spec.hostname", "web"))
		_, _, err := s.tryPatch("web", `spec: {template: {spec: {domain: {memory: {guest: "1"}}}}}`)
		Expect(err).To(HaveOccurred(), "a new one is rejected")
		raw, err := json.Marshal([]map[string]any{{"op": "replace", "path": "/spec/template/spec/domain/devices/interfaces", "value": []any{map[string]any{"name": "default", "bridge": map[string]any{}}}}})
		Expect(err).NotTo(HaveOccurred())
		_, err = s.of(virtualMachine).Patch(here.ctx, "web", types.JSONPatchType, raw, metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred(), "it may be mended")
	})
})

var _ = Describe("Who may see profiles", func() {
	It("is allowed with permission to view VMs, and only administrators write them", func() {
		installRoles()
		s := newStory()
		_, _, err := here.kubectl("", "create", "clusterrolebinding", s.ns, "--clusterrole=edit", "--user="+s.ns)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { _, _, _ = here.kubectl("", "delete", "clusterrolebinding", s.ns) })
		Eventually(func() error { return s.can(s.ns, "list", "backendprofiles.virtwright.dev") }).Should(Succeed())
		Expect(s.can(s.ns, "create", "backendprofiles.virtwright.dev")).NotTo(Succeed())
		Expect(s.can(s.ns, "update", "frontendprofiles.virtwright.dev")).NotTo(Succeed())
	})
})
