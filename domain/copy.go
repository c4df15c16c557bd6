package domain

import (
	"reflect"
)

// copied is a deep copy of a value made of structs, pointers, slices, maps
// and strings, as libvirt's domains are. Values of maps are not copied further.
func copied[T any](from *T) *T {
	to := new(T)
	copyInto(reflect.ValueOf(to).Elem(), reflect.ValueOf(from).Elem())
	return to
}

func copyInto(to, from reflect.Value) {
	switch from.Kind() {
	case reflect.Pointer:
		if !from.IsNil() {
			to.Set(reflect.New(from.Type().Elem()))
			copyInto(to.Elem(), from.Elem())
		}
	case reflect.Slice:
		if !from.IsNil() {
			copySlice(to, from)
		}
	case reflect.Struct:
		for i := range from.NumField() {
			copyInto(to.Field(i), from.Field(i))
		}
	case reflect.Map:
		if !from.IsNil() {
			to.Set(reflect.MakeMapWithSize(from.Type(), from.Len()))
			fillMap(to, from)
		}
	default:
		to.Set(from)
	}
}

func copySlice(to, from reflect.Value) {
	to.Set(reflect.MakeSlice(from.Type(), from.Len(), from.Len()))
	for i := range from.Len() {
		copyInto(to.Index(i), from.Index(i))
	}
}

// fill sets what is absent in one value to what another one of its type has: a
// zero value is absent, structs and maps are filled field by field. What is taken over
// is copied.
func fill(to, from reflect.Value) {
	switch {
	case from.IsZero():
	case to.IsZero():
		copyInto(to, from)
	case to.Kind() == reflect.Pointer && to.Elem().Kind() == reflect.Struct:
		fill(to.Elem(), from.Elem())
	case to.Kind() == reflect.Map:
		fillMap(to, from)
	case to.Kind() == reflect.Struct:
		for i := range to.NumField() {
			fill(to.Field(i), from.Field(i))
		}
	}
}

// fillMap adds the keys of one map that another one has not.
func fillMap(to, from reflect.Value) {
	for key, value := range from.Seq2() {
		if !to.MapIndex(key).IsValid() {
			to.SetMapIndex(key, value)
		}
	}
}
