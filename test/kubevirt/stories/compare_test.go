package stories

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/virtwright/virtwright/test/installation"
)

// corpusVariable names a folder of manifests that other people wrote.
const corpusVariable = "VIRTWRIGHT_CORPUS"

// compared are the kinds that virtwright's webhooks see, and those from which VMs are made.
var compared = []string{"VirtualMachine", "VirtualMachineInstance", "VirtualMachinePool", "VirtualMachineInstanceReplicaSet"}

var _ = Describe("KubeVirt", func() {
	var s *story
	BeforeEach(func() { s = newStory() })

	It("stores manifests as it does without virtwright", func() {
		module, err := exec.CommandContext(here.Context(), "go", "-C", "../bin", "list", "-m", "-f", "{{.Dir}}", "kubevirt.io/kubevirt").Output()
		Expect(err).NotTo(HaveOccurred())
		folders := []string{filepath.Join(strings.TrimSpace(string(module)), "examples")}
		if corpus := os.Getenv(corpusVariable); corpus != "" {
			folders = append(folders, corpus)
		}
		counts := map[string]int{}
		for _, folder := range folders {
			files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
			Expect(err).NotTo(HaveOccurred())
			for _, file := range files {
				content, err := os.ReadFile(file)
				Expect(err).NotTo(HaveOccurred())
				for _, object := range documents(content) {
					if slices.Contains(compared, object.GetKind()) {
						counts[folder]++
						s.expectSame(filepath.Base(file), object, object)
					}
				}
			}
		}
		examples := counts[folders[0]]
		Expect(examples).To(BeNumerically(">=", 30))
		AddReportEntry(subject, fmt.Sprintf("%d manifests of KubeVirt", examples))
	})

	It("stores sparse VMs as it stores the full ones without virtwright", func() {
		here.Must("", "label", "namespace", s.ns, "tier=prod", "secure-boot=required")
		here.Must("", "create", "namespace", "lab") // of a preset
		here.Must("", "apply", "-f", "../../../examples/presets")
		DeferCleanup(func() {
			here.Must("", "delete", "-f", "../../../examples/presets")
			here.Must("", "delete", "namespace", "lab", "--wait=false")
		})
		here.Must("", "wait", "cvmpreset", "--all", "--for=condition=Ready", "--timeout=60s")
		sparse := sparseVMs(s.ns, 200)
		full := s.expand(sparse)
		Expect(full).To(HaveLen(len(sparse)))
		for i := range sparse {
			s.expectSame(sparse[i].GetName(), sparse[i], full[i])
		}
		AddReportEntry(subject, fmt.Sprintf("%d VMs", len(sparse)))
	})
})

// expectSame expects an object in the story and another one that KubeVirt alone stores to be equal,
// or both to be rejected.
func (s *story) expectSame(name string, with, alone *unstructured.Unstructured) {
	GinkgoHelper()
	try := func(object *unstructured.Unstructured, namespace string) error {
		object.SetNamespace(namespace)
		return here.Objects.Create(here.Context(), object, client.DryRunAll)
	}
	with, alone = with.DeepCopy(), alone.DeepCopy()
	got, want := try(with, s.ns), try(alone, excluded)
	switch {
	case want != nil && got == nil && strings.Contains(want.Error(), "devices in body is required"):
		return // intended: virtwright adds devices: {}
	case want != nil || got != nil:
		Expect(got != nil && want != nil).To(BeTrue(), "%s: with virtwright %v\nalone %v", name, got, want)
		return
	}
	Expect(cmp.Diff(essence(alone), essence(with))).To(BeEmpty(), "%s: -alone, +with virtwright", name)
}

// essence returns an object without what differs between any two.
func essence(object *unstructured.Unstructured) map[string]any {
	for _, name := range []string{"uid", "resourceVersion", "creationTimestamp", "managedFields", "generation", "namespace"} {
		unstructured.RemoveNestedField(object.Object, "metadata", name)
	}
	unstructured.RemoveNestedField(object.Object, "status")
	unstructured.RemoveNestedField(object.Object, "metadata", "annotations", "virtwright.dev/provenance")
	if len(object.GetAnnotations()) == 0 {
		object.SetAnnotations(nil)
	}
	for _, path := range [][]string{{"spec", "domain"}, {"spec", "template", "spec", "domain"}} {
		unstructured.RemoveNestedField(object.Object, append(path, "firmware", "uuid")...)
		unstructured.RemoveNestedField(object.Object, append(path, "firmware", "serial")...)
	}
	return object.Object
}

// documents returns the objects of a file; nothing for one that is not made of objects.
func documents(content []byte) []*unstructured.Unstructured {
	var out []*unstructured.Unstructured
	for text := range bytes.SplitSeq(content, []byte("\n---")) {
		object := &unstructured.Unstructured{}
		if yaml.Unmarshal(text, &object.Object) == nil && object.GetKind() != "" {
			out = append(out, object)
		}
	}
	return out
}

// sparseVMs returns random VMs with the labels that the example presets select. The seed is fixed.
func sparseVMs(namespace string, count int) []*unstructured.Unstructured {
	random := rand.New(rand.NewPCG(1, 2))
	var out []*unstructured.Unstructured
	for i := range count {
		labels, template := map[string]any{}, map[string]any{"domain": map[string]any{}}
		sometimes := func(do func()) {
			if random.IntN(3) == 0 {
				do()
			}
		}
		labels["vm-size"] = []string{"small", "medium"}[random.IntN(2)]
		sometimes(func() { labels["root-disk"] = "fedora" })
		sometimes(func() { labels["memory"] = "by-cores" })
		sometimes(func() { labels["workload"] = "latency-sensitive" })
		sometimes(func() { labels["os"] = "windows" })
		sometimes(func() { template["domain"] = map[string]any{"cpu": map[string]any{"cores": int64(3)}} })
		sometimes(func() {
			template["domain"] = map[string]any{"memory": map[string]any{"guest": "3Gi"}, "devices": map[string]any{"rng": map[string]any{}}}
		})
		sometimes(func() { template["terminationGracePeriodSeconds"] = int64(9) })
		sometimes(func() {
			template["networks"] = []any{map[string]any{"name": "default", "pod": map[string]any{}}}
			template["domain"] = map[string]any{"devices": map[string]any{"interfaces": []any{map[string]any{"name": "default", "masquerade": map[string]any{}}}}}
		})
		sometimes(func() {
			template["volumes"] = []any{map[string]any{"name": "data", "containerDisk": map[string]any{"image": "example.org/disk:1"}}}
		})
		out = append(out, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine",
			"metadata": map[string]any{"name": fmt.Sprintf("sparse-%d", i), "namespace": namespace, "labels": labels},
			"spec":     map[string]any{"runStrategy": []string{"Halted", "Always"}[random.IntN(2)], "template": map[string]any{"spec": template}},
		}})
	}
	return out
}

// expand expands VMs by the example presets, without the cluster.
func (s *story) expand(vms []*unstructured.Unstructured) []*unstructured.Unstructured {
	GinkgoHelper()
	folder := GinkgoT().TempDir()
	var text bytes.Buffer
	fmt.Fprintf(&text, "{apiVersion: v1, kind: Namespace, metadata: {name: %s, labels: {tier: prod, secure-boot: required}}}\n", s.ns)
	for _, vm := range vms {
		raw, err := yaml.Marshal(vm.Object)
		Expect(err).NotTo(HaveOccurred())
		fmt.Fprintf(&text, "---\n%s", raw)
	}
	file := filepath.Join(folder, "sparse.yaml")
	Expect(os.WriteFile(file, text.Bytes(), 0o600)).To(Succeed())
	var complaints bytes.Buffer
	expand := exec.CommandContext(here.Context(), installation.Program(GinkgoTB(), installation.CLI), "expand", "-n", s.ns, "-f", file, "-f", "../../../examples/presets", "--mode", "addon")
	expand.Stderr = &complaints
	out, err := expand.Output()
	Expect(err).NotTo(HaveOccurred(), complaints.String())
	list := &unstructured.UnstructuredList{}
	Expect(yaml.Unmarshal(out, list)).To(Succeed())
	full := make([]*unstructured.Unstructured, len(list.Items))
	for i := range list.Items {
		full[i] = &list.Items[i]
	}
	return full
}
