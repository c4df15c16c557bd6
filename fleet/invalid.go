package fleet

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/validation"
)

// maxValidated limits the pairs of presets that are validated together.
const maxValidated = 20_000

// invalid reports presets, and pairs of presets, that make each VM invalid that they match. A
// problem counts if the smallest such VM has it, and VMs that set more.
func (a *analysis) invalid() {
	if a.Rules == nil {
		return
	}
	for _, m := range a.members {
		if m.acts() && m.gives() {
			a.invalidAlone(m)
		}
	}
	setters := slices.DeleteFunc(slices.Clone(a.members), func(m *member) bool { return !m.setsSpec() })
	pairs := 0
	for i, m := range setters {
		for _, o := range setters[:i] {
			if m.meets(o) && !a.ended() {
				pairs++
				a.invalidTogether(m, o)
			}
		}
		if pairs > maxValidated {
			a.trialsLeft = 0 // incomplete
		}
	}
}

// Repeats reports whether both findings are the same problem of a preset's value.
func (f *Finding) Repeats(k *Finding) bool {
	return f.Preset == k.Preset && f.problem != nil && k.problem != nil && f.problem.ErrorBody() == k.problem.ErrorBody()
}

// setsSpec reports whether the preset sets more than labels and annotations.
func (m *member) setsSpec() bool {
	return slices.ContainsFunc(m.parts, func(p *part) bool {
		return !p.Role.IsRule() && strings.HasPrefix(p.path, "spec.") && !strings.HasPrefix(p.path, "spec.template.metadata.")
	})
}

func (a *analysis) invalidAlone(m *member) {
	witness, problems := a.whatEachHas([]*member{m}, (*analysis).introduced)
	for _, p := range problems.errs {
		a.report(invalidVM, m, p.finding(m, "every VM that the preset matches is rejected: ", witness))
	}
	for _, p := range problems.open {
		a.report(incompleteVM, m, p.finding(m, "a VM whose author sets nothing else is rejected: ", witness))
	}
	for _, p := range problems.unsupported {
		a.report(unsupported, m, p.finding(m, "mode standalone rejects VMs with this field: ", witness))
	}
	for _, p := range problems.warns {
		a.report(warnedValue, m, p.finding(m, "", witness))
	}
}

func (a *analysis) invalidTogether(m, o *member) {
	witness, problems := a.whatEachHas([]*member{m, o}, func(a *analysis, t *trial) introduced {
		found := a.introduced(t)
		for _, one := range []*member{m, o} {
			if len(found.errs) > 0 {
				found.errs = minus(found.errs, a.introduced(a.resolve(t.Witness, snapshotOf([]*member{one}))).errs)
			}
		}
		return introduced{errs: found.errs}
	})
	for _, p := range problems.errs {
		first, second := m, o
		if !m.has(p.path) && o.has(p.path) {
			first, second = o, m
		}
		f := p.finding(first, fmt.Sprintf("every VM that presets %s and %s match is rejected: ", first.Ref, second.Ref), witness)
		f.Other = second.Name()
		a.report(invalidTogether, first, f)
	}
}

// An introducedProblem is a problem that presets introduce, at a path of the VM.
type introducedProblem struct {
	path provenance.Path
	err  *field.Error
}

// finding returns the problem as one of a preset, at the nearest field that it sets.
func (p introducedProblem) finding(m *member, what string, witness *Witness) Finding {
	f := Finding{Field: "spec", Witness: witness, Message: what + p.err.Error(), problem: p.err}
	if at := m.partAt(p.path); at != nil {
		f.Field = at.Field
		if at.path == p.path.String() {
			f.Message = what + p.err.ErrorBody()
		}
	}
	return f
}

// introduced are errors, warnings, and fields that the launcher does not support.
type introduced struct{ errs, warns, unsupported, open []introducedProblem }

func (i introduced) some() bool { return len(i.errs)+len(i.warns)+len(i.unsupported) > 0 }

// whatEachHas returns the problems of a VM that all presets match, which it keeps if its author
// sets more.
func (a *analysis) whatEachHas(all []*member, find func(*analysis, *trial) introduced) (*Witness, introduced) {
	var found introduced
	shows := func(t *trial) bool {
		found = introduced{}
		if t.matched(all...) {
			found = find(a, t)
		}
		return found.some()
	}
	witness := a.findWitness(all, shows)
	if witness == nil {
		return nil, introduced{}
	}
	shows(a.resolve(witness, snapshotOf(all)))
	kept, usual := found, found
	for _, more := range additionsTo(all) {
		completed := a.resolve(witness.with(nil, more.changes), a.all)
		if completed.result == nil || !completed.matched(all...) {
			continue // a condition excludes the VM
		}
		shows(completed)
		kept.errs = in(kept.errs, found.errs)
		if more.isUsual {
			usual.errs = in(usual.errs, found.errs)
		}
		if !more.hides {
			kept.warns, kept.unsupported = in(kept.warns, found.warns), in(kept.unsupported, found.unsupported)
		}
	}
	kept.open = minus(usual.errs, kept.errs)
	return witness, kept
}

// An addition is what the author of a VM may set.
type addition struct {
	changes []change
	// isUsual is true if VMs without the rest are usual, too.
	isUsual bool
	// hides is true if the author's elements replace those of presets, with their warnings.
	hides bool
}

func additionsTo(all []*member) []addition {
	out := []addition{{isUsual: true}, {changes: linksFor(all, incomplete(all))}, {changes: linksFor(all, anyElement), hides: true}}
	for i, more := range completions {
		out = append(out, addition{changes: []change{func(w *Witness) { w.complete(more, all) }}, isUsual: i < len(completions)-1})
	}
	return out
}

func in(problems, others []introducedProblem) []introducedProblem {
	return slices.DeleteFunc(slices.Clone(problems), func(p introducedProblem) bool { return !p.isIn(others) })
}

func minus(problems, others []introducedProblem) []introducedProblem {
	return slices.DeleteFunc(slices.Clone(problems), func(p introducedProblem) bool { return p.isIn(others) })
}

func (p introducedProblem) isIn(others []introducedProblem) bool {
	return slices.ContainsFunc(others, func(o introducedProblem) bool {
		return o.err.Error() == p.err.Error() && o.path.String() == p.path.String()
	})
}

// completions are fields that authors of VMs set, by path in the VMI spec. They meet what rules
// require of fields together.
var completions = []map[string]any{
	{"domain.memory.guest": "8Gi", "domain.cpu.cores": int64(4)},
	{
		"domain.memory.guest": "8Gi",
		"domain.resources":    map[string]any{"requests": map[string]any{"cpu": "4"}, "limits": map[string]any{"cpu": "4"}},
		"domain.features.smm": map[string]any{}, "domain.firmware.bootloader.efi": map[string]any{}, "domain.devices.tpm": map[string]any{},
		"domain.ioThreadsPolicy": "auto", "domain.cpu.model": "host-passthrough", "domain.cpu.dedicatedCpuPlacement": true,
		"domain.memory.hugepages.pageSize": "2Mi",
		"domain.devices.interfaces":        []any{map[string]any{"name": "completed", "masquerade": map[string]any{}}},
		"networks":                         []any{map[string]any{"name": "completed", "pod": map[string]any{}}},
	},
}

// complete sets the fields that no preset acts on.
func (w *Witness) complete(fields map[string]any, all []*member) {
	for path, value := range fields {
		at := "spec.template.spec." + path
		taken := slices.ContainsFunc(all, func(m *member) bool {
			return slices.ContainsFunc(m.parts, func(p *part) bool {
				return !p.Role.IsRule() && (beneath(p.path, at) || beneath(at, p.path))
			})
		})
		if !taken {
			set(w.Object, append(specPath(w.Kind), strings.Split(path, ".")...), value)
		}
	}
}

// introduced returns the problems that the presets of a trial introduce. Platform defaults may
// prevent them in mode standalone.
func (a *analysis) introduced(t *trial) introduced {
	if t.result == nil {
		return introduced{}
	}
	found := a.introducedIn(t, t.result.Object(), t.Object)
	if a.standalone == nil || !found.some() {
		return found
	}
	bare, full := a.resolveBy(a.standalone, t.Witness, snapshotOf(nil)), a.resolveBy(a.standalone, t.Witness, t.snapshot)
	if bare.result == nil || full.result == nil {
		return introduced{}
	}
	return a.introducedIn(t, full.result.Object(), bare.result.Object())
}

// introducedIn returns the problems of an object that it did not have before presets acted.
func (a *analysis) introducedIn(t *trial, object, original map[string]any) introduced {
	now, err := t.decode(object)
	before, alsoErr := t.decode(original)
	if err != nil || alsoErr != nil {
		return introduced{}
	}
	errs, warns := a.Rules.Introduced(now, before)
	out := introduced{errs: t.named(object, errs), warns: t.named(object, warns)}
	if len(errs) == 0 && a.Render != nil {
		now.Old = before
		for _, p := range t.named(object, now.OnlyNew(a.rendered(now), a.rendered(before))) {
			if p.err.Type == field.ErrorTypeForbidden {
				out.unsupported = append(out.unsupported, p)
			} else {
				out.errs = append(out.errs, p)
			}
		}
	}
	return out
}

func (a *analysis) rendered(vm *validation.ExpandedVM) field.ErrorList {
	return vm.PrefixPaths(a.Render(&kubevirtv1.VirtualMachineInstance{ObjectMeta: *vm.Meta, Spec: *vm.Spec}))
}

func (t *trial) named(object map[string]any, problems field.ErrorList) []introducedProblem {
	out := make([]introducedProblem, 0, len(problems))
	for _, e := range problems {
		out = append(out, introducedProblem{presets.PathOf(t.Kind, object, e), e})
	}
	return out
}

func (w *Witness) decode(object map[string]any) (*validation.ExpandedVM, error) {
	request, _ := (&Witness{Kind: w.Kind, Object: object}).request()
	if w.Kind == presets.VirtualMachineInstance {
		return validation.NewVirtualMachineInstance(request.Object)
	}
	return validation.NewVirtualMachine(request.Object)
}

// partAt returns the part that sets a path of a VM, or fields above or beneath it.
func (m *member) partAt(path provenance.Path) *part {
	for inList := false; len(path) > 0; path = path[:len(path)-1] {
		if at := m.partNear(path, inList); at != nil {
			return at
		}
		inList = path[len(path)-1].Kind == provenance.Element
	}
	return nil
}

// partNear returns the part that sets a path, or fields above or beneath it. In a list, it prefers
// an element with a computed key: no other has the key that was looked for.
func (m *member) partNear(path provenance.Path, inList bool) (at *part) {
	text := path.String()
	for _, p := range m.parts {
		if p.Role.IsRule() || !beneath(p.path, text) && !beneath(text, p.path) {
			continue
		}
		if at == nil || inList && isComputed(p.Path, len(path)) && !isComputed(at.Path, len(path)) {
			at = p
		}
	}
	return at
}

// isComputed reports whether segment i is an element whose key is computed.
func isComputed(p provenance.Path, i int) bool { return len(p) > i && presets.HasComputedKey(p[i]) }

func (m *member) has(path provenance.Path) bool {
	text := path.String()
	return slices.ContainsFunc(m.parts, func(p *part) bool { return beneath(p.path, text) })
}
