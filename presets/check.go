package presets

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"kubevirt.io/api/instancetype/v1beta1"

	"github.com/virtwright/virtwright/presets/tree"
	"github.com/virtwright/virtwright/presets/vmschema"
)

// VirtualMachineInstancePreset is KubeVirt's own kind of preset; CheckSchema supports it.
const VirtualMachineInstancePreset Kind = "VirtualMachineInstancePreset"

// A SchemaReport lists the values of an object that do not fit the schema of its kind.
type SchemaReport struct {
	// Unknown fields do not exist. An API server rejects or drops them, as the client requests.
	Unknown field.ErrorList
	// Preserved are unknown fields that API servers keep, in metadata of templates and in clocks.
	Preserved field.ErrorList
	// Mistyped are values of a type that no API server stores there.
	Mistyped field.ErrorList
	// Huge are quantities with too many digits, which [SafeQuantities] rejects. Parsing them could
	// take hours.
	Huge field.ErrorList

	prune, defaults []func()
	parent          *vmschema.Schema // of the object around the current one
}

// Prune removes the unknown fields from the object, as an API server does.
func (c SchemaReport) Prune() {
	for _, prune := range c.prune {
		prune()
	}
}

// Default drops nulls from the object and sets the defaults of KubeVirt's CRDs, as an API server
// does before webhooks and policies. It reports whether it changed the object.
func (c SchemaReport) Default() bool {
	for _, set := range c.defaults {
		set()
	}
	return len(c.defaults) > 0
}

// CheckSchema compares decoded JSON of a kind with KubeVirt's types; names are case-sensitive. It
// reports nothing for a kind that it does not know. List elements have their position in paths.
func CheckSchema(kind Kind, object map[string]any) SchemaReport {
	var out SchemaReport
	if s := shapes[kind]; s != nil {
		out.visit(object, s(), nil)
	}
	return out
}

var shapes = map[Kind]func() *vmschema.Schema{
	VirtualMachine:                      vmschema.VM,
	VirtualMachineInstance:              vmschema.Of[kubevirtv1.VirtualMachineInstance](),
	VirtualMachineInstancePreset:        vmschema.Of[kubevirtv1.VirtualMachineInstancePreset](),
	"VirtualMachineInstancetype":        instancetypeSchema,
	"VirtualMachineClusterInstancetype": instancetypeSchema,
	"VirtualMachinePreference":          preferenceSchema,
	"VirtualMachineClusterPreference":   preferenceSchema,
}

var (
	instancetypeSchema = vmschema.Of[v1beta1.VirtualMachineInstancetype]()
	preferenceSchema   = vmschema.Of[v1beta1.VirtualMachinePreference]()
)

func (c *SchemaReport) visit(v any, s *vmschema.Schema, at *field.Path) {
	switch s.Shape {
	case vmschema.Object, vmschema.Map:
		c.object(v, s, at)
	case vmschema.Keyed, vmschema.Atomic:
		c.list(v, s, at)
	default:
		c.scalar(v, s, at)
	}
}

func (c *SchemaReport) object(v any, s *vmschema.Schema, at *field.Path) {
	fields, ok := v.(map[string]any)
	if !ok {
		c.mistyped(at, v, "an object")
		return
	}
	parent := c.parent
	defer func() { c.parent = parent }()
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		below, inside := at.Child(name), s.Fields[name]
		if s.Shape == vmschema.Map {
			below, inside = at.Key(name), s.Elem
		}
		unknown := func() *field.Error {
			return field.Invalid(below, name, vmschema.UnknownField(name, s, parent)).WithOrigin(OriginUnknownField)
		}
		switch {
		case inside == nil && keepsUnknown(s, at):
			c.Preserved = append(c.Preserved, unknown())
		case inside == nil:
			c.Unknown = append(c.Unknown, unknown())
			c.prune = append(c.prune, func() { delete(fields, name) })
		case fields[name] != nil: // a null field counts as absent
			c.parent = s
			c.visit(fields[name], inside, below)
		case !nullable.MatchString(below.String()):
			c.defaults = append(c.defaults, func() { delete(fields, name) })
		}
	}
	c.absent(fields, schemaDefaults[s.GoType])
}

func (c *SchemaReport) absent(fields, defaults map[string]any) {
	for name, value := range defaults {
		if fields[name] == nil {
			c.defaults = append(c.defaults, func() { fields[name] = value })
		}
	}
}

// nullable are the fields in which API servers keep nulls, except in status.
var nullable = regexp.MustCompile(`^(status|spec\.template\.metadata|spec\.dataVolumeTemplates\[\d+\]\.(metadata|status))\b`)

var schemaDefaults = map[string]map[string]any{
	"core/v1.LocalObjectReference":      {"name": ""},
	"core/v1.ConfigMapVolumeSource":     {"name": ""},
	"core/v1.ContainerPathVolumeSource": {"readOnly": true},
}

func keepsUnknown(s *vmschema.Schema, at *field.Path) bool {
	return s.GoType == "core/v1.Clock" || s.GoType == "meta/v1.ObjectMeta" && at.String() != "metadata"
}

func (c *SchemaReport) list(v any, s *vmschema.Schema, at *field.Path) {
	elements, ok := v.([]any)
	if !ok {
		c.mistyped(at, v, "a list")
		return
	}
	for i, e := range elements {
		c.visit(e, s.Elem, at.Index(i))
	}
}

func (c *SchemaReport) scalar(v any, s *vmschema.Schema, at *field.Path) {
	v = wholeNumber(v, s)
	text, isText := v.(string)
	switch {
	case s.Shape == vmschema.Integer && isNumber(v) && !s.Admits(v):
		c.mistyped(at, v, fmt.Sprintf("a whole number from %d to %d", s.Least, s.Most))
	case !fits(s.Shape, v):
		c.mistyped(at, v, s.Shape.Wanted(v))
	case s.GoType == "meta/v1.Time" && !isTime(text):
		c.mistyped(at, v, "a time such as 2026-01-31T12:00:00Z")
	case s.Shape == vmschema.Quantity && isText:
		c.quantity(text, at)
	}
}

func (c *SchemaReport) quantity(text string, at *field.Path) {
	if tree.HugeQuantity(text) {
		c.Huge = append(c.Huge, tree.HugeProblem(at, text))
		return
	}
	if _, err := tree.ParseQuantity(text); err != nil {
		c.Mistyped = append(c.Mistyped, field.Invalid(at, text, "must be "+vmschema.Quantity.String()))
	}
}

// wholeNumber returns the number 2 for 2.0, unless the field may have a fraction.
func wholeNumber(v any, s *vmschema.Schema) any {
	n, isFloat := v.(float64)
	if isFloat && s.Shape != vmschema.Number && n == math.Trunc(n) && math.Abs(n) < math.MaxInt64 {
		return int64(n)
	}
	return v
}

// isNumber reports whether v is a number without a fraction.
func isNumber(v any) bool {
	n, isFloat := v.(float64)
	_, isInteger := v.(int64)
	return isInteger || isFloat && n == math.Trunc(n)
}

func isTime(text string) bool {
	_, err := time.Parse(time.RFC3339, text)
	return err == nil
}

func (c *SchemaReport) mistyped(at *field.Path, v any, want string) {
	c.Mistyped = append(c.Mistyped, field.TypeInvalid(at, v, "must be "+want))
}
