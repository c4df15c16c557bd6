package presets

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtwright/virtwright/presets/tree"
)

// A Problem is one reason why an object is rejected. People read its text; programs read its other
// fields, because texts are reworded and may quote the object.
type Problem struct {
	// Field is a path in the version of the request; empty for the whole object.
	Field   string `json:"field"`
	Message string `json:"message"`
	// Type is empty if the problem was not a field.Error.
	Type field.ErrorType `json:"-"`
	// Value is the rejected value as text, at most as long as messages show it.
	Value string `json:"-"`
	// Origin is that of the field.Error: [RuleOrigin], or one of the constants below.
	Origin string `json:"-"`
	// SetBy is the Ref of the preset that set the value; empty if none did.
	SetBy string `json:"-"`
}

const (
	// originRule begins the ID of a rule of validation or protection.
	originRule = "rule/"
	// originPresetRule begins the Ref of the preset whose forbid or require is broken.
	originPresetRule = "preset-rule/"
	// originPresets begins the Refs, separated by spaces, of presets that contradict each other,
	// that cannot be evaluated, or whose values are missing.
	originPresets = "presets/"
	// OriginUnknownField is that of a field that the object's type does not have.
	OriginUnknownField = "unknown-field"
)

// NewProblem returns the problem that an error describes.
func NewProblem(e *field.Error) Problem {
	return Problem{
		Field: strings.TrimPrefix(e.Field, "<nil>"), Message: e.ErrorBody(),
		Type: e.Type, Value: tree.Truncate(fmt.Sprint(e.BadValue), maxValue), Origin: e.Origin,
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

// RuleOrigin returns the origin of the problems that a rule of validation or protection finds.
func RuleOrigin(id string) string { return originRule + id }

// Rule returns the ID of the rule of validation or protection that found the problem; empty if none
// did.
func (p Problem) Rule() string {
	if id, ok := strings.CutPrefix(p.Origin, originRule); ok {
		return id
	}
	return ""
}

// Presets returns the Refs of the presets that caused the problem, sorted.
func (p Problem) Presets() []string {
	out := strings.Fields(p.SetBy)
	for _, kind := range []string{originPresetRule, originPresets} {
		if refs, ok := strings.CutPrefix(p.Origin, kind); ok {
			out = append(out, strings.Fields(refs)...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// IsUnknownField reports whether the name of the field is wrong, and not its value.
func (p Problem) IsUnknownField() bool { return p.Origin == OriginUnknownField }

// SameReason reports whether two problems differ in hints only. Hints depend on existing presets.
func (p Problem) SameReason(o Problem) bool {
	if p.Field != o.Field || p.Type != o.Type || p.Origin != o.Origin {
		return false
	}
	if p.Origin == "" || strings.HasPrefix(p.Origin, originPresets) {
		return p.Message == o.Message
	}
	return p.Value == o.Value
}

// StrictProblem returns the field of an error of a strict decoder, and its defect: "unknown field"
// or "duplicate field".
func StrictProblem(strict error) (path, reason string) {
	reason, path, _ = strings.Cut(strict.Error(), ` "`)
	return strings.TrimSuffix(path, `"`), reason
}

// UnknownFieldIn returns the unknown field that an error of a strict decoder is about; ok is false
// if it is about something else.
func UnknownFieldIn(strict error) (path string, ok bool) {
	path, reason := StrictProblem(strict)
	return path, reason == "unknown field"
}
