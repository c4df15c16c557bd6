package presets

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// otherNames are names that people know for a field, and names that it once had.
var otherNames = map[string]string{"registryDisk": "containerDisk", "mac": "macAddress"}

// maxDescent is how many objects deep a field is sought that was written too high.
const maxDescent = 3

// maxPlaces is how many places a message names for a field.
const maxPlaces = 3

// unknownField says that s, which lies in parent, has no such field, and which one may be
// meant. Parent may be nil.
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

// nearField names the field of s that name may be a misspelling of, or all fields.
func nearField(name string, s *schema) string {
	if longer := onlyPrefixed(name, s); longer != "" {
		return fmt.Sprintf("; did you mean %q?", longer)
	}
	if best := Nearest(name, maps.Keys(s.fields)); best != "" {
		return fmt.Sprintf("; did you mean %q?", best)
	}
	return "; known are " + strings.Join(slices.Sorted(maps.Keys(s.fields)), ", ")
}

// fieldBelow returns the paths of the objects beneath s that have the field, if they are few;
// the least deep ones count.
func fieldBelow(name string, s *schema) []string {
	type place struct {
		path string
		at   *schema
	}
	level := []place{{"", s}}
	for range maxDescent {
		var next, found []place
		for _, p := range level {
			for _, field := range slices.Sorted(maps.Keys(p.at.fields)) {
				sub := p.at.fields[field]
				if sub.shape != shapeObject {
					continue
				}
				below := place{strings.TrimPrefix(p.path+"."+field, "."), sub}
				next = append(next, below)
				if sub.fields[name] != nil {
					found = append(found, below)
				}
			}
		}
		var out []string
		for _, p := range found {
			out = append(out, p.path)
		}
		if len(found) > maxPlaces {
			return nil
		}
		if len(found) > 0 {
			return out
		}
		level = next
	}
	return nil
}

// onlyPrefixed returns the only field that begins with name, as macAddress does with mac.
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
