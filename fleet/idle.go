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
	"github.com/virtwright/virtwright/presets/spelling"
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
	x, y := plain(a), plain(b)
	const shortest = 3 // of a common beginning
	return misspells(a, b) || min(len(x), len(y)) >= shortest && (strings.HasPrefix(x, y) || strings.HasPrefix(y, x))
}

// misspells reports whether two values differ by their spelling only.
func misspells(a, b string) bool {
	return plain(a) == plain(b) || len(spelling.Typos(a, slices.Values([]string{b}))) > 0
}

func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune("-_.", r) {
			return -1
		}
		return unicode.ToLower(r)
	}, text)
}

// idleRules reports rules that require what all VMs have.
func (a *analysis) idleRules() {
	for _, m := range a.members {
		for _, rule := range m.parts {
			if rule.Role != provenance.Require || !m.acts() {
				continue
			}
			var why string
			switch {
			case slices.Contains([]string{"metadata", "metadata.name", "metadata.namespace"}, rule.path):
				why = "which every VM has"
			case slices.ContainsFunc(a.under[rule.path], func(c claim) bool { return c.member == m && c.alwaysSets() }):
				why = "which the preset itself sets"
			case a.standalone != nil && slices.Contains(platformDefaults, rule.path):
				why = "which platform defaults set in mode standalone"
			default:
				continue
			}
			a.report(NoOp, m, Finding{Field: rule.Field, Message: fmt.Sprintf("requires %s, %s: no VM violates the rule, unless it excludes defaults", rule.path, why)})
		}
	}
}

// alwaysSets reports whether a part sets its field in each VM that does not exclude it.
func (p *part) alwaysSets() bool {
	inList := slices.ContainsFunc(p.Path, func(s provenance.Segment) bool { return s.Kind != provenance.Field })
	return p.gives() && !p.Computed && !inList && len(p.Choices) == 0
}

// platformDefaults are fields that a VM always has in mode standalone.
var platformDefaults = []string{
	templatePath + "architecture", templatePath + "evictionStrategy", templatePath + "domain.machine.type", templatePath + "domain.cpu.model",
	templatePath + "domain.cpu.cores", templatePath + "domain.cpu.sockets", templatePath + "domain.cpu.threads",
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
// of the preset; empty if it may.
func (a *analysis) idle(e *presets.Exception, ref string) (at, why string) {
	for _, m := range a.members {
		switch {
		case m.Ref != ref || m.Namespace != "" && m.Namespace != e.Namespace:
		case !compatible(requirements(e.VMs()), m.vms):
			return "spec.vmSelector", fmt.Sprintf("no VM that vmSelector selects matches preset %s", m.Ref)
		default:
			return "metadata.namespace", a.absentFrom(e.Namespace, m)
		}
	}
	return "", a.otherPreset(e, ref)
}

// otherPreset says which preset an exception means instead of one that is not in the set, if the
// names resemble each other.
func (a *analysis) otherPreset(e *presets.Exception, ref string) string {
	var near []string
	meant := ""
	for _, m := range a.members {
		switch isHere := m.Namespace == "" || m.Namespace == e.Namespace; {
		case m.Ref == ref:
			return fmt.Sprintf("the files have preset %q of namespace %s only, and an exception exempts VMs of its own namespace", ref, m.Namespace)
		case isHere && strings.TrimPrefix(m.Ref, "cluster/") == strings.TrimPrefix(ref, "cluster/"):
			meant = m.Ref
		case isHere:
			near = append(near, m.Ref)
		}
	}
	if near = spelling.Typos(ref, slices.Values(near)); meant == "" && len(near) > 0 {
		meant = near[0]
	}
	if meant == "" {
		return ""
	}
	return fmt.Sprintf("preset %q is not in the files; did you mean %q?", ref, meant)
}

// absentFrom says why a preset never acts in a known namespace.
func (a *analysis) absentFrom(namespace string, m *member) string {
	has, isKnown := a.labelsOf(namespace)
	if !isKnown {
		return ""
	}
	for _, key := range slices.Sorted(maps.Keys(m.namespaces)) {
		if !m.namespaces[key].allows(has) {
			return fmt.Sprintf("preset %s does not act in namespace %s, whose labels its match.namespaces does not select", m.Ref, namespace)
		}
	}
	return ""
}

// labelsOf returns the labels of a namespace; only its name if it is not known.
func (a *analysis) labelsOf(namespace string) (out labels.Set, isKnown bool) {
	out = labels.Set{corev1.LabelMetadataName: namespace}
	i := slices.IndexFunc(a.Namespaces, func(n presets.Namespace) bool { return n.Name == namespace })
	if i >= 0 {
		maps.Copy(out, a.Namespaces[i].Labels)
	}
	return out, i >= 0
}

// failing reports computed defaults whose expressions fail for a VM that sets little, and for one
// that sets its sizes, although no field that they read must exist.
func (a *analysis) failing() {
	for _, m := range a.members {
		if !m.acts() || m.matchesAnyValue() {
			continue
		}
		guarded := m.Expressions().GuardedDefaults()
		if len(guarded) == 0 {
			continue
		}
		var failed []presets.Skipped
		witness := a.findWitness([]*member{m}, func(t *trial) bool {
			sized := t.with(nil, []change{func(w *Witness) { w.complete(completions[0], []*member{m}) }})
			failed = a.failures(a.resolve(sized, t.snapshot), m)
			return len(failed) > 0 && len(a.failures(t, m)) > 0
		})
		for _, path := range guarded {
			i := slices.IndexFunc(failed, func(s presets.Skipped) bool { return slices.Contains(s.Paths, path) })
			if witness != nil && i >= 0 {
				a.report(unguardedExpression, m, Finding{
					Field: "spec.defaults." + path, Witness: witness,
					Message: "the expression fails, so that the default has no effect: " + failed[i].Reason,
				})
			}
		}
	}
}

// matchesAnyValue reports whether a selector admits several values of a label, which an expression
// may use.
func (m *member) matchesAnyValue() bool {
	for _, required := range []map[string]requirement{m.vms, m.namespaces} {
		for _, r := range required {
			if _, isOne := r.only(); !isOne {
				return true
			}
		}
	}
	return false
}

// failures returns the computed defaults of a preset that fail.
func (a *analysis) failures(t *trial, m *member) []presets.Skipped {
	if !t.matched(m) {
		return nil
	}
	return slices.DeleteFunc(t.skipped(a.ctx), func(s presets.Skipped) bool { return !s.Failed || s.Preset != m.Ref })
}
