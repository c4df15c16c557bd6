package offline

import (
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtwright/virtwright/cmd/virtwright/internal/manifest"
	"github.com/virtwright/virtwright/presets"
)

// A Refusal says why an object would not come into being in a cluster.
type Refusal struct {
	Where manifest.Position
	// Object is its kind and name.
	Object   string
	Problems []Problem
	// Stored says that a cluster has stored the object, and it is a preset or a profile that does
	// not act.
	Stored bool
}

// inactive says that a stored object does not act.
func (r *Refusal) inactive() string {
	return r.brief("is stored in a cluster, but it is invalid and does not act")
}

// leftOut says that an old object is not compared.
func (r *Refusal) leftOut() string { return r.brief("is invalid, and is left out of the old presets") }

func (r *Refusal) brief(what string) string {
	text := fmt.Sprintf("%s: %s %s: %s", r.Where, r.Object, what, r.Problems[0])
	if more := len(r.Problems) - 1; more > 0 {
		text += fmt.Sprintf(" and %d more problems", more)
	}
	return text
}

// Error names the object and lists the problems.
func (r *Refusal) Error() string {
	lines := []string{fmt.Sprintf("%s: %s is refused:", r.Where, r.Object)}
	for _, p := range r.Problems {
		lines = append(lines, p.String())
	}
	return strings.Join(lines, "\n  ")
}

// A Problem is one reason why an object is refused.
type Problem struct {
	// Field is its path, in the version of the object; empty for the whole object.
	Field string `json:"field"`
	// Message says what is wrong and what would be right.
	Message string `json:"message"`
}

// String is the problem as an API server writes it.
func (p Problem) String() string { return strings.TrimPrefix(p.Field+": "+p.Message, ": ") }

// problemsOf are problems with the words of an API server.
func problemsOf(problems field.ErrorList) []Problem {
	var out []Problem
	for _, p := range problems {
		out = append(out, Problem{strings.TrimPrefix(p.Field, "<nil>"), p.ErrorBody()})
	}
	return out
}

// answered is what a webhook answered.
func answered(status *metav1.Status) []Problem {
	if status.Details == nil || len(status.Details.Causes) == 0 {
		return []Problem{{Message: status.Message}}
	}
	var out []Problem
	for _, cause := range status.Details.Causes {
		out = append(out, Problem{strings.TrimPrefix(cause.Field, "<nil>"), cause.Message})
	}
	return out
}

// refused is the refusal of the machine for these problems.
func (m Machine) refused(problems []Problem) error {
	return &Refusal{Where: m.Where, Object: m.String(), Problems: problems}
}

// refusal turns an error of the engine into one that says where the machine stands.
func (m Machine) refusal(err error) error {
	var refused *presets.Refusal
	var malformed *presets.Malformed
	switch {
	case errors.As(err, &refused):
		return m.refused(problemsOf(refused.Problems))
	case errors.As(err, &malformed):
		return m.refused([]Problem{{Message: malformed.Error()}})
	}
	return fmt.Errorf("%s: cannot expand %s: %w", m.Where, m, err)
}
