package presets

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/presets/tree"
	"github.com/virtwright/virtwright/presets/vmschema"
)

func (e *Engine) result(x *expansion) (*Result, error) {
	r := x.mergeState
	r.record.Snapshot = x.snapshot.Hash()
	r.suggestions = append(x.snapshot.labelTypos(x.query, nil), x.snapshot.idleExclusions(x.query, nil)...)
	if err := r.annotate(); err != nil {
		return nil, err
	}
	out := &Result{Record: r.record, Matched: x.match.presets, OverBudget: x.match.overBudget, Conflicts: r.conflicts, state: r}
	would := x.preview(e.Platform)
	out.Previews = would.would
	effects := r.effects()
	out.Warnings = limitWarnings(r.warnings(effects, x.match, would))
	out.Audit = audit(effects, would)
	return out, nil
}

func (r *mergeState) annotate() error {
	if r.record.Empty() {
		return nil
	}
	path := provenanceOn(r.kind())
	at := r.holderOf(path)
	at.ensure()
	if n := r.record.At(vmschema.Template); n != nil && r.sentVMI != nil {
		n.EmptyByUser = false // it exists only in VM form
	}
	for _, n := range r.record.Decided() {
		if int(n.Source) < r.inheritedSources { // the answer must not hold values of the stored VM
			n.Overruled, n.TooLarge, n.UserValue = false, false, nil
		}
	}
	text, err := r.record.Encode()
	if err != nil {
		at := field.NewPath("metadata", "annotations").Key(v1alpha1.AnnotationProvenance)
		return r.rejection(field.ErrorList{field.Forbidden(at, err.Error())})
	}
	at.set(path[len(path)-1].Name, text)
	return nil
}

func (r *mergeState) holderOf(p provenance.Path) *cursor {
	at := r.cursor(nil)
	for _, seg := range p[:len(p)-1] {
		at = at.child(seg.Name)
	}
	return at
}

type previews struct {
	warn, audit []string
	would       []Preview
}

// preview reports the changes of a copy to which all matching presets were applied.
func (x *expansion) preview(platform *Platform) *previews {
	out := &previews{}
	if len(x.notEnforced) == 0 || x.original == nil {
		return out
	}
	shadow := &mergeState{root: x.original, sentVMI: x.sentVMI, record: provenance.New(), findInstancetype: x.findInstancetype, platform: platform}
	if _, err := shadow.adoptOwner(x.req.Owner); err != nil {
		return out
	}
	shadow.applyPresets(x.snapshot, x.query, x.match.presets)
	shadow.applyPlatform(platform)
	shadow.compactLists()
	for _, c := range x.notEnforced {
		lines := x.wouldChange(shadow, c)
		changes, violations := len(lines) > 0, shadow.violations([]*Compiled{c})
		for _, v := range violations {
			lines = append(lines, "would reject "+v.path.String()+reason(v.rule.message))
		}
		if len(lines) > 0 {
			out.would = append(out.would, Preview{Preset: c, Changes: changes, Rejects: len(violations) > 0})
		}
		for _, line := range lines {
			if c.Mode == v1alpha1.ModeWarn {
				out.warn = append(out.warn, "preset "+c.Ref+" (mode Warn) "+line)
			}
			out.audit = append(out.audit, fmt.Sprintf("%s@%d %s", c.Ref, c.Generation, line))
		}
	}
	return out
}

func reason(message string) string {
	if message == "" {
		return ""
	}
	return ": " + message
}

func (r *mergeState) wouldChange(shadow *mergeState, c *Compiled) []string {
	var set, removed []string
	for p, n := range shadow.record.Decided() {
		if shadow.sourcePresets[n.Source] != c {
			continue
		}
		is, would := vmschema.Value(r.root, p), vmschema.Value(shadow.root, p)
		switch {
		case tree.Equal(is, would):
		case would == nil:
			removed = append(removed, p.String())
		default:
			set = append(set, p.String()+"="+tree.Show(would))
		}
	}
	var lines []string
	if len(set) > 0 {
		lines = append(lines, listing("would set", tallyOf(set)))
	}
	if len(removed) > 0 {
		lines = append(lines, listing("would remove", tallyOf(removed)))
	}
	return lines
}
