package offline

import (
	"context"
	"strings"

	kjson "sigs.k8s.io/json"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/cmd/virtwright/internal/manifest"
	"github.com/virtwright/virtwright/fleet"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/webhooks"
)

// A LintFinding is a finding, and where its preset stands.
type LintFinding struct {
	fleet.Finding
	Where manifest.Position
}

// A LintReport is what is wrong with presets.
type LintReport struct {
	Findings []LintFinding
	Presets  int
	// Incomplete says that there were too many pairs of presets to try all.
	Incomplete bool
}

// Lint reports what is wrong with the presets among objects, each by itself and together.
func Lint(ctx context.Context, objects []manifest.Object, settings Settings) (*LintReport, error) {
	entries, _, err := sorted(objects, true)
	if err != nil {
		return nil, err
	}
	l := &linter{ctx: ctx, settings: settings, seen: map[presets.PresetName]manifest.Position{}}
	var known []presets.Namespace
	for _, e := range entries {
		switch e.role {
		case preset:
			if err := l.preset(e); err != nil {
				return nil, err
			}
		case namespace:
			known = append(known, presets.Namespace{Name: e.meta.Name, Labels: e.meta.Labels, Annotations: e.meta.Annotations})
		}
	}
	together, complete := fleet.Analyze(ctx, l.compiled, known...)
	for _, f := range together {
		l.found = append(l.found, LintFinding{f, l.seen[f.Preset]})
	}
	return &LintReport{l.found, l.count, !complete}, ctx.Err()
}

// A linter lints presets one after the other.
type linter struct {
	ctx      context.Context
	settings Settings
	seen     map[presets.PresetName]manifest.Position
	compiled []*presets.Compiled
	found    []LintFinding
	count    int
}

func (l *linter) preset(e *entry) error {
	l.count++
	if err := e.place(l.settings.Namespace); err != nil {
		return err
	}
	name := e.presetName()
	report := func(f fleet.Finding) {
		f.Preset = name
		l.found = append(l.found, LintFinding{f, e.Where})
	}
	first, again := l.seen[name]
	switch {
	case e.meta.Name == "":
		report(invalid(problemsOf(nameless)[0]))
		return nil
	case again:
		report(invalid(existsAlready(first)))
		return nil
	}
	l.seen[name] = e.Where
	var problems []Problem
	var object v1alpha1.Preset
	var compiled *presets.Compiled
	if answer := (webhooks.Preset{Kind: e.Kind}).Handle(l.ctx, creation(e)); answer.Allowed {
		object, compiled, problems = compilePreset(e)
	} else {
		problems = answered(answer.Result)
	}
	for _, p := range problems {
		report(invalid(p))
	}
	if len(problems) > 0 {
		return nil
	}
	for _, f := range fleet.CheckPreset(l.settings.Rules, object, compiled) {
		report(f)
	}
	l.compiled = append(l.compiled, compiled)
	return nil
}

// invalid is the finding for a problem for which a cluster rejects a preset.
func invalid(p Problem) fleet.Finding {
	f := fleet.Finding{Check: fleet.InvalidPreset, Field: p.Field, Message: p.Message}
	if strings.Contains(p.Message, "unknown field") && !strings.Contains(p.Message, "path does not exist") {
		f.Check, f.OnKey = fleet.UnknownField, true
	}
	return f
}

// compilePreset compiles a preset that the validating webhook allowed.
func compilePreset(e *entry) (v1alpha1.Preset, *presets.Compiled, []Problem) {
	var object v1alpha1.Preset = &v1alpha1.VirtualMachinePreset{}
	if e.Kind == v1alpha1.KindClusterVirtualMachinePreset {
		object = &v1alpha1.ClusterVirtualMachinePreset{}
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(e.JSON, object); err != nil {
		return nil, nil, []Problem{{Message: err.Error()}}
	}
	compiled, problems := presets.Compile(object)
	return object, compiled, problemsOf(problems)
}
