package presets

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

type shape uint8

const (
	shapeAny shape = iota
	shapeObject
	shapeMap
	shapeKeyed  // a list that merges by key
	shapeAtomic // a list that is one leaf
	shapeString
	shapeBool
	shapeInteger
	shapeNumber
	shapeQuantity
	shapeIntOrString
)

// A schema describes one field of a VirtualMachine, as KubeVirt's Go types have it.
type schema struct {
	shape shape
	// goType is the name of the Go type, such as core/v1.Devices.
	goType string
	fields map[string]*schema
	// required are the fields that KubeVirt's types always have.
	required   map[string]bool
	quantities []string
	// least and most limit an integer.
	least, most int64
	elem        *schema
	// keys of a keyed list, in the order in which they form the key of an element.
	keys []listKey
	// alternatives has, for a field in a one-of group, the fields that it excludes.
	alternatives map[string][]string
}

var vmSchema = sync.OnceValue(func() *schema {
	b := schemaBuilder{done: map[reflect.Type]*schema{}}
	s := b.build(reflect.TypeFor[kubevirtv1.VirtualMachine]())
	s.noteQuantities()
	return s
})

type schemaBuilder struct{ done map[reflect.Type]*schema }

var scalarTypes = map[reflect.Type]shape{
	reflect.TypeFor[resource.Quantity]():    shapeQuantity,
	reflect.TypeFor[intstr.IntOrString]():   shapeIntOrString,
	reflect.TypeFor[metav1.Time]():          shapeString,
	reflect.TypeFor[metav1.MicroTime]():     shapeString,
	reflect.TypeFor[metav1.Duration]():      shapeString,
	reflect.TypeFor[runtime.RawExtension](): shapeAny,
	reflect.TypeFor[metav1.FieldsV1]():      shapeAny,
}

var scalarKinds = map[reflect.Kind]shape{
	reflect.String: shapeString, reflect.Bool: shapeBool,
	reflect.Int: shapeInteger, reflect.Int8: shapeInteger, reflect.Int16: shapeInteger,
	reflect.Int32: shapeInteger, reflect.Int64: shapeInteger,
	reflect.Uint: shapeInteger, reflect.Uint8: shapeInteger, reflect.Uint16: shapeInteger,
	reflect.Uint32: shapeInteger, reflect.Uint64: shapeInteger,
	reflect.Float32: shapeNumber, reflect.Float64: shapeNumber,
}

// integerLimits are the limits of integers in Go and in KubeVirt's CRDs, which have no unsigned
// types.
var integerLimits = map[reflect.Kind][2]int64{
	reflect.Int8: {math.MinInt8, math.MaxInt8}, reflect.Int16: {math.MinInt16, math.MaxInt16}, reflect.Int32: {math.MinInt32, math.MaxInt32},
	reflect.Int: {math.MinInt64, math.MaxInt64}, reflect.Int64: {math.MinInt64, math.MaxInt64},
	reflect.Uint8: {0, math.MaxUint8}, reflect.Uint16: {0, math.MaxUint16}, reflect.Uint32: {0, math.MaxInt32},
	reflect.Uint: {0, math.MaxInt64}, reflect.Uint64: {0, math.MaxInt64},
}

func (b schemaBuilder) build(t reflect.Type) *schema {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if s, ok := scalarTypes[t]; ok {
		return &schema{shape: s, goType: typeName(t)}
	}
	if s, ok := scalarKinds[t.Kind()]; ok {
		limits := integerLimits[t.Kind()]
		return &schema{shape: s, goType: typeName(t), least: limits[0], most: limits[1]}
	}
	switch t.Kind() {
	case reflect.Struct:
		return b.object(t)
	case reflect.Map:
		return &schema{shape: shapeMap, elem: b.build(t.Elem())}
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return &schema{shape: shapeString} // base64
		}
		return &schema{shape: shapeAtomic, elem: b.build(t.Elem())}
	}
	return &schema{shape: shapeAny, goType: typeName(t)}
}

func (b schemaBuilder) object(t reflect.Type) *schema {
	if s := b.done[t]; s != nil {
		return s
	}
	s := &schema{
		shape: shapeObject, goType: typeName(t),
		fields: map[string]*schema{}, required: map[string]bool{}, alternatives: map[string][]string{},
	}
	b.done[t] = s
	b.addFields(s, t)
	return s
}

func (b schemaBuilder) addFields(s *schema, t reflect.Type) {
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
			field = &schema{shape: shapeKeyed, elem: field.elem, keys: keys}
		}
		s.fields[name] = field
		if options == "" {
			s.required[name] = true
		}
	}
	for _, group := range oneOfs[owner] {
		s.addGroup(group)
	}
}

func (s *schema) addGroup(group oneOf) {
	for i, alternative := range group {
		for j, other := range group {
			if i == j {
				continue
			}
			for _, name := range alternative {
				s.alternatives[name] = append(s.alternatives[name], other...)
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

// at returns the schema at p; nil if the types have no such field.
func (s *schema) at(p provenance.Path) *schema {
	for _, seg := range p {
		if s = s.step(seg); s == nil {
			return nil
		}
	}
	return s
}

func (s *schema) step(seg provenance.Segment) *schema {
	switch {
	case s.shape == shapeAny:
		return s
	case s.shape == shapeObject && seg.Kind == provenance.Field:
		return s.fields[seg.Name]
	case s.shape == shapeMap && seg.Kind == provenance.Field, s.shape == shapeKeyed && seg.Kind != provenance.Field:
		return s.elem
	}
	return nil
}
