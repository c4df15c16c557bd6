package presets

import (
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets/provenance"
)

const (
	// legacyExclude is KubeVirt's annotation that keeps its presets away.
	legacyExclude = "virtualmachineinstancepresets.admission.kubevirt.io/exclude"
	// legacyApplied, with a preset's name, marks an instance it acted on.
	legacyApplied = "virtualmachinepreset.kubevirt.io/"
	// legacyPriority lets every preset of ours go before a legacy one.
	legacyPriority = -MaxPriority - 1
)

// CompileLegacy prepares a VirtualMachineInstancePreset of KubeVirt. It acts when
// an instance is created, as KubeVirt documents, but for every field of
// its domain, leaf by leaf, and in a fixed order. As KubeVirt does, it refuses
// an instance on which two of them disagree.
func CompileLegacy(p *kubevirtv1.VirtualMachineInstancePreset) (*Compiled, field.ErrorList) {
	at := field.NewPath("spec")
	out := &Compiled{
		Ref: p.Name, Namespace: p.Namespace, Generation: max(p.Generation, 1), Priority: legacyPriority,
		ApplyAt: v1alpha1.ApplyAtLaunch, Mode: v1alpha1.ModeEnforce, legacy: true,
	}
	var errs field.ErrorList
	out.labels = selector(&p.Spec.Selector, at.Child("selector"), &errs)
	domain, err := legacyDomain(p)
	if err != nil {
		return nil, append(errs, field.Invalid(at.Child("domain"), p.Name, err.Error()))
	}
	partial := map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"domain": domain}}}}
	var more field.ErrorList
	if len(domain) > 0 {
		out.defaults, more = compilePartialFields(partial, at)
	}
	for _, e := range more {
		e.Field = strings.Replace(e.Field, "spec.spec.template.spec.", "spec.", 1)
	}
	if errs = append(errs, more...); len(errs) > 0 {
		return nil, errs
	}
	out.digest, out.hash = digest(out, &v1alpha1.PresetSpec{}), out.hashGiven()
	if b, err := json.Marshal([]any{p.Spec.Selector, domain}); err == nil {
		out.digest = digestOf(fmt.Appendf(out.digest[:], "legacy %s", b))
	}
	return out, nil
}

// legacyDomain is the domain as JSON, without the empty objects and lists that
// KubeVirt's Go types write where nothing was set.
func legacyDomain(p *kubevirtv1.VirtualMachineInstancePreset) (map[string]any, error) {
	if p.Spec.Domain == nil {
		return nil, nil
	}
	raw, err := json.Marshal(p.Spec.Domain)
	if err != nil {
		return nil, err
	}
	domain, err := decode("domain", raw)
	for _, name := range []string{"devices", "resources"} {
		if fields, ok := domain[name].(map[string]any); ok && len(fields) == 0 {
			delete(domain, name)
		}
	}
	return domain, err
}

// legacyExcluded reports whether the instance keeps legacy presets away. KubeVirt
// takes the word true only.
func (w *resolution) legacyExcluded() bool {
	return w.instanceAnnotations()[legacyExclude] == "true"
}

func (w *resolution) instanceAnnotations() map[string]any {
	meta, _ := w.instance["metadata"].(map[string]any)
	annotations, _ := meta["annotations"].(map[string]any)
	return annotations
}

// legacyConflicts refuses an instance on which legacy presets disagree.
func (w *resolution) legacyConflicts() field.ErrorList {
	var errs field.ErrorList
	for _, c := range w.conflicts {
		if c.legacy {
			errs = append(errs, field.Forbidden(field.NewPath(c.Path), fmt.Sprintf(
				"VirtualMachineInstancePresets %s and %s both match and differ: %s and %s", c.Winner, c.Loser, show(c.Won), show(c.Lost))))
		}
	}
	return errs
}

// markLegacy sets KubeVirt's annotation for each legacy preset that acted, where
// its name makes a valid key.
func (w *resolution) markLegacy(enforced []*Compiled) {
	for _, c := range enforced {
		if !c.legacy || len(c.Ref) > 63 || !w.showsAny(c) {
			continue
		}
		root := w.cursor(&layer{w: w, preset: c, role: c.defaultRole(), source: provenance.NoSource})
		root.child("spec").child("template").child("metadata").child("annotations").setDefault(legacyApplied+c.Ref, kubevirtv1.GroupVersion.String())
	}
}

// showsAny reports whether any leaf of c is as c has it, which KubeVirt calls applied.
func (w *resolution) showsAny(c *Compiled) bool {
	found := false
	visitLeaves(c.defaults, func(leaf *fieldNode) {
		p, err := parseKnown(leaf.path)
		if v := lookup(w.root, vmSchema(), p); err == nil && v != nil && leaf.same(v) {
			found = true
		}
	})
	return found
}
