package presets

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

// unknownField suggests another field for one that s lacks. Parent may be nil.
func unknownField(name string, s, parent *schema) string {
	unknown := fmt.Sprintf("unknown field %q", name)
	if meant := otherNames[name]; s.fields[meant] != nil {
		return fmt.Sprintf("%s; did you mean %q?", unknown, meant)
	}
	if name == "dev" && s.fields["bus"] != nil {
		return unknown + "; guests name their disks themselves, so leave it out"
	}
	if s.fields["requests"] != nil && (name == "cpu" || name == "memory") {
		return unknown + "; it belongs under requests, or limits"
	}
	if below := fieldBelow(name, s); len(below) > 0 {
		return fmt.Sprintf("%s; it belongs under %s", unknown, strings.Join(below, " or "))
	}
	if parent != nil && parent.fields[name] != nil {
		return unknown + "; it belongs one level higher"
	}
	return unknown + nearField(name, s)
}

// nearField suggests the field of s that name may be a misspelling of, or else lists all fields.
func nearField(name string, s *schema) string {
	if near := cmp.Or(onlyPrefixed(name, s), spelling.Nearest(name, maps.Keys(s.fields))); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	return "; known fields: " + strings.Join(slices.Sorted(maps.Keys(s.fields)), ", ")
}

// fieldBelow returns the paths of the nearest objects beneath s that have the field, if few have.
func fieldBelow(name string, s *schema) []string {
	level := map[string]*schema{"": s}
	for range maxDescent {
		next := map[string]*schema{}
		var found []string
		for parent, at := range level {
			for field, sub := range at.fields {
				if sub.shape != shapeObject {
					continue
				}
				path := strings.TrimPrefix(parent+"."+field, ".")
				next[path] = sub
				if sub.fields[name] != nil {
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

func onlyPrefixed(name string, s *schema) string {
	var out []string
	for field := range s.fields {
		if strings.HasPrefix(strings.ToLower(field), strings.ToLower(name)) {
			out = append(out, field)
		}
	}
	if len(out) != 1 || len(name) < 3 {
		return ""
	}
	return out[0]
}
