package presets

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtwright/virtwright/presets/provenance"
)

// maxElements bounds the keyed lists of a machine, and with them what a request
// can cost. KubeVirt allows 256 networks and interfaces.
const maxElements = 512

// checkElements refuses a list that cannot be merged by key: with elements that
// are no objects, with too many of them, or with two of one name.
func (w *resolution) checkElements(list []any, keys []listKey, path string) bool {
	at := field.NewPath(path)
	if len(list) > maxElements {
		w.fail(field.TooMany(at, len(list), maxElements))
		return false
	}
	named := len(keys) == 1 && keys[0].field == "name"
	for i, e := range list {
		switch fields := e.(type) {
		case removedElement:
		case map[string]any:
			if named && twice(list[:i], fields["name"]) {
				w.fail(field.Duplicate(at.Index(i).Child("name"), fields["name"]))
				return false
			}
		default:
			w.fail(field.TypeInvalid(at, list, "must be a list of objects"))
			return false
		}
	}
	return true
}

// twice reports whether an element before has the name.
func twice(before []any, name any) bool {
	return name != nil && slices.ContainsFunc(before, func(e any) bool {
		fields, _ := e.(map[string]any)
		return fields != nil && equalJSON(fields["name"], name)
	})
}

// fail adds a problem, unless the field has one already.
func (w *resolution) fail(problem *field.Error) {
	if !slices.ContainsFunc(w.errs, func(e *field.Error) bool { return e.Field == problem.Field }) {
		w.errs = append(w.errs, problem)
	}
}

func (w *resolution) wrongType(p provenance.Path, value any, want string) {
	w.fail(field.TypeInvalid(field.NewPath(p.String()), value, fmt.Sprintf("must be %s", want)))
}
