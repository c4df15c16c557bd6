package presets

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/presets/tree"
)

// maxElements bounds the keyed lists of a VM, and with them the cost of a request. KubeVirt allows
// 256 networks and interfaces.
const maxElements = 512

// elementKey returns the key of an element, and the first key field that it lacks.
func elementKey(keys []listKey, fields map[string]any) (key, missing string) {
	if len(keys) == 0 {
		return "", "key" // the object has another shape than its schema
	}
	if len(keys) == 1 {
		v, ok := tree.Lookup(fields, keys[0].field)
		if !ok || v == "" {
			return "", keys[0].field
		}
		return keyText(v), ""
	}
	values := make([]string, len(keys))
	some := false
	for i, k := range keys {
		values[i] = k.absent
		if v, ok := tree.Lookup(fields, k.field); ok && v != "" {
			values[i], some = keyText(v), true
		}
	}
	if !some {
		return "", keys[0].field
	}
	return strings.Join(values, ","), ""
}

func keyText(v any) string {
	if text, ok := v.(string); ok {
		return text
	}
	return fmt.Sprint(v)
}

func indexOf(list []any, keys []listKey, key string) int {
	return slices.IndexFunc(list, func(e any) bool {
		got, missing := elementKey(keys, tree.AsObject(e))
		return missing == "" && got == key
	})
}

// nextIndexOf is indexOf, and fast if the element follows element i.
func nextIndexOf(list []any, keys []listKey, key string, i int) int {
	if i++; i < len(list) && indexOf(list[i:i+1], keys, key) == 0 {
		return i
	}
	return indexOf(list, keys, key)
}

func keyOf(e any, s *schema) string {
	key, _ := elementKey(s.keys, tree.AsObject(e))
	return key
}

func elementOf(list []any, s *schema, key string) any {
	if i := indexOf(list, s.keys, key); i >= 0 {
		return list[i]
	}
	return nil
}

func hasUniqueKeys(v any, s *schema) bool {
	list, ok := v.([]any)
	for i, e := range list {
		if key, missing := elementKey(s.keys, tree.AsObject(e)); missing != "" || indexOf(list[:i], s.keys, key) >= 0 {
			return false
		}
	}
	return ok || v == nil
}

// elementsAt yields the elements of the list at p, with their paths. The list may change meanwhile.
func elementsAt(root map[string]any, p provenance.Path) iter.Seq2[provenance.Path, any] {
	return func(yield func(provenance.Path, any) bool) {
		list := tree.AsList(vmValue(root, p))
		keys := vmSchema().at(p).keys
		for _, e := range slices.Clone(list) {
			key, missing := elementKey(keys, tree.AsObject(e))
			if missing == "" && !yield(p.Element(key), e) {
				return
			}
		}
	}
}

// alternativesOf yields the members of one-ofs that p is or lies in, with an alternative to each.
func alternativesOf(p provenance.Path) iter.Seq2[provenance.Path, provenance.Path] {
	return func(yield func(member, alternative provenance.Path) bool) {
		s := vmSchema()
		for i, seg := range p {
			for _, name := range s.alternatives[seg.Name] {
				if !yield(p[:i+1:i+1], p[:i:i].Field(name)) {
					return
				}
			}
			if s = s.step(seg); s == nil {
				return
			}
		}
	}
}

// keyNodes returns the recorded nodes of the fields that identify the element at p.
func keyNodes(record *provenance.Record, p provenance.Path) []*provenance.Node {
	list := vmSchema().at(p[:len(p)-1])
	if list == nil {
		return nil
	}
	var out []*provenance.Node
	for _, k := range list.keys {
		if n := record.At(append(slices.Clone(p), provenance.Of(strings.Split(k.field, ".")...)...)); n != nil {
			out = append(out, n)
		}
	}
	return out
}

// checkElements rejects a list that cannot be merged by key.
func (r *mergeState) checkElements(list []any, keys []listKey, path string) bool {
	at := field.NewPath(path)
	if len(list) > maxElements {
		r.fail(field.TooMany(at, len(list), maxElements))
		return false
	}
	isNamed := len(keys) == 1 && keys[0].field == "name"
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
