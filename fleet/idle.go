package fleet

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/provenance"
)

// selectsNothing notes selectors that admit no value of a label that known objects have, but one
// that resembles such a value.
func (a *analysis) selectsNothing() {
	namespaces := map[string][]string{}
	for _, known := range a.Namespaces {
		for key, value := range known.Labels {
			namespaces[key] = append(namespaces[key], value)
		}
	}
	for _, m := range a.members {
		if m.matchesNothing {
			continue
		}
		a.noteUnmet(m.Name(), "spec.match.labels.matchLabels", "VM", m.vms, a.VMLabels)
		a.noteUnmet(m.Name(), "spec.match.namespaces.matchLabels", "namespace", m.namespaces, namespaces)
	}
}

func (a *analysis) noteUnmet(of presets.PresetName, at, kind string, required map[string]requirement, known map[string][]string) {
	for _, key := range slices.Sorted(maps.Keys(required)) {
		admits := func(value string) bool { return required[key].allows(labels.Set{key: value}) }
		if len(known[key]) == 0 || key == corev1.LabelMetadataName || required[key].allows(labels.Set{}) || slices.ContainsFunc(known[key], admits) {
			continue
		}
		for _, wanted := range required[key].selected() {
			if i := slices.IndexFunc(known[key], func(value string) bool { return resemble(wanted, value) }); i >= 0 {
				a.reportOf(selectsNothing, of, Finding{
					Field:   provenance.Of(strings.Split(at, ".")...).Field(key).String(),
					Message: fmt.Sprintf("no %s in the files has label %s=%s; did you mean %s=%s?", kind, key, wanted, key, known[key][i]),
				})
				break
			}
		}
	}
}

// resemble reports whether two values probably mean the same: prod and production, centos-6 and
// centos6, Windows and windows.
func resemble(a, b string) bool {
	plain := func(text string) string {
		return strings.Map(func(r rune) rune {
			if strings.ContainsRune("-_.", r) {
				return -1
			}
			return unicode.ToLower(r)
		}, text)
	}
	x, y := plain(a), plain(b)
	const shortest = 3 // of a common beginning
	return x == y || min(len(x), len(y)) >= shortest && (strings.HasPrefix(x, y) || strings.HasPrefix(y, x)) || len(presets.Typos(a, []string{b})) > 0
}

// idleRules reports rules that require what a value of the same preset always gives.
func (a *analysis) idleRules() {
	for _, m := range a.members {
		for _, rule := range m.parts {
			own := func(c claim) bool { return c.member == m && c.part.gives() && !c.Path.InList() }
			switch {
			case rule.Role != provenance.Require || !m.acts():
			case slices.ContainsFunc(a.under[rule.path], own):
				a.report(NoOp, m, Finding{Field: rule.Field, Message: fmt.Sprintf("requires %s, which the preset itself sets: no VM violates the rule", rule.path)})
			case a.isPlatformDefault(m, rule):
				a.report(NoOp, m, Finding{Field: rule.Field, Message: fmt.Sprintf("requires %s, which platform defaults set in mode standalone: no VM violates the rule", rule.path)})
			}
		}
	}
}

// isPlatformDefault reports whether a VM meets a rule of a preset only by its platform defaults.
func (a *analysis) isPlatformDefault(m *member, rule *part) bool {
	return a.standalone != nil && nil != a.findWitness([]*member{m}, func(t *trial) bool {
		return violatedBeneath(t.refusal, rule.path) != "" && violatedBeneath(a.resolveBy(a.standalone, t.Witness, t.snapshot).refusal, rule.path) == ""
	})
}

// idleExceptions reports exceptions that exempt no VM.
func (a *analysis) idleExceptions() {
	for _, e := range a.Exceptions {
		name := presets.PresetName{Namespace: e.Namespace, Ref: "exception/" + e.Name}
		if e.Expired(a.Now) {
			a.reportOf(idleException, name, Finding{Field: "spec.until", Message: "the exception has expired, and a cluster rejects its creation"})
		}
		selected := requirements(e.VMs())
		a.noteUnmet(name, "spec.vmSelector.matchLabels", "VM", selected, a.VMLabels)
		a.notePresetLabels(name, nil, provenance.Of("spec", "vmSelector", "matchLabels"), selected)
		for i, ref := range e.Presets {
			if at, why := a.idle(e, ref); why != "" {
				a.reportOf(idleException, name, Finding{Field: cmp.Or(at, fmt.Sprintf("spec.presets[%d]", i)), Message: why})
			}
		}
	}
}

// idle says why an exception from a preset exempts no VM, and at which field if it is not the name
// of the preset; empty if it may. Presets that are not in the set may exist, unless the name
// resembles one.
func (a *analysis) idle(e *presets.Exception, ref string) (at, why string) {
	var near []string
	other := "" // the preset of this name in the other scope
	for _, m := range a.members {
		switch {
		case m.Namespace != "" && m.Namespace != e.Namespace:
		case strings.TrimPrefix(m.Ref, "cluster/") == strings.TrimPrefix(ref, "cluster/") && m.Ref != ref:
			other = m.Ref
		case m.Ref != ref:
			near = append(near, m.Ref)
		case !compatible(requirements(e.VMs()), m.vms):
			return "", fmt.Sprintf("no VM that vmSelector selects matches preset %s", m.Ref)
		default:
			return "metadata.namespace", a.absentFrom(e.Namespace, m)
		}
	}
	if other != "" {
		return "", fmt.Sprintf("preset %q is not in the files; did you mean %q?", ref, other)
	}
	if near = presets.Typos(ref, near); len(near) > 0 {
		return "", fmt.Sprintf("preset %q is not in the files; did you mean %q?", ref, near[0])
	}
	return "", ""
}

// absentFrom says why a preset never acts in a known namespace.
func (a *analysis) absentFrom(namespace string, m *member) string {
	i := slices.IndexFunc(a.Namespaces, func(n presets.Namespace) bool { return n.Name == namespace })
	if i < 0 {
		return ""
	}
	has := labels.Set{corev1.LabelMetadataName: namespace}
	maps.Copy(has, a.Namespaces[i].Labels)
	for _, key := range slices.Sorted(maps.Keys(m.namespaces)) {
		if !m.namespaces[key].allows(has) {
			return fmt.Sprintf("preset %s does not act in namespace %s, whose labels its match.namespaces does not select", m.Ref, namespace)
		}
	}
	return ""
}
