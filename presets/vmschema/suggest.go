package vmschema

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/virtwright/virtwright/presets/spelling"
)

var otherNames = map[string]string{"registryDisk": "containerDisk", "mac": "macAddress"}

// maxDescent is how many objects deep a field is searched that was written too high.
const maxDescent = 3

const maxPlaces = 3

// UnknownField suggests another field for one that s lacks. Parent may be nil.
func UnknownField(name string, s, parent *Schema) string {
	unknown := fmt.Sprintf("unknown field %q", name)
	if meant := otherNames[name]; s.Fields[meant] != nil {
		return fmt.Sprintf("%s; did you mean %q?", unknown, meant)
	}
	if name == "dev" && s.Fields["bus"] != nil {
		return unknown + "; guests name their disks themselves, so leave it out"
	}
	if s.Fields["requests"] != nil && (name == "cpu" || name == "memory") {
		return unknown + "; it belongs under requests, or limits"
	}
	if below := fieldBelow(name, s); len(below) > 0 {
		return fmt.Sprintf("%s; it belongs under %s", unknown, strings.Join(below, " or "))
	}
	if parent != nil && parent.Fields[name] != nil {
		return unknown + "; it belongs one level higher"
	}
	return unknown + nearField(name, s)
}

// nearField suggests the field of s that name may be a misspelling of, or else lists all fields.
func nearField(name string, s *Schema) string {
	if near := cmp.Or(onlyPrefixed(name, s), spelling.Nearest(name, maps.Keys(s.Fields))); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	return "; known fields: " + strings.Join(slices.Sorted(maps.Keys(s.Fields)), ", ")
}

// fieldBelow returns the paths of the nearest objects beneath s that have the field, if few have.
func fieldBelow(name string, s *Schema) []string {
	level := map[string]*Schema{"": s}
	for range maxDescent {
		next := map[string]*Schema{}
		var found []string
		for parent, at := range level {
			for field, sub := range at.Fields {
				if sub.Shape != Object {
					continue
				}
				path := strings.TrimPrefix(parent+"."+field, ".")
				next[path] = sub
				if sub.Fields[name] != nil {
					found = append(found, path)
				}
			}
		}
		if len(found) > maxPlaces {
			return nil
		}
		if len(found) > 0 {
			return slices.Sorted(slices.Values(found))
		}
		level = next
	}
	return nil
}

func onlyPrefixed(name string, s *Schema) string {
	var out []string
	for field := range s.Fields {
		if strings.HasPrefix(strings.ToLower(field), strings.ToLower(name)) {
			out = append(out, field)
		}
	}
	if len(out) != 1 || len(name) < 3 {
		return ""
	}
	return out[0]
}
