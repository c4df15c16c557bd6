package presets

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/presets/tree"
	"github.com/virtwright/virtwright/presets/vmschema"
)

const (
	// legacyExclude is KubeVirt's annotation that excludes its presets.
	legacyExclude = "virtualmachineinstancepresets.admission.kubevirt.io/exclude"
	// legacyApplied, with a preset's name, marks a VMI on which it acted.
	legacyApplied  = "virtualmachinepreset.kubevirt.io/"
	legacyPriority = -MaxPriority - 1
)

// CompileLegacy prepares a VirtualMachineInstancePreset of KubeVirt. It acts leaf by leaf when a
// VMI is created. A VMI for which two of them disagree is rejected, as KubeVirt does.
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
		out.defaults = compilePartialFields(partial, at, &expressionCompiler{}, &more)
	}
	for _, e := range more {
		e.Field = strings.Replace(e.Field, "spec.spec.template.spec.", "spec.", 1)
	}
	if errs = append(errs, more...); len(errs) > 0 {
		return nil, errs
	}
	out.digest, out.hash = digest(out, &v1alpha1.PresetSpec{}), out.contentHash()
	if b, err := json.Marshal([]any{p.Spec.Selector, domain}); err == nil {
		out.digest = sha256.Sum256(fmt.Appendf(out.digest[:], "legacy %s", b))
	}
	return out, nil
}

// legacyDomain omits the empty objects that KubeVirt's Go types write for unset fields.
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

// legacyExcluded is as strict as KubeVirt, which accepts only the word true.
func (r *mergeState) legacyExcluded() bool {
	return tree.AsObject(tree.AsObject(r.sentVMI["metadata"])["annotations"])[legacyExclude] == "true"
}

func (r *mergeState) legacyConflicts() field.ErrorList {
	var errs field.ErrorList
	for _, c := range r.conflicts {
		if c.legacy {
			errs = append(errs, field.Forbidden(field.NewPath(c.Path), fmt.Sprintf(
				"VirtualMachineInstancePresets %s and %s both match and differ: %s and %s", c.Winner, c.Loser, tree.Show(c.Won), tree.Show(c.Lost))))
		}
	}
	return errs
}

// markLegacy sets KubeVirt's annotation for each legacy preset that acted, if its name allows that.
func (r *mergeState) markLegacy(enforced []*Compiled) {
	for _, c := range enforced {
		if !c.legacy || len(c.Ref) > 63 || !r.showsAny(c) {
			continue
		}
		root := r.cursor(&layer{state: r, preset: c, role: c.defaultRole(), source: provenance.NoSource})
		root.child("spec").child("template").child("metadata").child("annotations").setDefault(legacyApplied+c.Ref, kubevirtv1.GroupVersion.String())
	}
}

// showsAny reports whether any leaf has the value of c, which KubeVirt calls applied.
func (r *mergeState) showsAny(c *Compiled) bool {
	found := false
	visitLeaves(c.defaults, func(leaf *fieldNode) {
		v := vmschema.Value(r.root, leaf.path)
		found = found || v != nil && leaf.equals(v)
	})
	return found
}
