package presets

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtwright/virtwright/presets/provenance"
)

// A fieldNode is one node of a compiled partial VirtualMachine: a leaf with its
// value, or a container with what is beneath it. All that can be known before
// a request is worked out here, once.
type fieldNode struct {
	seg    provenance.Segment
	schema *schema
	// at is where the node lies and path its text form.
	at   provenance.Path
	path string
	leaf bool
	// value of a leaf, as decoded JSON; never changed after compilation.
	value any
	// quantity is the parsed value of a quantity leaf.
	quantity *resource.Quantity
	// kids of a container: fields by name, elements in author order.
	kids []*fieldNode
	// rivals are the fields beside this one that exclude it.
	rivals []string
	// isKey marks the fields that identify their element.
	isKey bool
	// link says what an element needs beside it to be added.
	link *link
	// owner says what else may own this field, see owners.go.
	owner ownership
	// singleton is what the field makes of its element, if KubeVirt allows that once.
	singleton *singleton
	// computed is the expression of a computed leaf, whose value is a placeholder.
	computed *computed
	// unkeyed are elements whose key is computed.
	unkeyed []*fieldNode
}

// fieldCompiler makes parts out of one partial VirtualMachine and collects
// every problem with it.
type fieldCompiler struct {
	// root is the field of the preset that holds the partial, as in spec.defaults.
	root *field.Path
	errs field.ErrorList
	// atomic says that what is compiled lies in a list that is one leaf.
	atomic bool
	// expressions counts the computed values.
	expressions int
}

func (c *fieldCompiler) fail(p provenance.Path, value any, format string, args ...any) {
	c.errs = append(c.errs, field.Invalid(c.root.Child(p.String()), value, fmt.Sprintf(format, args...)))
}

// compile returns the node for value at p, or nil after reporting why not.
func (c *fieldCompiler) compile(value any, s *schema, p provenance.Path) *fieldNode {
	out := &fieldNode{schema: s, at: p, path: p.String(), owner: ownerOf(p), singleton: singletonOf(p)}
	if len(p) > 0 {
		out.seg = p[len(p)-1]
	}
	if value == nil {
		c.fail(p, "null", `null sets nothing; to take a field away, list its path in spec.remove`)
		return nil
	}
	if text, ok := c.expression(value, p); ok {
		return c.compute(out, text, p)
	}
	switch s.shape {
	case shapeObject, shapeMap:
		return c.object(out, value, p)
	case shapeKeyed:
		return c.keyed(out, value, p)
	}
	return c.scalar(out, value, p)
}

func (c *fieldCompiler) object(out *fieldNode, value any, p provenance.Path) *fieldNode {
	fields, ok := value.(map[string]any)
	if !ok {
		c.wrongType(p, value, "an object")
		return nil
	}
	if len(fields) == 0 {
		out.leaf, out.value = true, fields
		return out
	}
	c.checkChoices(out.schema, fields, p)
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		at := p.With(provenance.Segment{Name: name})
		s := out.schema.step(at[len(p)])
		if s == nil {
			c.unknown(at, name, out.schema)
			continue
		}
		if kid := c.compile(fields[name], s, at); kid != nil {
			kid.rivals = out.schema.rivals[name]
			out.kids = append(out.kids, kid)
		}
	}
	return out
}

// checkChoices refuses two members of a one-of in one object.
func (c *fieldCompiler) checkChoices(s *schema, fields map[string]any, p provenance.Path) {
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		for _, rival := range s.rivals[name] {
			if _, both := fields[rival]; both && name < rival {
				c.fail(p, name+", "+rival, "%s and %s exclude each other: keep one", name, rival)
			}
		}
	}
}

func (c *fieldCompiler) keyed(out *fieldNode, value any, p provenance.Path) *fieldNode {
	elements, ok := value.([]any)
	if !ok {
		c.wrongType(p, value, "a list")
		return nil
	}
	if len(elements) == 0 {
		c.fail(p, "[]", "an empty list sets nothing; to take elements away, list their paths in spec.remove")
		return nil
	}
	seen := map[string]bool{}
	for i, e := range elements {
		fields, ok := e.(map[string]any)
		if !ok {
			c.wrongType(p.With(provenance.Segment{Name: strconv.Itoa(i), Kind: provenance.Element}), e, "an object")
			continue
		}
		key, missing := elementKey(out.schema.keys, fields)
		isComputed := hasComputedKey(out.schema.keys, fields)
		if isComputed {
			key = "#" + strconv.Itoa(i) // it is no name, so it cannot be taken
		}
		switch {
		case missing != "":
			c.errs = append(c.errs, field.Required(c.root.Child(p.String()).Index(i).Child(missing),
				"it identifies the elements of this list"))
		case seen[key]:
			c.errs = append(c.errs, field.Duplicate(c.root.Child(p.String()).Index(i), key))
		default:
			c.element(out, fields, p.With(provenance.Segment{Name: key, Kind: provenance.Element}), isComputed)
		}
		seen[key] = true
	}
	c.checkSingletons(out)
	return out
}

// checkSingletons refuses a list with two elements where KubeVirt allows one.
func (c *fieldCompiler) checkSingletons(list *fieldNode) {
	first := map[*singleton]string{}
	visitLeaves(list, func(leaf *fieldNode) {
		s := singletonAt(leaf.at)
		if s == nil || leaf.value == false {
			return
		}
		key := leaf.at[len(s.list)].Name
		if other, twice := first[s]; twice && other != key {
			c.fail(leaf.at, show(leaf.value), "a VM has only one of %s; %s has it already", s.what, other)
		}
		first[s] = key
	})
}

// element compiles one element of list, whose key may be computed.
func (c *fieldCompiler) element(list *fieldNode, fields map[string]any, at provenance.Path, isComputed bool) {
	kid := c.compile(fields, list.schema.elem, at)
	if kid == nil {
		return
	}
	kid.link = linkOf(at)
	markKeys(kid, list.schema.keys)
	if isComputed {
		list.unkeyed = append(list.unkeyed, kid)
	} else {
		list.kids = append(list.kids, kid)
	}
}

// markKeys finds the key fields of an element, also where they lie deeper.
func markKeys(element *fieldNode, keys []listKey) {
	for _, k := range keys {
		at := element
		for name := range strings.SplitSeq(k.field, ".") {
			i := slices.IndexFunc(at.kids, func(kid *fieldNode) bool { return kid.seg.Name == name })
			if i < 0 {
				break
			}
			at = at.kids[i]
		}
		at.isKey = at.leaf
	}
}

// elementKey returns the name of an element, and the first key field that it lacks.
func elementKey(keys []listKey, fields map[string]any) (key, missing string) {
	if len(keys) == 0 {
		return "", "key" // no keyed list: the object is not of the shape it should be
	}
	if len(keys) == 1 {
		v, ok := lookupDotted(fields, keys[0].field)
		if !ok || v == "" {
			return "", keys[0].field
		}
		return keyText(v), ""
	}
	parts := make([]string, len(keys))
	some := false
	for i, k := range keys {
		parts[i] = k.absent
		if v, ok := lookupDotted(fields, k.field); ok && v != "" {
			parts[i], some = keyText(v), true
		}
	}
	if !some {
		return "", keys[0].field
	}
	return strings.Join(parts, ","), ""
}

func keyText(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case int64:
		return strconv.FormatInt(v, 10)
	}
	return fmt.Sprint(v)
}

func lookupDotted(fields map[string]any, dotted string) (any, bool) {
	name, rest, deeper := strings.Cut(dotted, ".")
	v, ok := fields[name]
	if !deeper {
		return v, ok && v != nil
	}
	sub, isMap := v.(map[string]any)
	if !isMap {
		return nil, false
	}
	return lookupDotted(sub, rest)
}

var wanted = map[shape]string{
	shapeAtomic: "a list", shapeString: "a string", shapeBool: "true or false", shapeInteger: "a whole number",
	shapeNumber: "a number", shapeQuantity: "a quantity such as 2Gi or 500m", shapeIntOrString: "a whole number or a string",
}

func (c *fieldCompiler) scalar(out *fieldNode, value any, p provenance.Path) *fieldNode {
	if !fits(out.schema.shape, value) {
		c.wrongType(p, value, wanted[out.schema.shape])
		return nil
	}
	if list, ok := value.([]any); ok && out.schema.elem != nil {
		defer func(was bool) { c.atomic = was }(c.atomic)
		c.atomic = true
		for i, e := range list {
			// Elements of an atomic list are checked, though the list is one leaf.
			c.compile(e, out.schema.elem, p.With(provenance.Segment{Name: strconv.Itoa(i), Kind: provenance.Element}))
		}
	}
	if out.schema.shape == shapeQuantity {
		q, err := parseQuantity(value)
		if err != nil {
			c.fail(p, value, "must be a quantity such as 2Gi or 500m")
			return nil
		}
		out.quantity = &q
	}
	out.leaf, out.value = true, value
	return out
}

// fitting are the shapes that a decoded JSON value may have, beside any.
func fitting(value any) []shape {
	switch value.(type) {
	case string:
		return []shape{shapeString, shapeQuantity, shapeIntOrString}
	case bool:
		return []shape{shapeBool}
	case int64:
		return []shape{shapeInteger, shapeNumber, shapeQuantity, shapeIntOrString}
	case float64:
		return []shape{shapeNumber, shapeQuantity}
	case []any:
		return []shape{shapeAtomic}
	}
	return nil
}

func fits(s shape, value any) bool {
	return s == shapeAny || slices.Contains(fitting(value), s)
}

func (c *fieldCompiler) wrongType(p provenance.Path, value any, want string) {
	c.errs = append(c.errs, field.TypeInvalid(c.root.Child(p.String()), value, "must be "+want))
}

func (c *fieldCompiler) unknown(p provenance.Path, name string, s *schema) {
	c.fail(p, name, "%s", unknownField(name, s, vmSchema().at(p[:max(len(p)-2, 0)])))
}

// visitLeaves calls visit for every leaf at or beneath p.
func visitLeaves(p *fieldNode, visit func(*fieldNode)) {
	p.leaves(nil, func(_ provenance.Path, leaf *fieldNode) { visit(leaf) })
}
