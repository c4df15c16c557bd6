package presets

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/presets/tree"
	"github.com/virtwright/virtwright/presets/vmschema"
)

// maxElements bounds the keyed lists of a VM, and with them the cost of a request. KubeVirt allows
// 256 networks and interfaces.
const maxElements = 512

// keyNodes returns the recorded nodes of the fields that identify the element at p.
func keyNodes(record *provenance.Record, p provenance.Path) []*provenance.Node {
	list := vmschema.VM().At(p[:len(p)-1])
	if list == nil {
		return nil
	}
	var out []*provenance.Node
	for _, k := range list.Keys {
		if n := record.At(append(slices.Clone(p), provenance.Of(strings.Split(k.Field, ".")...)...)); n != nil {
			out = append(out, n)
		}
	}
	return out
}

// checkElements rejects a list that cannot be merged by key.
func (r *mergeState) checkElements(list []any, keys []vmschema.ListKey, path string) bool {
	at := field.NewPath(path)
	if len(list) > maxElements {
		r.fail(field.TooMany(at, len(list), maxElements))
		return false
	}
	isNamed := len(keys) == 1 && keys[0].Field == "name"
	for i, e := range list {
		switch fields := e.(type) {
		case removedElement:
		case map[string]any:
			if isNamed && hasName(list[:i], fields["name"]) {
				err := field.Duplicate(at.Index(i).Child("name"), fields["name"])
				err.Detail = "names must be unique, because presets merge this list by name"
				r.fail(err)
				return false
			}
		default:
			r.fail(field.TypeInvalid(at, list, "must be a list of objects"))
			return false
		}
	}
	return true
}

func hasName(elements []any, name any) bool {
	return name != nil && slices.ContainsFunc(elements, func(e any) bool {
		return tree.Equal(tree.AsObject(e)["name"], name)
	})
}
