package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/virtwright/virtwright/test/presettest"
)

// An object is one of the cluster, as the API server returned it.
type object = *unstructured.Unstructured

const (
	virtualMachine = "VirtualMachine"
	instance       = "VirtualMachineInstance"
	preset         = "VirtualMachinePreset"
	clusterPreset  = "ClusterVirtualMachinePreset"
	frontend       = "FrontendProfile"
	backendProfile = "BackendProfile"
	legacyPreset   = "VirtualMachineInstancePreset"
	templateOrder  = "VirtualMachineTemplateRequest"
	exception      = "PresetException"
	presetRollout  = "PresetRollout"
)

var resources = map[string]schema.GroupVersionResource{
	virtualMachine:             {Group: "kubevirt.io", Version: "v1", Resource: "virtualmachines"},
	instance:                   {Group: "kubevirt.io", Version: "v1", Resource: "virtualmachineinstances"},
	legacyPreset:               {Group: "kubevirt.io", Version: "v1", Resource: "virtualmachineinstancepresets"},
	preset:                     {Group: "virtwright.dev", Version: "v1alpha1", Resource: "virtualmachinepresets"},
	clusterPreset:              {Group: "virtwright.dev", Version: "v1alpha1", Resource: "clustervirtualmachinepresets"},
	frontend:                   {Group: "virtwright.dev", Version: "v1alpha1", Resource: "frontendprofiles"},
	backendProfile:             {Group: "virtwright.dev", Version: "v1alpha1", Resource: "backendprofiles"},
	exception:                  {Group: "virtwright.dev", Version: "v1alpha1", Resource: "presetexceptions"},
	presetRollout:              {Group: "virtwright.dev", Version: "v1alpha1", Resource: "presetrollouts"},
	templateOrder:              {Group: "ssp.kubevirt.io", Version: "v1alpha1", Resource: "virtualmachinetemplaterequests"},
	"Pod":                      {Version: "v1", Resource: "pods"},
	"Template":                 {Group: "template.openshift.io", Version: "v1", Resource: "templates"},
	"VirtualMachineTemplate":   {Group: "template.kubevirt.io", Version: "v1alpha1", Resource: "virtualmachinetemplates"},
	instancetype:               {Group: "instancetype.kubevirt.io", Version: "v1beta1", Resource: "virtualmachineinstancetypes"},
	clusterInstancetype:        {Group: "instancetype.kubevirt.io", Version: "v1beta1", Resource: "virtualmachineclusterinstancetypes"},
	preference:                 {Group: "instancetype.kubevirt.io", Version: "v1beta1", Resource: "virtualmachinepreferences"},
	clusterPreference:          {Group: "instancetype.kubevirt.io", Version: "v1beta1", Resource: "virtualmachineclusterpreferences"},
	"ControllerRevision":       {Group: "apps", Version: "v1", Resource: "controllerrevisions"},
	"ConfigMap":                {Version: "v1", Resource: "configmaps"},
	"Namespace":                {Version: "v1", Resource: "namespaces"},
	"CustomResourceDefinition": {Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"},
}

// A story has a namespace of its own, and cluster presets that act in no other and end with it.
type story struct {
	ns string
	// audited is the size of the audit log when the story began.
	audited int64
}

// newStory begins a story; labels are those of its namespace, as k=v.
func newStory(labels ...string) *story {
	GinkgoHelper()
	ns := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"generateName": "story-"},
	}}
	of := map[string]string{"e2e.virtwright.dev/story": ""}
	for _, label := range labels {
		key, value, _ := strings.Cut(label, "=")
		of[key] = value
	}
	ns.SetLabels(of)
	ns, err := here.client.Resource(resources["Namespace"]).Create(here.ctx, ns, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	s := &story{ns: ns.GetName()}
	if here.plane != nil {
		s.audited = here.plane.AuditSize()
	}
	if here.manager != nil {
		here.manager.log.mark()
	}
	DeferCleanup(func() error {
		return ignoreNotFound(here.client.Resource(resources["Namespace"]).Delete(here.ctx, ns.GetName(), metav1.DeleteOptions{}))
	})
	return s
}

// parse reads a manifest. Namespaced objects without a namespace get the story's.
func (s *story) parse(manifest string) object {
	GinkgoHelper()
	raw, err := yaml.YAMLToJSON([]byte(manifest))
	Expect(err).NotTo(HaveOccurred(), manifest)
	out := &unstructured.Unstructured{}
	Expect(out.UnmarshalJSON(raw)).To(Succeed(), manifest)
	if !ofCluster(out.GetKind()) && out.GetNamespace() == "" {
		out.SetNamespace(s.ns)
	}
	return out
}

// of is the API of a kind, in the story's namespace where there is one.
func (s *story) of(kind string) dynamic.ResourceInterface { return s.as(here.client, kind) }

func (s *story) as(client dynamic.Interface, kind string) dynamic.ResourceInterface {
	resource, known := resources[kind]
	Expect(known).To(BeTrue(), kind)
	if ofCluster(kind) {
		return client.Resource(resource)
	}
	return client.Resource(resource).Namespace(s.ns)
}

// ofCluster reports whether objects of a kind are in no namespace.
func ofCluster(kind string) bool {
	return slices.Contains([]string{clusterPreset, presetRollout, frontend, backendProfile, clusterInstancetype, clusterPreference}, kind)
}

// create creates what must be fine.
func (s *story) create(manifest string) object {
	GinkgoHelper()
	out, err := s.tryCreate(manifest)
	Expect(err).NotTo(HaveOccurred(), manifest)
	return out
}

func (s *story) tryCreate(manifest string) (object, error) {
	GinkgoHelper()
	in := s.parse(manifest)
	return s.of(in.GetKind()).Create(here.ctx, in, metav1.CreateOptions{})
}

// get returns an object as it is now.
func (s *story) get(kind, name string) object {
	GinkgoHelper()
	out, err := s.of(kind).Get(here.ctx, name, metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	return out
}

// patch merges into a VM and returns it with the warnings that came.
func (s *story) patch(name, merge string) (object, []string) {
	GinkgoHelper()
	out, warnings, err := s.tryPatch(name, merge)
	Expect(err).NotTo(HaveOccurred(), merge)
	return out, warnings
}

func (s *story) tryPatch(name, merge string) (object, []string, error) {
	GinkgoHelper()
	raw, err := yaml.YAMLToJSON([]byte(merge))
	Expect(err).NotTo(HaveOccurred())
	var heard warnings
	out, err := s.as(heard.client(), virtualMachine).Patch(here.ctx, name, types.MergePatchType, raw, metav1.PatchOptions{})
	return out, heard.texts, err
}

// kubectl runs what must succeed, in the story's namespace.
func (s *story) kubectl(stdin string, args ...string) (stdout, stderr string) {
	GinkgoHelper()
	stdout, stderr, err := s.tryKubectl(stdin, args...)
	Expect(err).NotTo(HaveOccurred())
	return stdout, stderr
}

func (s *story) tryKubectl(stdin string, args ...string) (stdout, stderr string, err error) {
	return here.kubectl(stdin, append([]string{"--namespace=" + s.ns}, args...)...)
}

// replace replaces an object, again where a controller has written its status between kubectl's two
// requests.
func (s *story) replace(manifest string) {
	GinkgoHelper()
	s.persist(func() (string, string, error) { return s.tryKubectl(manifest, "replace", "-f", "-") })
}

// preset creates a preset, waits until it is in use, and removes it after the story. A cluster
// preset acts in the story's namespace only, unless it says otherwise.
func (s *story) preset(manifest string) object {
	GinkgoHelper()
	out := s.submit(manifest)
	s.awaitReady(out)
	return out
}

// submit is preset without the waiting.
func (s *story) submit(manifest string) object {
	GinkgoHelper()
	in := s.parse(manifest)
	if in.GetKind() == clusterPreset && at(in, "spec.match.namespaces") == nil {
		Expect(unstructured.SetNestedField(in.Object, s.ns, "spec", "match", "namespaces", "matchLabels", "kubernetes.io/metadata.name")).To(Succeed())
	}
	out, err := s.of(in.GetKind()).Create(here.ctx, in, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred(), manifest)
	DeferCleanup(func() error {
		return ignoreNotFound(s.of(in.GetKind()).Delete(here.ctx, in.GetName(), metav1.DeleteOptions{}))
	})
	return out
}

// edit changes a preset and waits until the change is in use.
func (s *story) edit(p object, merge string) object {
	GinkgoHelper()
	raw, err := yaml.YAMLToJSON([]byte(merge))
	Expect(err).NotTo(HaveOccurred())
	out, err := s.of(p.GetKind()).Patch(here.ctx, p.GetName(), types.MergePatchType, raw, metav1.PatchOptions{})
	Expect(err).NotTo(HaveOccurred())
	s.awaitReady(out)
	return out
}

// awaitReady waits until a preset of this generation or a later one is in use.
func (s *story) awaitReady(p object) {
	GinkgoHelper()
	Eventually(func() string { return s.readiness(p) }).Should(HavePrefix("True"))
}

// readiness is status, reason and message of the condition Ready, once it is about this generation.
func (s *story) readiness(p object) string {
	GinkgoHelper()
	now := s.get(p.GetKind(), p.GetName())
	if observed, _ := at(now, "status.observedGeneration").(int64); observed < p.GetGeneration() {
		return ""
	}
	conditions, _ := at(now, "status.conditions").([]any)
	for _, c := range conditions {
		if c := c.(map[string]any); c["type"] == "Ready" {
			return fmt.Sprint(c["status"], " ", c["reason"], " ", c["message"])
		}
	}
	return ""
}

// at is what lies at a path; elements of lists are found by name.
func at(of object, path string) any {
	GinkgoHelper()
	if rest, ok := strings.CutPrefix(path, "status."); ok { // not of a VM's schema
		value, _, _ := unstructured.NestedFieldNoCopy(of.Object, append([]string{"status"}, strings.Split(rest, ".")...)...)
		return value
	}
	return presettest.At(of.Object, path)
}

// haveAt matches an object by what lies at a path: a value or a matcher.
func haveAt(path string, want any) OmegaMatcher {
	matches, isMatcher := want.(OmegaMatcher)
	switch {
	case want == nil:
		matches = BeNil()
	case !isMatcher:
		matches = Equal(want)
	}
	return WithTransform(func(of object) any { return at(of, path) }, matches)
}

// lackAt matches an object that has nothing at a path.
func lackAt(path string) OmegaMatcher {
	return WithTransform(func(of object) any { return at(of, path) }, BeNil())
}

// say matches a list of warnings if one has every part.
func say(parts ...string) OmegaMatcher {
	one := make([]OmegaMatcher, 0, len(parts))
	for _, part := range parts {
		one = append(one, ContainSubstring(part))
	}
	return ContainElement(And(one...))
}

// cannotBoot reports whether a warning is about a VM without a bootable device.
func cannotBoot(warning string) bool { return strings.HasSuffix(warning, "(bootable-device)") }

// beQuiet matches warnings that no preset caused.
func beQuiet() OmegaMatcher { return Not(ContainElement(ContainSubstring("preset"))) }

// lines splits what a program wrote.
func lines(text string) []string {
	return slices.DeleteFunc(strings.Split(text, "\n"), func(line string) bool { return line == "" })
}

// warnings hears what an API server warns of.
type warnings struct {
	mu    sync.Mutex
	texts []string
}

// HandleWarningHeaderWithContext takes a warning.
func (w *warnings) HandleWarningHeaderWithContext(_ context.Context, _ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.texts = append(w.texts, text)
}

// client is the administrator's, heard by w.
func (w *warnings) client() dynamic.Interface {
	GinkgoHelper()
	config := rest.CopyConfig(here.config)
	config.WarningHandlerWithContext = w
	client, err := dynamic.NewForConfig(config)
	Expect(err).NotTo(HaveOccurred())
	return client
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// createWarned is create with the warnings that came, but for the one about a VM that cannot boot:
// the VMs of most stories have no disk.
func (s *story) createWarned(manifest string) (object, []string) {
	GinkgoHelper()
	in := s.parse(manifest)
	var heard warnings
	out, err := s.as(heard.client(), in.GetKind()).Create(here.ctx, in, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred(), manifest)
	return out, slices.DeleteFunc(heard.texts, cannotBoot)
}

// floor is the memory that vm gives a VM.
const floor = "64Mi"

// vm is the manifest of a VM with more of its YAML. It asks for floor, without which no machine
// starts, unless it says itself what it needs.
func vm(name string, more ...string) string {
	body := strings.Join(more, "\n")
	var content map[string]any
	if err := yaml.Unmarshal([]byte(body), &content); err != nil {
		return sparse(name, body)
	}
	domain := []string{"spec", "template", "spec", "domain"}
	for _, given := range [][]string{{"spec", "instancetype"}, append(slices.Clone(domain), "memory"), append(slices.Clone(domain), "resources")} {
		if _, found, err := unstructured.NestedFieldNoCopy(content, given...); found || err != nil {
			return sparse(name, body)
		}
	}
	if content == nil {
		content = map[string]any{}
	}
	if unstructured.SetNestedField(content, floor, append(domain, "resources", "requests", "memory")...) != nil {
		return sparse(name, body)
	}
	whole, err := yaml.Marshal(content)
	if err != nil {
		return sparse(name, body)
	}
	return sparse(name, string(whole))
}

// sparse is the manifest of a VM with more of its YAML and nothing else.
func sparse(name string, more ...string) string {
	return "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: " + name + "}\n" + strings.Join(more, "\n") + "\n"
}

// aPreset is the manifest of a preset, of the namespace or (cluster/NAME) of the cluster.
func aPreset(ref, spec string) string {
	kind := preset
	name, cluster := strings.CutPrefix(ref, "cluster/")
	if cluster {
		kind = clusterPreset
	}
	return "apiVersion: virtwright.dev/v1alpha1\nkind: " + kind + "\nmetadata: {name: " + name + "}\nspec: " + spec + "\n"
}
