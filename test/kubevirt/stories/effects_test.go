package stories

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/virtwright/virtwright/test/installation"
)

var _ = Describe("A changed field of a running VM", func() {
	var s *story
	BeforeEach(func() { s = newStory() })

	It("requires a restart exactly if plan says so", func() {
		changes := changesOfFields()
		effects := s.planned(changes)
		byVM := map[string][]*fieldChange{}
		for _, c := range changes {
			raw, err := json.Marshal(c.before)
			Expect(err).NotTo(HaveOccurred())
			byVM[string(raw)] = append(byVM[string(raw)], c)
		}
		AddReportEntry(subject, fmt.Sprintf("%d fields", len(changes)))
		var mu sync.Mutex
		var wrong []string
		inParallel(slices.Sorted(maps.Keys(byVM)), func(i int, vm string) {
			for c, required := range s.restarts(fmt.Sprintf("effect-%d", i), byVM[vm]) {
				if want := effects[c] == "restart"; required != want {
					mu.Lock()
					wrong = append(wrong, fmt.Sprintf("%s: plan says %q, RestartRequired is %t", c.name, effects[c], required))
					mu.Unlock()
				}
			}
		})
		Expect(here.Objects.DeleteAllOf(here.Context(), &kubevirtv1.VirtualMachine{}, client.InNamespace(s.ns))).To(Succeed()) // some migrate without end
		slices.Sort(wrong)
		Expect(strings.Join(wrong, "\n")).To(BeEmpty())
	})
})

// planned returns the effects that virtwright plan predicts for changes, each made by a preset of
// its own for a VM of its own.
func (s *story) planned(changes []*fieldChange) map[*fieldChange]string {
	GinkgoHelper()
	folder := GinkgoT().TempDir()
	files := map[string]*strings.Builder{"before": {}, "after": {}, "vms": {}}
	add := func(file string, object map[string]any) {
		raw, err := yaml.Marshal(object)
		Expect(err).NotTo(HaveOccurred())
		fmt.Fprintf(files[file], "---\n%s", raw)
	}
	for i, c := range changes {
		name := fmt.Sprintf("change-%d", i)
		for file, vm := range map[string]map[string]any{"before": c.before, "after": c.after} {
			template, _, _ := unstructured.NestedMap(vm, "spec", "template")
			delete(template, "metadata")
			add(file, map[string]any{
				"apiVersion": "virtwright.dev/v1alpha1", "kind": "ClusterVirtualMachinePreset", "metadata": map[string]any{"name": name},
				"spec": map[string]any{
					"match":    map[string]any{"labels": map[string]any{"matchLabels": map[string]any{"change": name}}},
					"defaults": map[string]any{"spec": map[string]any{"template": template}},
				},
			})
		}
		add("vms", map[string]any{
			"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine",
			"metadata": map[string]any{"name": name, "labels": map[string]any{"change": name}}, "spec": map[string]any{"runStrategy": "Always"},
		})
	}
	for name, content := range files {
		file := filepath.Join(folder, name, "objects.yaml")
		Expect(os.Mkdir(filepath.Dir(file), 0o700)).To(Succeed())
		Expect(os.WriteFile(file, []byte(content.String()), 0o600)).To(Succeed())
	}
	plan := exec.CommandContext(here.Context(), installation.Program(GinkgoTB(), installation.CLI), "plan", "--mode", "addon", "-n", s.ns, "-o", "json",
		"-f", filepath.Join(folder, "after"), "-f", filepath.Join(folder, "vms"), "--base-dir", filepath.Join(folder, "before"))
	var complaints bytes.Buffer
	plan.Stderr = &complaints
	out, err := plan.Output()
	var report struct {
		Groups []struct {
			VMs    []string `json:"vms"`
			Effect string   `json:"effect"`
		} `json:"groups"`
	}
	Expect(json.Unmarshal(out, &report)).To(Succeed(), "%v: %s", err, &complaints)
	effects := map[*fieldChange]string{}
	for _, g := range report.Groups {
		for _, vm := range g.VMs {
			var i int
			_, err := fmt.Sscanf(vm, s.ns+"/change-%d", &i)
			Expect(err).NotTo(HaveOccurred(), vm)
			effects[changes[i]] = g.Effect
		}
	}
	return effects
}

// restarts makes changes, one after another, on a running VM, and reports for which of them
// KubeVirt requires a restart. All begin with the same VM.
func (s *story) restarts(name string, changes []*fieldChange) map[*fieldChange]bool {
	GinkgoHelper()
	out := map[*fieldChange]bool{}
	running := ""
	for i, c := range changes {
		if _, addsSockets := c.values["domain.cpu.sockets"]; addsSockets || running == "" { // KubeVirt adds none to a VM that migrates
			running = fmt.Sprintf("%s-%d", name, i)
			s.run(running, c)
		}
		before := s.stored(running)
		after := runtime.DeepCopyJSON(before)
		Expect(c.apply(after)).To(BeTrue(), c.name)
		out[c] = isRestartRequired(s.replaceTemplate(running, after))
		if isRestartRequired(s.replaceTemplate(running, before)) {
			running = "" // KubeVirt does not unplug
		}
	}
	return out
}

// run creates the VM of a change, and waits until it has a VMI. That of the first VM of fieldsFile,
// whose fields KubeVirt updates, must run.
func (s *story) run(name string, c *fieldChange) {
	GinkgoHelper()
	vm := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(c.before)}
	vm.SetName(name)
	vm.SetNamespace(s.ns)
	vm.Object["spec"].(map[string]any)["runStrategy"] = "Always"
	s.store(vm)
	Eventually(func() bool { return s.vm(name).Status.Created }).Should(BeTrue(), "the VM of %s has a VMI: %v", c.name, c.before)
	if c.before["metadata"].(map[string]any)["name"] == "runs" {
		s.awaitStatus(name, kubevirtv1.VirtualMachineStatusRunning)
	}
}

// stored returns the template's spec of a VM as it is stored.
func (s *story) stored(name string) map[string]any {
	GinkgoHelper()
	vm := &unstructured.Unstructured{}
	vm.SetGroupVersionKind(kubevirtv1.VirtualMachineGroupVersionKind)
	Expect(here.Objects.Get(here.Context(), client.ObjectKey{Namespace: s.ns, Name: name}, vm)).To(Succeed())
	return templateSpecOf(vm.Object)
}

// replaceTemplate replaces the template's spec of a VM, and waits until KubeVirt has seen it.
func (s *story) replaceTemplate(name string, spec map[string]any) *kubevirtv1.VirtualMachine {
	GinkgoHelper()
	raw, err := json.Marshal([]map[string]any{{"op": "replace", "path": "/spec/template/spec", "value": spec}})
	Expect(err).NotTo(HaveOccurred())
	vm := &kubevirtv1.VirtualMachine{}
	vm.Namespace, vm.Name = s.ns, name
	Expect(here.Objects.Patch(here.Context(), vm, client.RawPatch(types.JSONPatchType, raw))).To(Succeed(), name)
	Eventually(func() bool {
		vm = s.vm(name)
		return vm.Status.DesiredGeneration == vm.Generation
	}).Should(BeTrue(), name)
	return vm
}

func isRestartRequired(vm *kubevirtv1.VirtualMachine) bool {
	return slices.ContainsFunc(vm.Status.Conditions, func(c kubevirtv1.VirtualMachineCondition) bool {
		return c.Type == kubevirtv1.VirtualMachineRestartRequired && c.Status == corev1.ConditionTrue
	})
}
