package e2e

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/virtwright/virtwright/domain"
)

var _ = Describe("Manifests that other people wrote", func() {
	It("come back with everything that their authors wrote", func() {
		found := corpus()
		s := newStory()
		s.preset(aPreset("cluster/sized", `{defaults: {spec: {runStrategy: Manual, template: {spec: {domain: {memory: {guest: 2Gi}, cpu: {cores: 2}, devices: {rng: {}, disks: [{name: added, disk: {bus: virtio}}]}},
volumes: [{name: added, emptyDisk: {capacity: 1Gi}}], tolerations: [{key: added, operator: Exists}]}}}}}`))
		s.createAll(found, func(m foreign, got object, err error) {
			if m.unserved() {
				Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%s needs features that standalone mode does not have: %v", m.file, err)
				return
			}
			Expect(err).NotTo(HaveOccurred(), m.file)
			m.survives(got)
			Expect(got).To(haveAt(record, ContainSubstring("cluster/sized@1:default")), m.file)
		})
	})

	It("are admitted as they are", func() {
		newStory().createAll(corpus(), func(m foreign, got object, err error) {
			if !m.unserved() {
				Expect(err).NotTo(HaveOccurred(), m.file)
				m.survives(got)
			}
		})
	})

	It("are admitted unchanged alongside KubeVirt, also those that name instancetypes", func() {
		ownManager()
		found := corpus()
		s := newStory()
		here.manager.restartWith("--mode=addon")
		s.createAll(found, func(m foreign, got object, err error) {
			Expect(err).NotTo(HaveOccurred(), m.file)
			m.survives(got)
		})
	})
})

// corpus is every machine of the corpus.
func corpus() []foreign {
	GinkgoHelper()
	dir := os.Getenv("VIRTWRIGHT_CORPUS")
	if dir == "" {
		Skip("VIRTWRIGHT_CORPUS names no folder with manifests")
	}
	found := machinesIn(dir)
	Expect(found).NotTo(BeEmpty())
	GinkgoWriter.Printf("%d machines of %s\n", len(found), dir)
	return found
}

// createAll creates machines, each under a name of its own.
func (s *story) createAll(found []foreign, then func(foreign, object, error)) {
	GinkgoHelper()
	for i, m := range found {
		m.sent.SetName(fmt.Sprintf("corpus-%d", i))
		m.sent.SetNamespace(s.ns)
		got, err := s.of(m.sent.GetKind()).Create(here.ctx, m.sent, metav1.CreateOptions{FieldValidation: metav1.FieldValidationWarn})
		then(m, got, err)
	}
}

// survives checks that the written fields are still there.
func (f foreign) survives(got object) {
	GinkgoHelper()
	Expect(missing(f.sent.Object["spec"], got.Object["spec"], "spec")).To(BeEmpty(), f.file)
	Expect(missing(asAny(f.sent.GetLabels()), asAny(got.GetLabels()), "labels")).To(BeEmpty(), f.file)
	Expect(missing(asAny(f.sent.GetAnnotations()), asAny(got.GetAnnotations()), "annotations")).To(BeEmpty(), f.file)
}

// A foreign object is a manifest from another project.
type foreign struct {
	file string
	sent object
}

// unserved reports whether standalone mode rejects the object: a VM with an instancetype, or a VMI
// with fields that a pod without privileges cannot support.
func (f foreign) unserved() bool {
	if f.sent.GetKind() == instance {
		vmi := &kubevirtv1.VirtualMachineInstance{}
		Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(f.sent.Object, vmi)).To(Succeed(), f.file)
		return len(domain.CheckPod(vmi)) > 0
	}
	spec, _ := f.sent.Object["spec"].(map[string]any)
	return spec["instancetype"] != nil || spec["preference"] != nil
}

// machinesIn finds VMs and instances of kubevirt.io in the manifests beneath a folder.
func machinesIn(dir string) []foreign {
	GinkgoHelper()
	var out []foreign
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(path)) {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for document := range strings.SplitSeq(string(content), "\n---") {
			if m := machine(document); m != nil {
				out = append(out, foreign{path, m})
			}
		}
		return nil
	})
	Expect(err).NotTo(HaveOccurred())
	return out
}

// machine is the VM or instance in a document, nil for anything else.
func machine(document string) object {
	var content map[string]any
	raw, err := yaml.YAMLToJSON([]byte(document))
	if err != nil || yaml.Unmarshal(raw, &content) != nil || !strings.HasPrefix(fmt.Sprint(content["apiVersion"]), "kubevirt.io/") {
		return nil
	}
	if kind := content["kind"]; kind != virtualMachine && kind != instance {
		return nil
	}
	out := &unstructured.Unstructured{}
	if out.UnmarshalJSON(raw) != nil {
		return nil
	}
	unstructured.RemoveNestedField(out.Object, "status")
	return out
}

// missing lists the written fields that are missing or have another value.
func missing(wrote, is any, path string) []string {
	switch wrote := wrote.(type) {
	case map[string]any:
		return missingFields(wrote, is, path)
	case []any:
		return missingElements(wrote, is, path)
	}
	if !reflect.DeepEqual(wrote, is) {
		return []string{fmt.Sprintf("%s: wrote %v, is %v", path, wrote, is)}
	}
	return nil
}

func missingFields(wrote map[string]any, is any, path string) []string {
	fields, ok := is.(map[string]any)
	if !ok {
		return []string{fmt.Sprintf("%s: wrote an object, is %v", path, is)}
	}
	var out []string
	for name, value := range wrote {
		if value == nil {
			continue // an API server may drop it
		}
		out = append(out, missing(value, fields[name], path+"."+name)...)
	}
	return out
}

// missingElements compares lists, whose author's elements come first.
func missingElements(wrote []any, is any, path string) []string {
	elements, _ := is.([]any)
	if len(elements) < len(wrote) {
		return []string{fmt.Sprintf("%s: wrote %d elements, are %d", path, len(wrote), len(elements))}
	}
	var out []string
	for i := range wrote {
		out = append(out, missing(wrote[i], elements[i], fmt.Sprintf("%s[%d]", path, i))...)
	}
	return out
}

func asAny(in map[string]string) map[string]any {
	out := make(map[string]any, len(in))
	for k, v := range in {
		out[k] = v
	}
	return out
}
