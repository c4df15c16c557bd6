package validation

import (
	"fmt"
	"iter"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtwright/virtwright/presets"
)

const (
	// MaxProblems is how many problems a refusal lists.
	MaxProblems = 64
	// maxShown is how many bytes of a wrong value are shown.
	maxShown = 128
	// maxPerRule is how many problems of a rule are told apart; more are counted.
	maxPerRule = 1000
	// maxSuggestions is how many problems of a rule suggest another name.
	maxSuggestions = 8
	// maxCandidates is among how many names a suggestion is sought.
	maxCandidates = 128
)

// A Report collects what one rule finds wrong.
type Report struct {
	rule        *Rule
	problems    []problem
	reported    int // of this rule
	more        int // that are only counted
	warnings    []string
	suggestions int
	// instance runs the rules about what runs on another machine.
	instance func(m *Machine) []problem
}

// A problem is one finding of a rule.
type problem struct {
	rule *Rule
	err  *field.Error
	// reach is at least the rule's.
	reach Reach
}

// Add reports a problem. Its detail should say what would be right.
func (r *Report) Add(err *field.Error) { r.addAs(AsKubeVirt, err) }

// addAs reports a problem of a rule that goes further than the rule as a whole.
func (r *Report) addAs(reach Reach, err *field.Error) {
	if r.reported++; r.reported > maxPerRule {
		r.more++
		return
	}
	if text, ok := err.BadValue.(string); ok {
		err.BadValue = shorten(text)
	}
	// The name of the rule leads to its description; reports end with it.
	if err.Detail != "" {
		err.Detail += " "
	}
	err.Detail += "(" + r.rule.ID + ")"
	r.problems = append(r.problems, problem{rule: r.rule, err: err, reach: max(reach, r.rule.Reach)})
}

// Warn says something that does not refuse.
func (r *Report) Warn(format string, args ...any) {
	r.warnings = append(r.warnings, fmt.Sprintf(format, args...)+" ("+r.rule.ID+")")
}

// Suggest is `; did you mean "disk0"?` for a name that is near one of the
// candidates, and empty otherwise.
func (r *Report) Suggest(name string, candidates iter.Seq[string]) string {
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
	if found := presets.Nearest(name, few); found != "" {
		return fmt.Sprintf("; did you mean %q?", found)
	}
	return ""
}

func shorten(text string) string { return presets.Cut(text, maxShown) }
