package simulate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/fleet"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/presets/vmschema"
)

func (r *CaseResult) compareRejection(problems []Problem) {
	texts := make([]string, 0, len(problems))
	for _, p := range problems {
		texts = append(texts, p.String())
	}
	if r.Case.Expect.Rejected == nil {
		r.Problems = texts
		return
	}
	for _, missing := range missingTexts(texts, r.Case.Expect.Rejected) {
		r.Texts = append(r.Texts, fmt.Sprintf("no problem contains %q; the problems are:", missing))
		r.Texts = append(r.Texts, texts...)
	}
}

// compareUnstarted compares the rejection of the VMI of an admitted VM.
func (c *Cluster) compareUnstarted(ctx context.Context, m VM, v *Verdict, r *CaseResult) error {
	if len(v.unstarted) > 0 {
		r.compareRejection(v.unstarted)
		return nil
	}
	_, err := c.launch(ctx, m, v.stored)
	if rejection, rejected := errors.AsType[*presets.Rejection](err); rejected {
		r.compareRejection(problemsOf(rejection.Problems))
		return nil
	}
	if err != nil {
		return m.rejection(err)
	}
	r.Texts = append(r.Texts, "expected a rejection, but the VM is admitted")
	return nil
}

func (r *CaseResult) compareWarnings(warnings []string) {
	expected := r.Case.Expect.Warnings
	if expected == nil {
		return
	}
	for _, missing := range missingTexts(warnings, expected) {
		r.Texts = append(r.Texts, fmt.Sprintf("no warning contains %q", missing))
	}
	for _, w := range warnings {
		if !slices.ContainsFunc(expected, func(part string) bool { return strings.Contains(w, part) }) {
			r.Texts = append(r.Texts, "unexpected warning: "+w)
		}
	}
}

func missingTexts(texts, parts []string) []string {
	return slices.DeleteFunc(slices.Clone(parts), func(part string) bool {
		return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(text, part) })
	})
}

func (c *Cluster) compare(ctx context.Context, m VM, v *Verdict, r *CaseResult) error {
	e := r.Case.Expect
	if r.Case.Reapply {
		m.withoutReapply(v.object)
	}
	r.Stored = fleet.WithoutRecord(c.asSent(m, v.object))
	differ := append(fleet.Mismatches(m.Kind, e.VM, r.Stored), unexpected(m.Kind, e.Absent, r.Stored)...)
	if e.Golden != "" {
		more, err := r.compareGolden(m.Kind)
		if err != nil {
			return err
		}
		differ = append(differ, more...)
	}
	if len(differ) > 0 {
		x, err := c.explainCase(ctx, m, v)
		if err != nil {
			return err
		}
		r.Fields = c.explained(differ, x, v1alpha1.ApplyAtDefinition)
	}
	if e.VMI == nil {
		return nil
	}
	return c.compareLaunched(ctx, m, v, r)
}

// explainCase explains an updated VM from its record.
func (c *Cluster) explainCase(ctx context.Context, m VM, v *Verdict) (*presets.Explanation, error) {
	if m.old == nil {
		return c.Explain(ctx, m)
	}
	request := c.request(ctx, m)
	request.Object, request.OldObject = v.stored, nil
	x, err := presets.ExplainStored(request)
	if err != nil {
		return nil, m.rejection(err)
	}
	return x, nil
}

func unexpected(kind presets.Kind, absent []string, stored map[string]any) []fleet.Mismatch {
	var out []fleet.Mismatch
	for _, text := range absent {
		path, _ := presets.ParsePath(text) // validated before
		if is := presets.ValueAt(kind, stored, path); is != nil {
			out = append(out, fleet.Mismatch{Path: path, Actual: is})
		}
	}
	return out
}

func (r *CaseResult) compareGolden(kind presets.Kind) ([]fleet.Mismatch, error) {
	golden, err := r.Suite.golden(r.Case.Expect.Golden)
	if err != nil {
		return nil, err
	}
	if golden == nil {
		r.Outdated = true
		if !r.update {
			r.Texts = append(r.Texts, fmt.Sprintf("golden file %s does not exist: write it with --update", r.GoldenFile()))
		}
		return nil, nil
	}
	differ := fleet.MismatchesExactly(kind, golden, r.Stored)
	if was, is := golden["kind"], r.Stored["kind"]; was != is {
		differ = append(differ, fleet.Mismatch{Path: provenance.Of("kind"), Expected: was, Actual: is})
	}
	if r.Outdated = len(differ) > 0; r.update {
		return nil, nil
	}
	return differ, nil
}

// GoldenFile returns the path of the golden file.
func (r *CaseResult) GoldenFile() string { return r.Suite.path(r.Case.Expect.Golden) }

func (c *Cluster) compareLaunched(ctx context.Context, m VM, v *Verdict, r *CaseResult) error {
	raw, err := c.launch(ctx, m, v.stored)
	problems := v.unstarted
	if rejection, rejected := errors.AsType[*presets.Rejection](err); rejected {
		problems, err = problemsOf(rejection.Problems), nil
	}
	for _, p := range problems {
		r.Problems = append(r.Problems, couldNotStart+p.String())
	}
	if len(problems) > 0 {
		return nil
	}
	if err != nil {
		return m.rejection(err)
	}
	vmi, err := m.decode(raw)
	if err != nil {
		return err
	}
	differ := fleet.Mismatches(presets.VirtualMachineInstance, r.Case.Expect.VMI, vmi)
	if len(differ) == 0 {
		return nil
	}
	x, err := c.explainLaunched(ctx, m, v.stored)
	if err != nil {
		return m.rejection(err)
	}
	r.Fields = append(r.Fields, c.explained(differ, x, v1alpha1.ApplyAtLaunch)...)
	return nil
}

func (c *Cluster) explainLaunched(ctx context.Context, m VM, stored []byte) (*presets.Explanation, error) {
	if m.Kind == presets.VirtualMachineInstance {
		return c.Explain(ctx, m)
	}
	return c.settings.Engine.ExplainLaunch(ctx, c.snapshot, presets.Request{Kind: m.Kind, Object: stored, Namespace: c.namespace(m.Namespace)})
}

// explained adds the origin, and why presets with the expected value were not applied.
func (c *Cluster) explained(differ []fleet.Mismatch, x *presets.Explanation, at v1alpha1.ApplyAt) []FieldResult {
	out := make([]FieldResult, 0, len(differ))
	for _, d := range differ {
		f := FieldResult{Mismatch: d, VMI: at == v1alpha1.ApplyAtLaunch}
		for _, o := range x.Fields {
			removed := o.Value == nil && d.Path.HasPrefix(o.Path)
			if (removed || o.Path.HasPrefix(d.Path)) && f.Origin == nil {
				f.Origin = &o
			}
		}
		for _, v := range x.Presets {
			p, known := c.snapshot.Lookup(v.Namespace, v.Preset)
			acted := v.Counts != nil
			if known && !acted && (p.ApplyAt == at || at == v1alpha1.ApplyAtDefinition) && d.Expected != nil {
				if does := gives(p, d); does != "" {
					f.Reasons = append(f.Reasons, fmt.Sprintf("preset %s %s, but was not applied: %s", v.Preset, does, v.Reason))
				}
			}
		}
		out = append(out, f)
	}
	return out
}

// gives says how a preset may give an expected value; empty if it does not.
func gives(p *presets.Compiled, d fleet.Mismatch) string {
	for _, part := range p.Actions() {
		switch {
		case part.Role == provenance.Forbid || part.Role == provenance.Remove || !part.Path.HasPrefix(d.Path) && !d.Path.HasPrefix(part.Path):
		case part.Computed:
			return "computes this value"
		case len(part.Path) > len(d.Path):
			return "sets parts of it"
		case vmschema.SameValue(d.Path, part.Value, d.Expected):
			return "has this value"
		}
	}
	return ""
}
