package stories

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/virtwright/virtwright/test/installation"
)

// span is how long nothing may change after the stories.
const span = 30 * time.Second

// excluded is a namespace that virtwright's webhooks exclude: KubeVirt alone decides about its VMs.
const excluded = installation.Namespace

// small is the spec of a preset that makes a sparse VM with the label size: small complete.
const small = `
match: {labels: {matchLabels: {size: small}}}
defaults: {spec: {template: {spec: {domain: {cpu: {cores: 1}, memory: {guest: 64Mi}, devices: {rng: {}}}}}}}`

// A story has a namespace of its own.
type story struct {
	ns string
	// rejections are parts of the messages that KubeVirt's controllers get in this story.
	rejections []string
}

// ofStories is a label of their namespaces.
const ofStories = "kubevirt.virtwright.dev/story"

// newStory begins a story. When it has passed, no write of KubeVirt was rejected. Its objects stay
// until the last story has ended.
func newStory() *story {
	GinkgoHelper()
	ns := &corev1.Namespace{}
	ns.GenerateName, ns.Labels = "story-", map[string]string{ofStories: ""}
	Expect(here.Objects.Create(here.Context(), ns)).To(Succeed())
	since := here.AuditSize()
	s := &story{ns: ns.Name}
	DeferCleanup(func() {
		if !CurrentSpecReport().Failed() {
			rejected, err := here.RejectedWrites(since)
			Expect(err).NotTo(HaveOccurred())
			rejected = slices.DeleteFunc(rejected, func(text string) bool { // other stories' objects still exist
				return strings.Contains(text, " story-") && !strings.Contains(text, " "+s.ns+"/") || isRepeatedRestore(text)
			})
			for _, part := range s.rejections {
				count := len(rejected)
				rejected = slices.DeleteFunc(rejected, func(text string) bool { return strings.Contains(text, part) })
				Expect(len(rejected)).To(BeNumerically("<", count), "no write was rejected because of %s", part)
			}
			Expect(rejected).To(BeEmpty())
		}
	})
	return s
}

// isRepeatedRestore reports whether KubeVirt rejected a restore that it had created a moment
// before, and that its cache did not have yet.
func isRepeatedRestore(text string) bool {
	return strings.Contains(text, `"virtualmachinerestore-validator.snapshot.kubevirt.io"`) && strings.HasSuffix(text, "in progress")
}

// rejects says that a write of KubeVirt's controllers is rejected with a message.
func (s *story) rejects(part string) { s.rejections = append(s.rejections, part) }

// as returns the client of a user with the role admin in the namespace, and more ClusterRoles.
func (s *story) as(user string, roles ...string) client.Client {
	GinkgoHelper()
	for _, role := range append(roles, "admin") {
		here.Must("", "create", "rolebinding", "--clusterrole="+role, "--user="+user, user+"-"+strings.ReplaceAll(role, ":", "-"), "-n", s.ns)
	}
	config, err := here.ControlPlane.User(user)
	Expect(err).NotTo(HaveOccurred())
	out, err := client.New(config, client.Options{Scheme: here.Objects.Scheme()})
	Expect(err).NotTo(HaveOccurred())
	return out
}

// patch merges a patch in YAML into an object, as a user.
func (s *story) patch(by client.Client, manifest, patch string) error {
	GinkgoHelper()
	raw, err := yaml.YAMLToJSON([]byte(patch))
	Expect(err).NotTo(HaveOccurred(), patch)
	return by.Patch(here.Context(), s.parse(manifest), client.RawPatch(types.MergePatchType, raw))
}

// awaitReady waits for the condition Ready of an object.
func (s *story) awaitReady(resource, name string) {
	GinkgoHelper()
	Eventually(func() (string, error) {
		out, _, err := here.Kubectl(here.Context(), "", "get", resource, name, "-n", s.ns, "-o", `jsonpath={.status.conditions[?(@.type=="Ready")].status}`)
		return strings.TrimSpace(out), err
	}).Should(Equal("True"), "%s %s is ready", resource, name)
}

// clusterPreset creates a preset that matches VMs of the story's namespace by a label, and waits
// until it is ready. It ends with the story.
func (s *story) clusterPreset(name, spec string) {
	GinkgoHelper()
	preset := s.parse(`{apiVersion: virtwright.dev/v1alpha1, kind: ClusterVirtualMachinePreset, metadata: {name: ` + s.ns + "-" + name + `}}`)
	preset.SetNamespace("")
	var content map[string]any
	Expect(yaml.Unmarshal([]byte(spec), &content)).To(Succeed(), spec)
	if content["match"] == nil {
		content["match"] = map[string]any{"namespaces": map[string]any{"matchLabels": map[string]any{"kubernetes.io/metadata.name": s.ns}}}
	}
	preset.Object["spec"] = content
	s.store(preset)
	s.awaitReady("cvmpreset", preset.GetName())
}

// in limits a list to the story.
func (s *story) in() client.ListOption { return client.InNamespace(s.ns) }

// When the stories have passed, nothing changes any more: no controller writes against another. And
// their namespaces can be deleted with all that is in them.
var _ = AfterSuite(func() {
	if here == nil {
		return
	}
	Expect(here.Quiet(span)).To(Succeed())
	var left corev1.NamespaceList
	list := func() ([]corev1.Namespace, error) {
		err := here.Objects.List(here.Context(), &left, client.HasLabels{ofStories})
		return left.Items, err
	}
	namespaces, err := list()
	Expect(err).NotTo(HaveOccurred())
	for i := range namespaces {
		Expect(here.Objects.Delete(here.Context(), &namespaces[i])).To(Succeed())
	}
	Eventually(list).Should(BeEmpty())
})

// parse reads a manifest. Objects without a namespace get the story's.
func (s *story) parse(manifest string) *unstructured.Unstructured {
	GinkgoHelper()
	object := &unstructured.Unstructured{}
	Expect(yaml.Unmarshal([]byte(manifest), &object.Object)).To(Succeed(), manifest)
	if object.GetNamespace() == "" {
		object.SetNamespace(s.ns)
	}
	return object
}

// create creates an object, and returns it as it is stored. It ends with the story.
func (s *story) create(manifest string) *unstructured.Unstructured {
	GinkgoHelper()
	return s.store(s.parse(manifest))
}

func (s *story) store(object *unstructured.Unstructured) *unstructured.Unstructured {
	GinkgoHelper()
	Expect(here.Objects.Create(here.Context(), object)).To(Succeed())
	if object.GetNamespace() != s.ns {
		DeferCleanup(func() { Expect(here.Objects.Delete(here.Context(), object)).To(Succeed()) })
	}
	return object
}

// preset creates a preset of the namespace, and waits until it is ready.
func (s *story) preset(name, spec string) {
	GinkgoHelper()
	preset := s.parse(`{apiVersion: virtwright.dev/v1alpha1, kind: VirtualMachinePreset, metadata: {name: ` + name + `}}`)
	var content map[string]any
	Expect(yaml.Unmarshal([]byte(spec), &content)).To(Succeed(), spec)
	preset.Object["spec"] = content
	s.store(preset)
	s.awaitReady("vmpreset", name)
}

// expectSameSpec expects equal specs of two VMs, except for the IDs of the firmware, which KubeVirt
// draws.
func expectSameSpec(got, want *unstructured.Unstructured) {
	GinkgoHelper()
	specs := []any{}
	for _, vm := range []*unstructured.Unstructured{got, want} {
		spec := vm.DeepCopy().Object
		unstructured.RemoveNestedField(spec, "spec", "template", "spec", "domain", "firmware", "uuid")
		unstructured.RemoveNestedField(spec, "spec", "template", "spec", "domain", "firmware", "serial")
		specs = append(specs, spec["spec"])
	}
	Expect(cmp.Diff(specs[1], specs[0])).To(BeEmpty(), "%s and %s have different specs", got.GetName(), want.GetName())
}

// virtctl runs a command of virtctl in the story's namespace.
func (s *story) virtctl(args ...string) {
	GinkgoHelper()
	_, err := here.Virtctl(append(args, "-n", s.ns)...)
	Expect(err).NotTo(HaveOccurred())
}

// vm is a VM of the story, which may be created soon.
func (s *story) vm(name string) *kubevirtv1.VirtualMachine {
	GinkgoHelper()
	vm := &kubevirtv1.VirtualMachine{}
	Eventually(func() error {
		return here.Objects.Get(here.Context(), client.ObjectKey{Namespace: s.ns, Name: name}, vm)
	}).Should(Succeed())
	return vm
}

// vmi is a VMI of the story, which may be created soon.
func (s *story) vmi(name string) *kubevirtv1.VirtualMachineInstance {
	GinkgoHelper()
	vmi := &kubevirtv1.VirtualMachineInstance{}
	Eventually(func() error {
		return here.Objects.Get(here.Context(), client.ObjectKey{Namespace: s.ns, Name: name}, vmi)
	}).Should(Succeed())
	return vmi
}

// awaitStatus waits for the printable status of a VM.
func (s *story) awaitStatus(name string, status kubevirtv1.VirtualMachinePrintableStatus) {
	GinkgoHelper()
	Eventually(func() kubevirtv1.VirtualMachinePrintableStatus { return s.vm(name).Status.PrintableStatus }).Should(Equal(status))
}

// field is a field of an object of the story.
func (s *story) field(object, path string) (string, error) {
	out, _, err := here.Kubectl(here.Context(), "", "get", object, "-n", s.ns, "-o", "jsonpath="+path)
	return out, err
}

// sparse is the manifest of a VM that the preset small completes, with the rest of its spec.
func sparse(name, spec string) string {
	return fmt.Sprintf("{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: %s, labels: {size: small}}, spec: {%s, template: {spec: {domain: {devices: {}}}}}}", name, spec)
}

// vmNamed is a manifest that only names a VM, for a patch.
func vmNamed(name string) string {
	return "{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: " + name + "}}"
}

// cli runs virtwright in the story's namespace, as the administrator, and returns what it printed.
func (s *story) cli(args ...string) (string, error) {
	GinkgoHelper()
	args = append(args, "-n", s.ns, "--kubeconfig", here.Kubeconfig())
	out, err := exec.CommandContext(here.Context(), installation.Program(here.T, installation.CLI), args...).CombinedOutput()
	return string(out), err
}

// awaitNewVMI waits until another VMI of the name runs.
func (s *story) awaitNewVMI(name string, before types.UID) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		vmi := &kubevirtv1.VirtualMachineInstance{}
		g.Expect(here.Objects.Get(here.Context(), client.ObjectKey{Namespace: s.ns, Name: name}, vmi)).To(Succeed())
		g.Expect(vmi.UID).NotTo(Equal(before))
		g.Expect(vmi.Status.Phase).To(Equal(kubevirtv1.Running))
	}).Should(Succeed())
}
