package presets

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A Problem is one reason why an object is rejected. People read its text; programs read its other
// fields, because texts are reworded and may quote the object.
type Problem struct {
	// Field is a path in the version of the request; empty for the whole object.
	Field   string `json:"field"`
	Message string `json:"message"`
	// Type is empty if Field is.
	Type field.ErrorType `json:"-"`
	// Value is the rejected value as text, at most as long as messages show it.
	Value string `json:"-"`
	// Origin is that of the field.Error: the ID of a rule of validation, or one of the constants
	// below.
	Origin string `json:"-"`
	// SetBy is the Ref of the preset that set the value; empty if none did.
	SetBy string `json:"-"`
}

// The origins of problems that no rule of validation finds.
const (
	// originPresets begins the Refs of the presets whose rule is broken or that contradict each
	// other, separated by spaces.
	originPresets = "presets/"
	// OriginUnknownField is that of a field that the object's type does not have.
	OriginUnknownField = "unknown-field"
)

// NewProblem returns the problem that an error describes.
func NewProblem(e *field.Error) Problem {
	return Problem{
		Field: strings.TrimPrefix(e.Field, "<nil>"), Message: e.ErrorBody(),
		Type: e.Type, Value: Truncate(fmt.Sprint(e.BadValue), maxValue), Origin: e.Origin,
	}
}

// ProblemsOf returns the problems that errors describe.
func ProblemsOf(errs field.ErrorList) []Problem {
	out := make([]Problem, 0, len(errs))
	for _, e := range errs {
		out = append(out, NewProblem(e))
	}
	return out
}

// String formats the problem like an API server, with the field in one line.
func (p Problem) String() string {
	return strings.TrimPrefix(EscapeLine(p.Field)+": "+p.Message, ": ")
}

// Rule returns the ID of the rule of validation that found the problem; empty if none did.
func (p Problem) Rule() string {
	if p.IsUnknownField() || strings.HasPrefix(p.Origin, originPresets) {
		return ""
	}
	return p.Origin
}

// Presets returns the Refs of the presets that caused the problem, sorted.
func (p Problem) Presets() []string {
	refs, _ := strings.CutPrefix(p.Origin, originPresets)
	if refs == p.Origin {
		refs = ""
	}
	out := append(strings.Fields(refs), strings.Fields(p.SetBy)...)
	slices.Sort(out)
	return slices.Compact(out)
}

// IsUnknownField reports whether the name of the field is wrong, and not its value.
func (p Problem) IsUnknownField() bool { return p.Origin == OriginUnknownField }

// SameReason reports whether two problems differ in hints only. Hints depend on existing presets.
func (p Problem) SameReason(o Problem) bool {
	if p.Type == "" || o.Type == "" {
		return p.Message == o.Message && p.Field == o.Field
	}
	return p.Field == o.Field && p.Type == o.Type && p.Value == o.Value && p.Origin == o.Origin
}

// UnknownFieldIn returns the field that a strict decoder does not know; ok is false if the error of
// the decoder is about something else, such as a duplicate.
func UnknownFieldIn(strict error) (path string, ok bool) {
	path, ok = strings.CutPrefix(strict.Error(), `unknown field "`)
	return strings.TrimSuffix(path, `"`), ok
}
