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
	Object string
	// Problems are one line each: field path and reason.
	Problems []string
}

// Error names the object and lists the problems.
func (r *Refusal) Error() string {
	return fmt.Sprintf("%s: %s is refused:\n  %s", r.Where, r.Object, strings.Join(r.Problems, "\n  "))
}

// problemLines writes problems as an API server would.
func problemLines(problems field.ErrorList) []string {
	var out []string
	for _, p := range problems {
		out = append(out, p.Error())
	}
	return out
}

// statusLines is what a webhook answered.
func statusLines(status *metav1.Status) []string {
	if status.Details == nil || len(status.Details.Causes) == 0 {
		return []string{status.Message}
	}
	var out []string
	for _, cause := range status.Details.Causes {
		out = append(out, strings.TrimPrefix(cause.Field+": "+cause.Message, ": "))
	}
	return out
}

// refusal turns an error of the engine into one that says where the machine stands.
func (m Machine) refusal(err error) error {
	r := &Refusal{Where: m.Where, Object: m.String()}
	var refused *presets.Refusal
	var malformed *presets.Malformed
	switch {
	case errors.As(err, &refused):
		r.Problems = problemLines(refused.Problems)
	case errors.As(err, &malformed):
		r.Problems = []string{malformed.Error()}
	default:
		return fmt.Errorf("%s: cannot expand %s: %w", m.Where, m, err)
	}
	return r
}
