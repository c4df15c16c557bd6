package presets

import (
	"maps"
	"math"
	"reflect"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// VirtualMachineInstancePreset is KubeVirt's own kind of preset, of which
// CheckShape knows the form.
const VirtualMachineInstancePreset Kind = "VirtualMachineInstancePreset"

// A Shape is what is wrong with the form of an object, whatever its values mean.
type Shape struct {
	// Unknown are fields that do not exist. An API server refuses an object that
	// has any, or drops them, as its client wishes.
	Unknown field.ErrorList
	// Kept are fields that do not exist either, where API servers keep whatever
	// they are given: in the metadata of templates, and beside timers of a clock.
	Kept field.ErrorList
	// Mistyped are values of a type that no API server stores there.
	Mistyped field.ErrorList

	prune []func()
	// parent is the schema of the object around the one that is visited.
	parent *schema
}

// Prune removes the unknown fields from the object, as an API server does.
func (c Shape) Prune() {
	for _, prune := range c.prune {
		prune()
	}
}

// CheckShape compares decoded JSON of a kind with KubeVirt's types. Names are
// compared as API servers do, case and all. A kind that it does not know has
// any shape. Elements of lists are named by position.
func CheckShape(kind Kind, object map[string]any) Shape {
	var out Shape
	if s := shapes[kind]; s != nil {
		out.visit(object, s(), nil)
	}
	return out
}

var shapes = map[Kind]func() *schema{
	VirtualMachine:               vmSchema,
	VirtualMachineInstance:       schemaOf[kubevirtv1.VirtualMachineInstance](),
	VirtualMachineInstancePreset: schemaOf[kubevirtv1.VirtualMachineInstancePreset](),
}

func schemaOf[T any]() func() *schema {
	return sync.OnceValue(func() *schema {
		return schemaBuilder{done: map[reflect.Type]*schema{}}.of(reflect.TypeFor[T]())
	})
}

func (c *Shape) visit(v any, s *schema, at *field.Path) {
	switch s.shape {
	case shapeObject, shapeMap:
		c.object(v, s, at)
	case shapeKeyed, shapeAtomic:
		c.list(v, s, at)
	case shapeQuantity:
		c.quantity(v, at)
	default:
		c.scalar(v, s, at)
	}
}

func (c *Shape) object(v any, s *schema, at *field.Path) {
	fields, ok := v.(map[string]any)
	if !ok {
		c.mistyped(at, v, "an object")
		return
	}
	parent := c.parent
	defer func() { c.parent = parent }()
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		below, inside := at.Child(name), s.fields[name]
		if s.shape == shapeMap {
			below, inside = at.Key(name), s.elem
		}
		switch {
		case inside == nil && keepsUnknown(s, at):
			c.Kept = append(c.Kept, field.Invalid(below, name, unknownField(name, s, parent)))
		case inside == nil:
			c.Unknown = append(c.Unknown, field.Invalid(below, name, unknownField(name, s, parent)))
			c.prune = append(c.prune, func() { delete(fields, name) })
		case fields[name] != nil: // null is the same as nothing, in a field
			c.parent = s
			c.visit(fields[name], inside, below)
		}
	}
}

// keepsUnknown reports whether API servers keep fields there that they do not know.
func keepsUnknown(s *schema, at *field.Path) bool {
	return s.typ == "core/v1.Clock" || s.typ == "meta/v1.ObjectMeta" && at.String() != "metadata"
}

func (c *Shape) list(v any, s *schema, at *field.Path) {
	elements, ok := v.([]any)
	if !ok {
		c.mistyped(at, v, "a list")
		return
	}
	for i, e := range elements {
		c.visit(e, s.elem, at.Index(i))
	}
}

// quantity leaves out those of too many digits, which are refused wherever they
// are read.
func (c *Shape) quantity(v any, at *field.Path) {
	text, ok := v.(string)
	switch {
	case !ok:
		c.scalar(v, &schema{shape: shapeQuantity}, at)
	case hugeQuantity(text):
	default:
		if _, err := parseQuantity(text); err != nil {
			c.Mistyped = append(c.Mistyped, field.Invalid(at, text, "must be a quantity such as 2Gi or 500m"))
		}
	}
}

func (c *Shape) scalar(v any, s *schema, at *field.Path) {
	if n, ok := v.(float64); ok && s.shape != shapeNumber && n == math.Trunc(n) {
		v = int64(n) // 2.0 is the number 2
	}
	if !fits(s.shape, v) {
		c.mistyped(at, v, wanted[s.shape])
	}
}

func (c *Shape) mistyped(at *field.Path, v any, want string) {
	c.Mistyped = append(c.Mistyped, field.TypeInvalid(at, v, "must be "+want))
}
