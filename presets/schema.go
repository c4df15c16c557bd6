package presets

import (
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

// A schema is what the engine knows of one place in a VirtualMachine. It is
// made from KubeVirt's Go types and the two tables beside this file.
type schema struct {
	shape shape
	// typ names the Go type, as in core/v1.Devices.
	typ string
	// fields of an object by JSON name.
	fields map[string]*schema
	// required are the fields that KubeVirt's types always have.
	required map[string]bool
	// quantities are the fields of an object that are quantities or have some in them.
	quantities []string
	// elem is the schema of a map's values or of a list's elements.
	elem *schema
	// keys of a keyed list, in the order in which they make up an element's name.
	keys []listKey
	// rivals has, for a field in a one-of group, the fields it excludes.
	rivals map[string][]string
}

// vmSchema is the schema of a whole VirtualMachine.
var vmSchema = sync.OnceValue(func() *schema {
	b := schemaBuilder{done: map[reflect.Type]*schema{}}
	s := b.of(reflect.TypeFor[kubevirtv1.VirtualMachine]())
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

func (b schemaBuilder) of(t reflect.Type) *schema {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if s, ok := scalarTypes[t]; ok {
		return &schema{shape: s, typ: typeName(t)}
	}
	if s, ok := scalarKinds[t.Kind()]; ok {
		return &schema{shape: s, typ: typeName(t)}
	}
	switch t.Kind() {
	case reflect.Struct:
		return b.object(t)
	case reflect.Map:
		return &schema{shape: shapeMap, elem: b.of(t.Elem())}
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return &schema{shape: shapeString} // base64
		}
		return &schema{shape: shapeAtomic, elem: b.of(t.Elem())}
	}
	return &schema{shape: shapeAny, typ: typeName(t)}
}

func (s *schema) require(name string) {
	if s.required == nil {
		s.required = map[string]bool{}
	}
	s.required[name] = true
}

func (b schemaBuilder) object(t reflect.Type) *schema {
	if s := b.done[t]; s != nil {
		return s
	}
	s := &schema{shape: shapeObject, typ: typeName(t), fields: map[string]*schema{}}
	b.done[t] = s
	b.addFields(s, t)
	for _, group := range oneOfs[s.typ] {
		s.addGroup(group)
	}
	return s
}

// addFields adds the fields of t to s; embedded structs count as s itself.
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
			for _, group := range oneOfs[typeName(embedded)] {
				s.addGroup(group)
			}
			continue
		}
		if name == "" || name == "-" {
			continue
		}
		field := b.of(f.Type)
		if keys := keyedLists[owner+"."+name]; keys != nil {
			field = &schema{shape: shapeKeyed, elem: field.elem, keys: keys}
		}
		s.fields[name] = field
		if options == "" {
			s.require(name)
		}
	}
}

// addGroup makes every field of one alternative a rival of every field of the others.
func (s *schema) addGroup(group oneOf) {
	if s.rivals == nil {
		s.rivals = map[string][]string{}
	}
	for i, alternative := range group {
		for j, other := range group {
			if i == j {
				continue
			}
			for _, name := range alternative {
				s.rivals[name] = append(s.rivals[name], other...)
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

// at returns the schema at p, nil where the types have nothing there.
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
	case s.shape == shapeMap && seg.Kind == provenance.Field:
		return s.elem
	case s.shape == shapeKeyed && seg.Kind != provenance.Field:
		return s.elem
	}
	return nil
}
