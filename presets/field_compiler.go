package presets

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/google/cel-go/cel"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/presets/tree"
	"github.com/virtwright/virtwright/presets/vmschema"
)

// A fieldNode is a node of a compiled partial VM: a leaf, or an object or list with children.
type fieldNode struct {
	segment      provenance.Segment
	schema       *vmschema.Schema
	path         provenance.Path
	text         string // of path
	leaf         bool
	value        any                // of a leaf, as decoded JSON; it never changes after compilation
	quantity     *resource.Quantity // the parsed value, if the leaf is a quantity
	children     []*fieldNode       // fields by name, or elements in the author's order
	alternatives []string           // the sibling fields that exclude this one
	isKey        bool               // the field identifies its element
	pairing      *vmschema.Pairing  // says which other elements the element needs
	owner        ownership
	unique       *vmschema.UniqueElement // what the field makes of its element, if KubeVirt allows only one of these
	computed     *computed               // the expression, if the leaf is computed; value is then a placeholder
	computes     bool                    // a leaf of the node is computed
	unkeyed      []*fieldNode            // the elements with a computed key
	original     *fieldNode              // what its author wrote, if this is a copy for one VM
	existing     bool                    // the element changes an element of the VM, and is never added
}

type fieldCompiler struct {
	root        *field.Path // of the partial in the preset, such as spec.defaults
	errs        field.ErrorList
	atomic      bool // the current value lies in a list that is one leaf
	expressions *expressionCompiler
	fields      int // that were compiled
}

func (c *fieldCompiler) fail(p provenance.Path, value any, format string, args ...any) {
	c.errs = append(c.errs, field.Invalid(c.root.Child(p.String()), value, fmt.Sprintf(format, args...)))
}

// compile returns the node for value at p; nil if value is invalid, or one of too many.
func (c *fieldCompiler) compile(value any, s *vmschema.Schema, p provenance.Path) *fieldNode {
	if c.fields++; c.fields > maxFields {
		return nil
	}
	out := &fieldNode{schema: s, path: p, text: p.String(), owner: ownerOf(p), unique: vmschema.UniqueElementOf(p)}
	if len(p) > 0 {
		out.segment = p[len(p)-1]
	}
	if value == nil {
		c.fail(p, "null", `must not be null; to remove a field, list its path in spec.remove`)
		return nil
	}
	if text, ok := c.expression(value, p); ok {
		return c.compute(out, text, p)
	}
	switch s.Shape {
	case vmschema.Object, vmschema.Map:
		return c.object(out, value, p)
	case vmschema.Keyed:
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
		at := p.Field(name)
		s := out.schema.Step(at[len(p)])
		if s == nil {
			unknown := vmschema.UnknownField(name, out.schema, vmschema.VM().At(p[:max(len(p)-1, 0)]))
			c.errs = append(c.errs, field.Invalid(c.root.Child(at.String()), name, unknown).WithOrigin(OriginUnknownField))
			continue
		}
		if kid := c.compile(fields[name], s, at); kid != nil {
			kid.alternatives = out.schema.Alternatives[name]
			out.add(kid)
		}
	}
	return out
}

func (c *fieldCompiler) checkChoices(s *vmschema.Schema, fields map[string]any, p provenance.Path) {
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		for _, alternative := range s.Alternatives[name] {
			if _, both := fields[alternative]; both && name < alternative {
				c.fail(p.Field(alternative), name+", "+alternative, "%s and %s exclude each other: keep one", name, alternative)
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
		c.fail(p, "[]", "must not be empty; to remove elements, list their paths in spec.remove")
		return nil
	}
	seen := map[string]bool{}
	for i, e := range elements {
		fields, ok := e.(map[string]any)
		if !ok {
			c.wrongType(p.Element(strconv.Itoa(i)), e, "an object")
			continue
		}
		c.element(out, fields, i, seen)
	}
	slices.SortStableFunc(out.children, func(a, b *fieldNode) int { return falseFirst(a.isEvery(), b.isEvery()) })
	c.checkUniqueElements(out)
	return out
}

// every compiles an element with * in its key, which stands for every element of the list.
func (c *fieldCompiler) every(list *fieldNode, fields map[string]any, key string, at *field.Path) {
	switch {
	case !list.schema.Keys[0].NoStar: // a VM may have this key
		c.errs = append(c.errs, field.Invalid(at.Child(key), EveryElement,
			"this list does not support * for every element: write one element for each key"))
	case !withoutKey(fields, key):
		c.errs = append(c.errs, field.Required(at, "* stands for every element of the list: add the fields to set in each"))
	default:
		c.addElement(list, fields, list.path.With(every), false)
	}
}

func (c *fieldCompiler) checkUniqueElements(list *fieldNode) {
	first := map[*vmschema.UniqueElement]string{}
	visitLeaves(list, func(leaf *fieldNode) {
		s := vmschema.UniqueElementAt(leaf.path)
		if s == nil || leaf.value == false {
			return
		}
		key := leaf.path[len(s.List)].Name
		if leaf.path[len(s.List)] == every {
			if vmschema.UniqueElementOf(leaf.path) == s {
				c.fail(leaf.path, tree.Show(leaf.value), "a VM may have %s only once: name one element instead of *", s.What)
			}
			return
		}
		if other, twice := first[s]; twice && other != key {
			c.fail(leaf.path, tree.Show(leaf.value), "a VM may have %s only once: %s is one already", s.What, other)
		}
		first[s] = key
	})
}

// computedKey begins the name of an element whose key is computed, followed by its position. It
// cannot be the name of another element.
const computedKey = "#"

// HasComputedKey reports whether a segment of a Part's path is an element whose key is computed.
func HasComputedKey(s provenance.Segment) bool {
	return s.Kind == provenance.Element && strings.HasPrefix(s.Name, computedKey)
}

// element compiles element i of a list, unless its key is invalid or seen before.
func (c *fieldCompiler) element(list *fieldNode, fields map[string]any, i int, seen map[string]bool) {
	keys, at := list.schema.Keys, c.root.Child(list.text).Index(i)
	key, missing := vmschema.ElementKey(keys, fields)
	isComputed := hasComputedKey(keys, fields)
	if isComputed {
		key = computedKey + strconv.Itoa(i)
	}
	duplicate := seen[key]
	seen[key] = true
	switch star := namesEvery(keys, fields); {
	case missing != "":
		c.errs = append(c.errs, field.Required(at.Child(missing), "it identifies the elements of this list"))
	case duplicate:
		c.errs = append(c.errs, field.Duplicate(at, key))
	case star != "":
		c.every(list, fields, star, at)
	default:
		c.addElement(list, fields, list.path.Element(key), isComputed)
	}
}

func (c *fieldCompiler) addElement(list *fieldNode, fields map[string]any, at provenance.Path, isComputed bool) {
	kid := c.compile(fields, list.schema.Elem, at)
	if kid == nil {
		return
	}
	kid.pairing = vmschema.PairingOf(at)
	markKeys(kid, list.schema.Keys)
	if isComputed {
		list.unkeyed, list.computes = append(list.unkeyed, kid), true
	} else {
		list.add(kid)
	}
}

func markKeys(element *fieldNode, keys []vmschema.ListKey) {
	for _, k := range keys {
		if kid := element.find(provenance.Of(strings.Split(k.Field, ".")...)); kid != nil {
			kid.isKey = kid.leaf
		}
	}
}

func (c *fieldCompiler) scalar(out *fieldNode, value any, p provenance.Path) *fieldNode {
	if !fits(out.schema.Shape, value) {
		c.wrongType(p, value, out.schema.Shape.Wanted(value))
		return nil
	}
	if list, ok := value.([]any); ok && out.schema.Elem != nil {
		defer func(was bool) { c.atomic = was }(c.atomic)
		c.atomic = true
		for i, e := range list {
			// Elements of an atomic list are checked, though the list is one leaf.
			c.compile(e, out.schema.Elem, p.Element(strconv.Itoa(i)))
		}
	}
	if out.schema.Shape == vmschema.Quantity {
		q, err := tree.ParseQuantity(value)
		if err != nil {
			c.fail(p, value, "must be %s", vmschema.Quantity)
			return nil
		}
		out.quantity = &q
	}
	out.leaf, out.value = true, value
	return out
}

func fits(s vmschema.Shape, value any) bool {
	fitting := []vmschema.Shape{vmschema.Any}
	switch value.(type) {
	case string:
		fitting = []vmschema.Shape{vmschema.Any, vmschema.String, vmschema.Quantity, vmschema.IntOrString}
	case bool:
		fitting = []vmschema.Shape{vmschema.Any, vmschema.Bool}
	case int64:
		fitting = []vmschema.Shape{vmschema.Any, vmschema.Integer, vmschema.Number, vmschema.Quantity, vmschema.IntOrString}
	case float64:
		fitting = []vmschema.Shape{vmschema.Any, vmschema.Number, vmschema.Quantity}
	case []any:
		fitting = []vmschema.Shape{vmschema.Any, vmschema.Atomic}
	}
	return slices.Contains(fitting, s)
}

func (c *fieldCompiler) wrongType(p provenance.Path, value any, want string) {
	c.errs = append(c.errs, field.TypeInvalid(c.root.Child(p.String()), value, "must be "+want))
}

// visitLeaves calls visit for every leaf at or beneath f.
func visitLeaves(f *fieldNode, visit func(*fieldNode)) {
	f.visitLeaves(false, func(leaf *fieldNode, _ bool) { visit(leaf) })
}

// leaves calls visit for every leaf of defaults and overrides, with the name of that field.
func (c *Compiled) leaves(visit func(part string, leaf *fieldNode)) {
	visitLeaves(c.defaults, func(leaf *fieldNode) { visit("defaults", leaf) })
	visitLeaves(c.overrides, func(leaf *fieldNode) { visit("overrides", leaf) })
}

// visitLeaves tells visit also whether the leaf lies in an element with a computed key.
func (f *fieldNode) visitLeaves(unkeyed bool, visit func(leaf *fieldNode, unkeyed bool)) {
	if f == nil {
		return
	}
	if f.leaf {
		visit(f, unkeyed)
	}
	for _, kid := range f.children {
		kid.visitLeaves(unkeyed, visit)
	}
	for _, kid := range f.unkeyed {
		kid.visitLeaves(true, visit)
	}
}

// expression returns the expression of a computed value, and whether value is one.
func (c *fieldCompiler) expression(value any, p provenance.Path) (string, bool) {
	fields := tree.AsObject(value)
	if _, ok := fields[ComputedKey]; !ok {
		return "", false
	}
	text, ok := fields[ComputedKey].(string)
	switch {
	case !ok:
		c.wrongType(p.Field(ComputedKey), fields[ComputedKey], "a CEL expression")
	case len(fields) > 1:
		c.fail(p, ComputedKey, "%s must be the only key of a computed value", ComputedKey)
	}
	return text, true
}

var celTypes = map[vmschema.Shape][]*cel.Type{
	vmschema.String: {cel.StringType}, vmschema.Bool: {cel.BoolType}, vmschema.Integer: {cel.IntType}, vmschema.Number: {cel.DoubleType, cel.IntType},
	vmschema.Quantity: {cel.StringType, cel.IntType, cel.DoubleType}, vmschema.IntOrString: {cel.IntType, cel.StringType},
}

func (c *fieldCompiler) compute(out *fieldNode, text string, p provenance.Path) *fieldNode {
	types := celTypes[out.schema.Shape]
	switch c.expressions.computed++; {
	case types == nil || c.atomic:
		c.fail(p, ComputedKey, "%s is only supported for single values outside of lists without keys: write the value itself", ComputedKey)
		return nil
	case c.expressions.computed > maxComputed:
		c.errs = append(c.errs, field.TooMany(c.root.Child(p.String()), c.expressions.computed, maxComputed))
		return nil
	}
	x, err := c.expressions.Compile(text, "must be "+out.schema.Shape.String(), types...)
	if err != nil {
		c.fail(p, text, "%s", err)
		return nil
	}
	x.Name = "the expression"
	out.computed, out.computes = &computed{x, out.schema.Shape}, true
	out.leaf, out.value = true, out.computed
	return out
}

func hasComputedKey(keys []vmschema.ListKey, element map[string]any) bool {
	return slices.ContainsFunc(keys, func(k vmschema.ListKey) bool {
		v, _ := tree.Lookup(element, k.Field)
		return tree.AsObject(v)[ComputedKey] != nil
	})
}
