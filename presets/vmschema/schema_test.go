package vmschema

import (
	"reflect"
	"strings"
	"testing"

	kubevirtv1 "kubevirt.io/api/core/v1"
)

// TestEveryListAndChoiceIsClassified walks KubeVirt's Go types: a list that stands in neither list
// table, a type with several optional members that stands in neither one-of table, and an entry for
// a type that does not exist, all fail.
func TestEveryListAndChoiceIsClassified(t *testing.T) {
	w := typeWalk{lists: map[string]bool{}, structs: map[string]bool{}, seen: map[reflect.Type]bool{}}
	w.walk(reflect.TypeFor[kubevirtv1.VirtualMachineSpec]())
	for name := range w.lists {
		_, keyed := keyedLists[name]
		_, atomic := atomicLists[name]
		if keyed == atomic {
			t.Errorf("list %s: keyed %v, atomic %v; want it in exactly one table of lists.go", name, keyed, atomic)
		}
	}
	for name, several := range w.structs {
		_, choice := oneOfs[name]
		_, no := independentMembers[name]
		if several && !choice && !no {
			t.Errorf("%s has several optional members: put it into one table of oneofs.go", name)
		}
		if choice && no {
			t.Errorf("%s stands in both tables of oneofs.go", name)
		}
	}
	for name := range keyedLists {
		if !w.lists[name] {
			t.Errorf("KubeVirt has no list %s", name)
		}
	}
	for name := range atomicLists {
		if !w.lists[name] {
			t.Errorf("KubeVirt has no list %s", name)
		}
	}
	for name, groups := range oneOfs {
		w.checkGroups(t, name, groups)
	}
	for name := range independentMembers {
		if _, ok := w.structs[name]; !ok {
			t.Errorf("KubeVirt has no type %s", name)
		}
	}
}

type typeWalk struct {
	lists   map[string]bool
	structs map[string]bool // with whether they have several optional members
	fields  map[string][]string
	seen    map[reflect.Type]bool
}

func (w *typeWalk) walk(t reflect.Type) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	// API machinery sets these fields; see reservedPath.
	if t.Kind() != reflect.Struct || w.seen[t] || scalarTypes[t] != 0 || t.Name() == "ObjectMeta" || t.Name() == "RawExtension" {
		return
	}
	w.seen[t] = true
	members := 0
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name != "" && name != "-" {
			w.note(t, name)
			if f.Type.Kind() == reflect.Slice && f.Type.Elem().Kind() != reflect.Uint8 {
				w.lists[typeName(t)+"."+name] = true
			}
			if f.Type.Kind() == reflect.Pointer && f.Type.Elem().Kind() == reflect.Struct && scalarTypes[f.Type.Elem()] == 0 {
				members++
			}
		}
		w.walk(f.Type)
	}
	w.structs[typeName(t)] = members > 1
}

func (w *typeWalk) note(t reflect.Type, field string) {
	if w.fields == nil {
		w.fields = map[string][]string{}
	}
	w.fields[typeName(t)] = append(w.fields[typeName(t)], field)
}

func (w *typeWalk) checkGroups(t *testing.T, name string, groups []oneOf) {
	s := VM()
	found := findSchema(s, name, map[*Schema]bool{})
	for _, group := range groups {
		for _, alternative := range group {
			for _, field := range alternative {
				if found != nil && found.Fields[field] == nil {
					t.Errorf("%s has no field %s", name, field)
				}
				if _, known := w.structs[name]; !known {
					t.Errorf("KubeVirt has no type %s", name)
				}
			}
		}
	}
}

// findSchema finds the schema of a type; embedded types have none of their own.
func findSchema(s *Schema, name string, seen map[*Schema]bool) *Schema {
	if s == nil || seen[s] {
		return nil
	}
	seen[s] = true
	if s.GoType == name {
		return s
	}
	for _, f := range s.Fields {
		if found := findSchema(f, name, seen); found != nil {
			return found
		}
	}
	return findSchema(s.Elem, name, seen)
}
