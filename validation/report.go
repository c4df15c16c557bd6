package validation

import (
	"fmt"
	"iter"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/spelling"
	"github.com/virtwright/virtwright/presets/tree"
)

const (
	// maxProblems is the maximum number of errors and of warnings of a [Result].
	maxProblems = 64
	// maxShown is the maximum number of bytes of a wrong value in a message.
	maxShown = 128
	// maxPerRule is the maximum number of problems stored per rule; more are only counted.
	maxPerRule = 1000
	// maxSuggestions is the maximum number of problems per rule that suggest another name.
	maxSuggestions = 8
	// maxCandidates is the maximum number of names that are compared for a suggestion.
	maxCandidates = 128
)

// A Report collects the problems of all rules.
type Report struct {
	rule        *Rule
	problems    []problem
	reported    int // by the current rule
	more        int // not stored, only counted
	warnings    []string
	suggestions int
	// runVMIRules validates another object with the rules of scope VMISpecs.
	runVMIRules func(vm *ExpandedVM) []problem
}

// A problem is one finding of a rule.
type problem struct {
	rule *Rule
	err  *field.Error
	// strictness is at least that of the rule.
	strictness Strictness
}

// Add reports a problem. Its detail states the allowed values.
func (r *Report) Add(err *field.Error) { r.addStricter(SameAsKubeVirt, err) }

// addStricter reports a problem with a higher strictness than that of its rule.
func (r *Report) addStricter(reach Strictness, err *field.Error) {
	if r.reported++; r.reported > maxPerRule {
		r.more++
		return
	}
	if text, ok := err.BadValue.(string); ok {
		err.BadValue = shorten(text)
	}
	// Every message ends with the ID of its rule, which docs/rules.md explains.
	if err.Detail != "" {
		err.Detail += " "
	}
	err.Detail += "(" + r.rule.ID + ")"
	err.Origin = presets.RuleOrigin(r.rule.ID)
	r.problems = append(r.problems, problem{rule: r.rule, err: err, strictness: max(reach, r.rule.Strictness)})
}

// exactlyOne reports that a number of fields is not one.
func (r *Report) exactlyOne(at func() *field.Path, fields int, none, several string) {
	switch {
	case fields == 0:
		r.Add(field.Required(at(), none))
	case fields > 1:
		r.Add(field.Forbidden(at(), several))
	}
}

// addDisabled reports a field that the feature gate of the rule must allow.
func (r *Report) addDisabled(at *field.Path) { r.Add(disabled(at, r.rule.Gate)) }

// disabled returns the error of a field that requires a feature gate.
func disabled(at *field.Path, gate Gate) *field.Error {
	return field.Forbidden(at, "must be left out: the feature gate "+string(gate)+" is not enabled")
}

// Warn adds a warning, which never rejects the object.
func (r *Report) Warn(format string, args ...any) {
	r.warnings = append(r.warnings, fmt.Sprintf(format, args...)+" ("+r.rule.ID+")")
}

// suggest returns `; did you mean "disk0"?` for the candidate that is most similar to name, or "".
func (r *Report) suggest(name string, candidates iter.Seq[string]) string {
	if r.suggestions++; r.suggestions > maxSuggestions || len(name) > maxShown {
		return ""
	}
	count := 0
	few := func(yield func(string) bool) {
		for c := range candidates {
			if count++; count > maxCandidates || len(c) <= maxShown && !yield(c) {
				return
			}
		}
	}
	return spelling.DidYouMean(name, few)
}

func shorten(text string) string { return tree.Truncate(text, maxShown) }
