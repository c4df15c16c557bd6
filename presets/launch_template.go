package presets

import (
	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets/provenance"
)

// LaunchesTemplate reports whether Launch would return what the VM's template says, but for
// the record and the maxima of CPU and memory hotplug. Then no preset acts at launch, and the platform has no more defaults. It may report
// false where that is expensive to find out. Vm is decoded JSON, which stays as it is.
func (e *Engine) LaunchesTemplate(s *Snapshot, vm map[string]any, namespace Namespace) bool {
	meta, _ := vm["metadata"].(map[string]any)
	templated, _ := lookup(vm, vmSchema(), provenance.Of("spec", "template", "metadata")).(map[string]any)
	if steers(meta) || steers(templated) || s.mayLaunch(meta, templated, namespace) {
		return false
	}
	if e.Platform == nil {
		return true
	}
	w, err := newResolution(VirtualMachineInstance, instanceOf(vm))
	if err != nil {
		return false
	}
	w.probing = true
	w.applyPlatform(e.Platform)
	return !w.probed
}

// steers reports whether metadata selects presets.
func steers(meta map[string]any) bool {
	annotations, _ := meta["annotations"].(map[string]any)
	return annotations[v1alpha1.AnnotationPresets] != nil || annotations[v1alpha1.AnnotationExclude] != nil
}

// mayLaunch reports whether selectors let a preset act on the instance of a VM. Conditions are not
// evaluated.
func (s *Snapshot) mayLaunch(meta, templated map[string]any, namespace Namespace) bool {
	if !s.launches {
		return false
	}
	q := &query{
		labels: matchLabels(meta["labels"], templated["labels"]), instanceLabels: matchLabels(templated["labels"]),
		namespace: namespace, owned: true, launch: true,
	}
	found := false
	keep := func(c *Compiled) { found = found || c.launching() && q.wants(c) }
	s.cluster.candidates(q.labels, namespace.Labels, keep)
	if x := s.namespaced[namespace.Name]; x != nil {
		x.candidates(q.labels, namespace.Labels, keep)
	}
	return found
}
