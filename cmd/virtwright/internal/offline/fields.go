package offline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/webhooks/conversion"
)

// A FieldValidation is what an API server does about fields that do not exist, in
// the words of kubectl --validate.
type FieldValidation string

// Field validations. The zero value is strict.
const (
	FieldsStrict FieldValidation = "strict" // refuse the object
	FieldsWarn   FieldValidation = "warn"   // drop the fields with a warning
	FieldsIgnore FieldValidation = "ignore" // drop the fields
)

// A checked machine has passed field validation, or has problems.
type checked struct {
	// machine has only fields that exist, unless there are problems.
	machine Machine
	// sent is the machine as decoded JSON.
	sent     map[string]any
	shape    presets.Shape
	problems field.ErrorList
	warnings []string
}

// checkFields does what an API server does before it calls webhooks.
func (c *Cluster) checkFields(m Machine) (*checked, error) {
	out := &checked{machine: m}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(m.JSON, &out.sent); err != nil {
		return nil, fmt.Errorf("%s: cannot read %s: %w", m.Where, m, err)
	}
	out.shape = presets.CheckShape(m.Kind, out.sent)
	unknown := out.shape.Unknown
	if len(unknown) == 0 {
		return out, nil
	}
	for _, p := range unknown {
		m.seedField(p)
		p.Field = conversion.Path(m.version, p.Field)
	}
	switch c.settings.Fields {
	case FieldsIgnore:
	case FieldsWarn:
		for _, p := range unknown {
			out.warnings = append(out.warnings, p.Field+": "+p.Detail)
		}
	default:
		out.problems = unknown
		return out, nil
	}
	out.shape.Prune()
	var err error
	out.machine.JSON, err = json.Marshal(out.sent)
	return out, err
}

// stored answers the request to create a machine: what an API server would store,
// and all warnings.
func (c *Cluster) stored(ctx context.Context, m Machine) (*presets.Result, []string, error) {
	checked, err := c.checkFields(m)
	if err != nil {
		return nil, nil, err
	}
	result, err := c.Resolve(ctx, checked.machine)
	var refusal *presets.Refusal
	switch {
	case errors.As(err, &refusal):
	case err != nil:
		return nil, nil, m.refusal(err)
	default:
		refusal = &presets.Refusal{}
		if m.Name == "" {
			refusal.Problems = nameless
		}
	}
	if problems := slices.Concat(checked.problems, refusal.Problems); len(problems) > 0 {
		return nil, nil, m.refusal(&presets.Refusal{Problems: problems})
	}
	return result, slices.Concat(checked.warnings, result.Warnings), nil
}
