package e2e

import (
	"encoding/json"
	"fmt"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/provenance"
)

var _ = Describe("Many VMs while presets change", func() {
	const (
		machines = 500
		workers  = 20
		changes  = 20
	)

	It("are each what one snapshot gives", func() {
		s := newStory()
		s.preset(aPreset("cluster/house", `{overrides: {metadata: {labels: {house: ours}}, spec: {template: {spec: {priorityClassName: vms}}}}}`))
		h := &history{story: s, snapshots: map[string]*presets.Snapshot{}}
		moving := s.preset(aPreset("moving", revision(0)))
		s.awaitSettled()
		h.others = compileOthers("moving")
		h.write(moving)
		Expect(snapshotOf(s.tryOut(vm("probe")))).To(Equal(h.last))

		stored := make([]object, machines)
		done := make(chan int) // without a buffer, so that VMs wait for changes that are late
		var all sync.WaitGroup
		for worker := range workers {
			all.Go(func() {
				defer GinkgoRecover()
				for i := worker; i < machines; i += workers {
					stored[i] = s.create(crowdMember(i))
					done <- i
				}
			})
		}
		for change := 1; change <= changes; change++ {
			for range machines / (changes + 1) {
				Eventually(done).Should(Receive())
			}
			h.change(change)
		}
		go func() {
			all.Wait()
			close(done)
		}()
		for range done { // the rest
		}

		seen := map[string]int{}
		for i, got := range stored {
			hash := snapshotOf(got)
			Expect(h.snapshots).To(HaveKey(hash), got.GetName())
			Expect(essence(got.Object)).To(Equal(h.expected(hash, crowdMember(i))), got.GetName())
			seen[hash]++
		}
		Expect(len(seen)).To(BeNumerically(">", 2), "presets changed too late: %v", seen)
		list, err := s.of(virtualMachine).List(here.ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(list.Items).To(HaveLen(machines))
	})
})

// crowdMember is the manifest of one of many VMs. Neighbours leave different fields unset.
func crowdMember(i int) string {
	body := []string{
		"",
		"spec: {runStrategy: Always, template: {spec: {domain: {memory: {guest: 64Mi}}}}}",
		`spec: {template: {spec: {domain: {devices: {disks: [{name: mine, disk: {}}]}}, volumes: [{name: mine, emptyDisk: {capacity: 1Gi}}]}}}`,
	}[i%3]
	return vm(fmt.Sprintf("crowd-%d", i), body)
}

// revision is what a preset says after so many changes.
func revision(n int) string {
	spec := fmt.Sprintf(`{spec: {template: {spec: {domain: {memory: {guest: %dGi}, cpu: {cores: %d}, devices: {disks: [{name: disk-%d, disk: {bus: sata}}]}}, volumes: [{name: disk-%d, containerDisk: {image: "example.com/os:%d"}}]}}}}`,
		n+1, n%7+1, n, n, n)
	return fmt.Sprintf(`{priority: %d, defaults: %s}`, n%3, spec)
}

// A history has the snapshots that presets went through, by hash.
type history struct {
	story     *story
	others    []*presets.Compiled
	snapshots map[string]*presets.Snapshot
	last      string
}

// write adds the snapshot with a preset as the API server returned it.
func (h *history) write(written object) {
	GinkgoHelper()
	snapshot := presets.NewSnapshot(append([]*presets.Compiled{compile(written)}, h.others...), nil)
	h.last = snapshot.Hash()
	h.snapshots[h.last] = snapshot
}

// change makes the preset say something else.
func (h *history) change(n int) {
	GinkgoHelper()
	patch, err := json.Marshal(map[string]any{"spec": h.story.parse(aPreset("moving", revision(n))).Object["spec"]})
	Expect(err).NotTo(HaveOccurred())
	written, err := h.story.of(preset).Patch(here.ctx, "moving", types.MergePatchType, patch, metav1.PatchOptions{})
	Expect(err).NotTo(HaveOccurred())
	h.write(written)
}

// expected is what the engine makes of a manifest with the presets of a snapshot.
func (h *history) expected(hash, manifest string) map[string]any {
	GinkgoHelper()
	in := h.story.parse(manifest)
	raw, err := in.MarshalJSON()
	Expect(err).NotTo(HaveOccurred())
	engine := &presets.Engine{Platform: &presets.Platform{}}
	result, err := engine.Resolve(here.ctx, h.snapshots[hash], presets.Request{
		Kind: presets.VirtualMachine, Object: raw,
		Namespace: presets.Namespace{Name: h.story.ns, Labels: map[string]string{"kubernetes.io/metadata.name": h.story.ns}},
	})
	Expect(err).NotTo(HaveOccurred())
	out := h.story.parse(manifest)
	raw, err = json.Marshal(result.Object())
	Expect(err).NotTo(HaveOccurred())
	Expect(out.UnmarshalJSON(raw)).To(Succeed())
	return essence(out.Object)
}

// essence is what virtwright may change of a VM.
func essence(vm map[string]any) map[string]any {
	metadata, _ := vm["metadata"].(map[string]any)
	return map[string]any{"spec": vm["spec"], "labels": metadata["labels"], "annotations": metadata["annotations"]}
}

// snapshotOf is the hash of the set of presets that made a VM whole.
func snapshotOf(vm object) string {
	GinkgoHelper()
	text, _ := at(vm, record).(string)
	of, err := provenance.Decode(text)
	Expect(err).NotTo(HaveOccurred(), "%s is not expanded: %q", vm.GetName(), text)
	return of.Snapshot
}

// compileOthers compiles every preset of the cluster but those of a name.
func compileOthers(but string) []*presets.Compiled {
	GinkgoHelper()
	var out []*presets.Compiled
	for _, kind := range []string{preset, clusterPreset, legacyPreset} {
		list, err := here.client.Resource(resources[kind]).List(here.ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		for i := range list.Items {
			if list.Items[i].GetName() != but {
				out = append(out, compile(&list.Items[i]))
			}
		}
	}
	return out
}

// awaitSettled waits until the manager has taken up every change of presets, also that those of
// earlier stories are gone.
func (s *story) awaitSettled() {
	GinkgoHelper()
	Eventually(func() []string { // with a namespace go the presets in it, one by one
		list, err := here.client.Resource(resources["Namespace"]).List(here.ctx, metav1.ListOptions{FieldSelector: "status.phase=Terminating"})
		Expect(err).NotTo(HaveOccurred())
		var going []string
		for i := range list.Items {
			in := &story{ns: list.Items[i].GetName()}
			for _, kind := range []string{preset, legacyPreset} {
				left, err := in.of(kind).List(here.ctx, metav1.ListOptions{})
				Expect(err).NotTo(HaveOccurred())
				if len(left.Items) > 0 {
					going = append(going, in.ns)
				}
			}
		}
		return going
	}).Should(BeEmpty())
	Eventually(func() bool {
		return snapshotOf(s.tryOut(vm("probe"))) == presets.NewSnapshot(compileOthers(""), nil).Hash()
	}).Should(BeTrue(), "the manager knows other presets than the cluster has")
}

func compile(p object) *presets.Compiled {
	GinkgoHelper()
	decode := func(into any) {
		Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(p.Object, into)).To(Succeed())
	}
	var typed v1alpha1.Preset
	switch p.GetKind() {
	case legacyPreset:
		legacy := &kubevirtv1.VirtualMachineInstancePreset{}
		decode(legacy)
		compiled, problems := presets.CompileLegacy(legacy)
		Expect(problems).To(BeEmpty())
		return compiled
	case clusterPreset:
		typed = &v1alpha1.ClusterVirtualMachinePreset{}
	default:
		typed = &v1alpha1.VirtualMachinePreset{}
	}
	decode(typed)
	compiled, problems := presets.Compile(typed)
	Expect(problems).To(BeEmpty())
	return compiled
}
