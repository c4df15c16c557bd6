package stories

import (
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/virtwright/virtwright/test/installation"
)

// span is how long nothing may change after a story.
const span = 3 * time.Second

// excluded is a namespace that virtwright's webhooks exclude: KubeVirt alone decides about its VMs.
const excluded = installation.Namespace

// A story has a namespace of its own.
type story struct{ ns string }

// ofStories is a label of their namespaces.
const ofStories = "kubevirt.virtwright.dev/story"

// newStory begins a story. When it has passed, nothing changes any more, and no write of KubeVirt
// was rejected.
func newStory() *story {
	GinkgoHelper()
	ns := &corev1.Namespace{}
	ns.GenerateName, ns.Labels = "story-", map[string]string{ofStories: ""}
	Expect(here.Objects.Create(here.Context(), ns)).To(Succeed())
	since := here.AuditSize()
	DeferCleanup(func() { Expect(here.Objects.Delete(here.Context(), ns)).To(Succeed()) })
	DeferCleanup(func() {
		if !CurrentSpecReport().Failed() {
			Expect(here.Quiet(span)).To(Succeed())
			Expect(here.RejectedWrites(since)).To(BeEmpty())
		}
	})
	return &story{ns: ns.Name}
}

// Namespaces of stories can be deleted with all that is in them.
var _ = AfterSuite(func() {
	Eventually(func() ([]corev1.Namespace, error) {
		var left corev1.NamespaceList
		err := here.Objects.List(here.Context(), &left, client.HasLabels{ofStories})
		return left.Items, err
	}).Should(BeEmpty())
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
	Eventually(func() (string, error) {
		return s.field("vmpreset/"+name, `{.status.conditions[?(@.type=="Ready")].status}`)
	}).Should(Equal("True"))
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

// vm is a VM of the story.
func (s *story) vm(name string) *kubevirtv1.VirtualMachine {
	GinkgoHelper()
	vm := &kubevirtv1.VirtualMachine{}
	Expect(here.Objects.Get(here.Context(), client.ObjectKey{Namespace: s.ns, Name: name}, vm)).To(Succeed())
	return vm
}

// vmi is a VMI of the story.
func (s *story) vmi(name string) *kubevirtv1.VirtualMachineInstance {
	GinkgoHelper()
	vmi := &kubevirtv1.VirtualMachineInstance{}
	Expect(here.Objects.Get(here.Context(), client.ObjectKey{Namespace: s.ns, Name: name}, vmi)).To(Succeed())
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
