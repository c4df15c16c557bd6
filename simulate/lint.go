package simulate

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/domain"
	"github.com/virtwright/virtwright/fleet"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/simulate/manifest"
	"github.com/virtwright/virtwright/validation"
	"github.com/virtwright/virtwright/webhooks"
)

// A LintFinding is a finding with the position of its preset.
type LintFinding struct {
	fleet.Finding
	Where manifest.Position
}

// A LintReport is the result of Lint.
type LintReport struct {
	Findings []LintFinding
	Presets  int
	// Incomplete is true if there are too many pairs of presets to check all.
	Incomplete bool
	// Notes name ignored objects.
	Notes []string
}

// Lint checks the presets among objects, each one alone and all together.
func Lint(ctx context.Context, objects []manifest.Object, settings Settings) (*LintReport, error) {
	entries, left, unsorted := sorted(objects, rejectLone)
	l := &linter{ctx: ctx, settings: settings, seen: map[presets.PresetName]manifest.Position{}}
	var known []presets.Namespace
	vms := map[string][]string{}
	for _, e := range entries {
		switch e.role {
		case exception:
			if err := l.exception(e); err != nil {
				return nil, err
			}
		case vmOrVMI:
			l.hasVMs = true
			e.addLabels(vms)
		case preset:
			if err := l.preset(e); err != nil {
				return nil, err
			}
		case namespace:
			known = append(known, presets.Namespace{Name: e.meta.Name, Labels: e.meta.Labels, Annotations: e.meta.Annotations})
		}
	}
	together, complete := fleet.Analyze(ctx, l.compiled, fleet.Settings{
		Namespaces: known, VMLabels: vms, Exceptions: l.exceptions, Now: time.Now(), Rules: settings.Rules, Render: render(settings.Rules),
	})
	for _, f := range together {
		if !slices.ContainsFunc(l.found, func(k LintFinding) bool { return f.Repeats(&k.Finding) }) {
			l.found = append(l.found, LintFinding{f, l.seen[f.Preset]})
		}
	}
	l.rejectedVMs(objects)
	out := &LintReport{Findings: l.found, Presets: l.count, Incomplete: !complete}
	for _, leftover := range left {
		out.Notes = append(out.Notes, leftover.String())
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return out, unsorted
}

// render returns a function that renders the domain of a VMI as the validating webhook does; nil
// alongside KubeVirt, where KubeVirt renders it.
func render(rules *validation.Config) func(*kubevirtv1.VirtualMachineInstance) field.ErrorList {
	if rules.Addon {
		return nil
	}
	profiles, _ := domain.CompileProfiles(nil, nil) // none is invalid
	return func(vmi *kubevirtv1.VirtualMachineInstance) field.ErrorList {
		return append(profiles.Check(vmi, nil), domain.CheckPod(vmi)...)
	}
}

// rejectedVMs adds the problems of the VMs among the objects, unless an error of a preset may be
// their cause. It ignores objects that cannot be read, which lint reports itself.
func (l *linter) rejectedVMs(objects []manifest.Object) {
	isError := func(f LintFinding) bool { return f.Severity == fleet.Error }
	if l.count == 0 || !l.hasVMs || slices.ContainsFunc(l.found, isError) {
		return
	}
	report, err := Review(l.ctx, objects, l.settings)
	if err != nil {
		return
	}
	for _, v := range report.Verdicts {
		if v.Kind != string(presets.VirtualMachine) && v.Kind != string(presets.VirtualMachineInstance) {
			continue
		}
		for _, p := range v.Problems {
			check := fleet.RejectedVM
			if v.lacksValue(p) {
				check = fleet.IncompleteVM
			}
			if !l.rejectedBy(check, &v, p) {
				l.found = append(l.found, LintFinding{fleet.Finding{
					Check: check, Preset: presets.PresetName{Namespace: v.Namespace, Ref: "vm/" + v.Name}, Field: p.Field, Message: p.Message,
				}, v.Where})
			}
		}
	}
}

// rejectedBy reports a problem of a VM at the preset that sets the value, unless the field has a
// finding. It returns whether there is such a preset.
func (l *linter) rejectedBy(check *fleet.Check, v *Verdict, p Problem) bool {
	ref, path := presets.SetBy(presets.Kind(v.Kind), v.object, p.Field)
	i := slices.IndexFunc(l.compiled, func(c *presets.Compiled) bool { return c.Ref == ref && (c.Cluster() || c.Namespace == v.Namespace) })
	if i < 0 {
		return false
	}
	of := l.compiled[i]
	for _, action := range of.Actions() {
		if action.Role.IsRule() || !path.HasPrefix(action.Path) {
			continue
		}
		f := fleet.Finding{
			Check: check, Preset: of.Name(), Field: action.Field,
			Message: fmt.Sprintf("%s is rejected: %s: %s", v, p.Field, p.Message),
		}
		known := func(k LintFinding) bool { return k.Preset == f.Preset && k.Field == f.Field }
		if !slices.ContainsFunc(l.found, known) {
			l.found = append(l.found, LintFinding{f, l.seen[of.Name()]})
		}
		return true
	}
	return false
}

type linter struct {
	ctx        context.Context
	settings   Settings
	seen       map[presets.PresetName]manifest.Position
	compiled   []*presets.Compiled
	exceptions []*presets.Exception
	found      []LintFinding
	count      int
	hasVMs     bool
}

func (l *linter) exception(e *entry) error {
	if err := e.place(l.settings.Namespace); err != nil {
		return err
	}
	compiled, problems := compileException(l.ctx, e)
	problems = append(e.metadataProblems(), problems...)
	name := presets.PresetName{Namespace: e.meta.Namespace, Ref: "exception/" + e.meta.Name}
	if first, again := l.seen[name]; again && len(problems) == 0 {
		problems, compiled = []Problem{duplicateName(e.meta.Name, first)}, nil
	}
	for _, p := range problems {
		f := invalid(p)
		f.Preset = name
		l.found = append(l.found, LintFinding{f, e.Where})
	}
	if compiled != nil {
		l.seen[name] = e.Where
		l.exceptions = append(l.exceptions, compiled)
	}
	return nil
}

// addLabels adds the labels of a VM and of its template, by key.
func (e *entry) addLabels(to map[string][]string) {
	var vm kubevirtv1.VirtualMachine
	_ = json.Unmarshal(e.JSON, &vm) // labels of a VM with mistakes elsewhere count
	add := func(set map[string]string) {
		for key, value := range set {
			to[key] = append(to[key], value)
		}
	}
	add(e.meta.Labels)
	if vm.Spec.Template != nil {
		add(vm.Spec.Template.ObjectMeta.Labels)
	}
}

func (l *linter) preset(e *entry) error {
	l.count++
	given := e.meta.Namespace
	if err := e.place(l.settings.Namespace); err != nil {
		return err
	}
	name := e.presetName()
	report := func(f fleet.Finding) {
		f.Preset = name
		l.found = append(l.found, LintFinding{f, e.Where})
	}
	var object v1alpha1.Preset
	var compiled *presets.Compiled
	problems := e.metadataProblems()
	first, again := l.seen[name]
	switch {
	case len(problems) == 0 && again:
		problems = []Problem{duplicateName(e.meta.Name, first)}
	case e.read:
		var others []Problem
		object, compiled, others = l.compile(e)
		problems = append(problems, others...)
	}
	for _, p := range problems {
		report(invalid(p))
	}
	if len(problems) > 0 {
		return nil
	}
	l.seen[name] = e.Where
	object.SetNamespace(cmp.Or(given, object.GetNamespace())) // place removes that of a cluster preset
	for _, f := range fleet.CheckPreset(l.settings.Rules, object, compiled) {
		report(f)
	}
	l.compiled = append(l.compiled, compiled)
	return nil
}

// compile asks the webhook first, so that the messages equal those of a cluster.
func (l *linter) compile(e *entry) (v1alpha1.Preset, *presets.Compiled, []Problem) {
	if answer := (webhooks.Preset{Kind: e.Kind}).Handle(l.ctx, creation(e)); !answer.Allowed {
		return nil, nil, answer.Problems
	}
	return compilePreset(e)
}

func invalid(p Problem) fleet.Finding {
	f := fleet.Finding{Check: fleet.InvalidPreset, Field: p.Field, Message: p.Message}
	if p.IsUnknownField() {
		f.Check, f.OnKey = fleet.UnknownField, true
	}
	return f
}
