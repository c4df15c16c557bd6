package originreport

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/presets/tree"
)

// maxValue is the number of characters of a value in a note.
const maxValue = 200

// describe returns a line for a field.
func (vm VM) describe(o presets.Origin, text string) Line {
	source := SourceOf(o, vm.Damaged)
	l := Line{Text: text, Path: o.Path.String(), From: source.From, By: source.String(), Class: source.Class()}
	if l.AtStart() {
		l.Notes = append(l.Notes, l.By+" sets this field when the VM starts. The stored VM does not have it.")
	}
	if o.Overruled {
		l.Notes = append(l.Notes, fmt.Sprintf("The user wrote %s. %s", value(o.Was), overruling(o)))
	}
	for _, losing := range o.Losing {
		loser := RecordedSource(losing.By).phrase()
		what := value(losing.Value)
		if losing.Path != nil {
			what = fmt.Sprintf("%s to %s", losing.Path, what)
		}
		l.Notes = append(l.Notes, fmt.Sprintf("%s would set %s%s.", capital(loser), what, vm.whyLost(o, losing)))
	}
	l.Lost = lost(o)
	if o.Computed != "" {
		l.Notes = append(l.Notes, "Computed by the expression "+o.Computed)
	}
	return l
}

// lost returns the strongest other value that a field overruled: the user's, or else the first that
// lost.
func lost(o presets.Origin) string {
	const longest = 24
	var was any
	switch {
	case o.Overruled:
		was = o.Was
	case len(o.Losing) > 0 && o.Losing[0].Path == nil && !o.Losing[0].Excluded:
		was = o.Losing[0].Value
	}
	if was == nil || tree.Format(was) == tree.Format(o.Value) {
		return ""
	}
	if text := strings.Trim(tree.Format(was), `"`); len(text) <= longest {
		return text
	}
	return ""
}

func overruling(o presets.Origin) string {
	switch {
	case o.By.Role == provenance.Remove:
		return "The preset removes this field."
	case o.Value == nil:
		return "The preset sets an alternative to this field."
	}
	return "An override outranks the user."
}

func (vm VM) whyLost(o presets.Origin, losing presets.LosingValue) string {
	if losing.Excluded {
		return fmt.Sprintf(", but the annotation %s excludes it", v1alpha1.AnnotationExclude)
	}
	path := o.Path.String()
	for _, s := range vm.Explanation.Skipped {
		if s.Preset == losing.By.Preset && slices.Contains(s.Paths, path) {
			return ": " + s.Reason
		}
	}
	switch role := o.By.Role; {
	case o.User, o.By == provenance.Source{}:
		return ", but the user's value outranks a default"
	case role == provenance.Platform:
		return ""
	case role.OutranksUser() && !losing.By.Role.OutranksUser():
		return fmt.Sprintf(", but %s of preset %s outranks a default", article(role), o.By.Preset)
	}
	return fmt.Sprintf(", but preset %s has precedence", o.By.Preset)
}

func article(role provenance.Role) string {
	if role == provenance.Override {
		return "an override"
	}
	return "the list of removed fields"
}

// value formats a value for a sentence.
func value(v any) string {
	if v == nil {
		return "a value too large to be kept"
	}
	return tree.Truncate(tree.Format(v), maxValue)
}

func capital(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

// insert adds a line for a field that the YAML does not have, at the place of the field.
func (w *walk) insert(o presets.Origin) {
	b := w.nearest(o.Path)
	if b == nil || o.By == (provenance.Source{}) && o.ContributedBy.Name == "" {
		return
	}
	shown := o.Value
	if shown == nil {
		shown = o.Was
	}
	text := strings.Repeat(" ", b.indent) + inline(o.Path[len(b.path):], shown)
	after := w.placeOf(b, o.Path[len(b.path)].Name)
	l := w.vm.describe(o, text)
	if l.Removed = !l.AtStart(); l.Removed {
		l.Class = ClassLost
	}
	w.extra[after] = append(w.extra[after], entry{Line: l, path: o.Path})
}

// nearest returns the innermost object that has a place for a field.
func (w *walk) nearest(p provenance.Path) *block {
	var found *block
	for _, b := range w.blocks {
		fits := len(p) > len(b.path) && p.HasPrefix(b.path) && p[len(b.path)].Kind == provenance.Field
		if fits && (found == nil || len(b.path) > len(found.path)) {
			found = b
		}
	}
	return found
}

// placeOf returns the line after which a field is inserted, in the order of names.
func (w *walk) placeOf(b *block, name string) int {
	for i, f := range b.fields {
		if f.name > name && (i > 0 || !b.inElement) {
			return f.start - 1
		}
	}
	last := b.last
	for last+1 < len(w.at) && !w.at[last+1].marked && w.at[last+1].leaf {
		last++
	}
	return last
}

// inline formats a field in one line.
func inline(p provenance.Path, v any) string {
	name := p.String()
	if len(p) == 1 {
		name = p[0].Name
	}
	if v == nil {
		return name
	}
	if out, err := yaml.Marshal(map[string]any{name: v}); err == nil && bytes.Count(out, []byte("\n")) == 1 {
		return strings.TrimSuffix(string(out), "\n")
	}
	return name + ": " + tree.Format(v)
}
