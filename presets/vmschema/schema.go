package vmschema

import (
	"math"
	"reflect"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/presets/provenance"
)

// A Schema describes one field of a VirtualMachine, as KubeVirt's Go types have it.
type Schema struct {
	Shape Shape
	// GoType is the name of the Go type, such as core/v1.Devices.
	GoType string
	Fields map[string]*Schema
	// Required are the fields that KubeVirt's types always have.
	Required map[string]bool
	// Quantities are the fields that are or have quantities.
	Quantities []string
	// Least and Most limit an integer.
	Least, Most int64
	Elem        *Schema
	// Keys of a keyed list, in the order in which they form the key of an element.
	Keys []ListKey
	// Alternatives has, for a field in a one-of group, the fields that it excludes.
	Alternatives map[string][]string
}

// VM is the schema of a VirtualMachine.
var VM = sync.OnceValue(func() *Schema {
	b := schemaBuilder{done: map[reflect.Type]*Schema{}}
	s := b.build(reflect.TypeFor[kubevirtv1.VirtualMachine]())
	s.noteQuantities()
	return s
})

// Of returns the schema of another type.
func Of[T any]() func() *Schema {
	return sync.OnceValue(func() *Schema {
		return schemaBuilder{done: map[reflect.Type]*Schema{}}.build(reflect.TypeFor[T]())
	})
}

type schemaBuilder struct{ done map[reflect.Type]*Schema }

var scalarTypes = map[reflect.Type]Shape{
	reflect.TypeFor[resource.Quantity]():    Quantity,
	reflect.TypeFor[intstr.IntOrString]():   IntOrString,
	reflect.TypeFor[metav1.Time]():          String,
	reflect.TypeFor[metav1.MicroTime]():     String,
	reflect.TypeFor[metav1.Duration]():      String,
	reflect.TypeFor[runtime.RawExtension](): Any,
	reflect.TypeFor[metav1.FieldsV1]():      Any,
}

var scalarKinds = map[reflect.Kind]Shape{
	reflect.String: String, reflect.Bool: Bool,
	reflect.Int: Integer, reflect.Int8: Integer, reflect.Int16: Integer,
	reflect.Int32: Integer, reflect.Int64: Integer,
	reflect.Uint: Integer, reflect.Uint8: Integer, reflect.Uint16: Integer,
	reflect.Uint32: Integer, reflect.Uint64: Integer,
	reflect.Float32: Number, reflect.Float64: Number,
}

// integerLimits are the limits of integers in Go and in KubeVirt's CRDs, which have no unsigned
// types.
var integerLimits = map[reflect.Kind][2]int64{
	reflect.Int8: {math.MinInt8, math.MaxInt8}, reflect.Int16: {math.MinInt16, math.MaxInt16}, reflect.Int32: {math.MinInt32, math.MaxInt32},
	reflect.Int: {math.MinInt64, math.MaxInt64}, reflect.Int64: {math.MinInt64, math.MaxInt64},
	reflect.Uint8: {0, math.MaxUint8}, reflect.Uint16: {0, math.MaxUint16}, reflect.Uint32: {0, math.MaxInt32},
	reflect.Uint: {0, math.MaxInt64}, reflect.Uint64: {0, math.MaxInt64},
}

func (b schemaBuilder) build(t reflect.Type) *Schema {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if s, ok := scalarTypes[t]; ok {
		return &Schema{Shape: s, GoType: typeName(t)}
	}
	if s, ok := scalarKinds[t.Kind()]; ok {
		limits := integerLimits[t.Kind()]
		return &Schema{Shape: s, GoType: typeName(t), Least: limits[0], Most: limits[1]}
	}
	switch t.Kind() {
	case reflect.Struct:
		return b.object(t)
	case reflect.Map:
		return &Schema{Shape: Map, Elem: b.build(t.Elem())}
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return &Schema{Shape: String} // base64
		}
		return &Schema{Shape: Atomic, Elem: b.build(t.Elem())}
	}
	return &Schema{Shape: Any, GoType: typeName(t)}
}

func (b schemaBuilder) object(t reflect.Type) *Schema {
	if s := b.done[t]; s != nil {
		return s
	}
	s := &Schema{
		Shape: Object, GoType: typeName(t),
		Fields: map[string]*Schema{}, Required: map[string]bool{}, Alternatives: map[string][]string{},
	}
	b.done[t] = s
	b.addFields(s, t)
	return s
}

func (b schemaBuilder) addFields(s *Schema, t reflect.Type) {
	owner := typeName(t)
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" {
			embedded := f.Type
			if embedded.Kind() == reflect.Pointer {
				embedded = embedded.Elem()
			}
			b.addFields(s, embedded)
			continue
		}
		if name == "" || name == "-" {
			continue
		}
		field := b.build(f.Type)
		if keys := keyedLists[owner+"."+name]; keys != nil {
			field = &Schema{Shape: Keyed, Elem: field.Elem, Keys: keys}
		}
		s.Fields[name] = field
		if options == "" {
			s.Required[name] = true
		}
	}
	for _, group := range oneOfs[owner] {
		s.addGroup(group)
	}
}

func (s *Schema) addGroup(group oneOf) {
	for i, alternative := range group {
		for j, other := range group {
			if i == j {
				continue
			}
			for _, name := range alternative {
				s.Alternatives[name] = append(s.Alternatives[name], other...)
			}
		}
	}
}

func typeName(t reflect.Type) string {
	pkg := strings.Split(t.PkgPath(), "/")
	if len(pkg) < 2 {
		return t.String()
	}
	return strings.Join(pkg[len(pkg)-2:], "/") + "." + t.Name()
}

// At returns the schema at p; nil if the types have no such field.
func (s *Schema) At(p provenance.Path) *Schema {
	for _, seg := range p {
		if s = s.Step(seg); s == nil {
			return nil
		}
	}
	return s
}

// Step returns the schema of a field or an element; nil if the types have no such field.
func (s *Schema) Step(seg provenance.Segment) *Schema {
	switch {
	case s.Shape == Any:
		return s
	case s.Shape == Object && seg.Kind == provenance.Field:
		return s.Fields[seg.Name]
	case s.Shape == Map && seg.Kind == provenance.Field, s.Shape == Keyed && seg.Kind != provenance.Field:
		return s.Elem
	}
	return nil
}

// anything is the schema of unknown fields.
var anything = &Schema{Shape: Any}

// Field returns the schema of a field, or of a value of a map. It is never nil: unknown fields may
// have any value.
func (s *Schema) Field(name string) *Schema {
	if s == nil {
		return anything
	}
	if s.Shape == Map {
		return s.Elem
	}
	if f := s.Fields[name]; f != nil {
		return f
	}
	return anything
}

// Admits reports whether an integer is within the limits of s.
func (s *Schema) Admits(v any) bool {
	n, isInteger := v.(int64)
	return isInteger && n >= s.Least && n <= s.Most
}
