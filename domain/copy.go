package domain

import "reflect"

// copied returns a deep copy of a value of structs, pointers, slices, maps and strings, such as a
// domain. Values of maps are not copied.
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
			to.Set(reflect.MakeSlice(from.Type(), from.Len(), from.Len()))
		}
		for i := range from.Len() {
			copyInto(to.Index(i), from.Index(i))
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

// fill copies to a value what it lacks and another value of its type has. Zero values are missing;
// structs and maps are filled field by field.
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

func fillMap(to, from reflect.Value) {
	for key, value := range from.Seq2() {
		if !to.MapIndex(key).IsValid() {
			to.SetMapIndex(key, value)
		}
	}
}
