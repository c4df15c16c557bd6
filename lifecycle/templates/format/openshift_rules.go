//go:build !librarygo

package format

import (
	"errors"
	"fmt"
	"maps"
	"math/rand"
	"regexp"
	"strconv"
	"strings"
)

// openshift processes by OpenShift's rules, until its own code can be built in
// (tag librarygo): references to what is no parameter stay, and labels are added
// to every object.
func (d *document) openshift(given map[string]string) (result, error) {
	values, err := d.values(given)
	if err != nil {
		return result{}, err
	}
	s := substitution{values: values, lenient: true}
	r := result{values: values, message: s.text(d.Message)}
	for _, object := range d.Objects {
		fields, ok := s.in(object).(map[string]any)
		if !ok {
			return result{}, errors.New("an object is none")
		}
		if meta, ok := fields["metadata"].(map[string]any); ok && len(d.Labels) > 0 {
			labels, _ := meta["labels"].(map[string]any)
			merged := maps.Clone(labels)
			if merged == nil {
				merged = map[string]any{}
			}
			for key, value := range d.Labels {
				merged[s.text(key)] = s.text(value)
			}
			meta["labels"] = merged
		}
		r.objects = append(r.objects, fields)
	}
	if s.err != nil {
		return result{}, s.err
	}
	return r, nil
}

var ranges = regexp.MustCompile(`\[([a-z0-9A-Z-]+)\]\{([0-9]{1,3})\}`)

// generate makes a value of a parameter's expression.
func generate(p parameter) (string, error) {
	if p.Generate != "expression" {
		return "", fmt.Errorf("cannot generate a value of the parameter %s: there is no generator %q", p.Name, p.Generate)
	}
	return ranges.ReplaceAllStringFunc(p.From, func(match string) string {
		found := ranges.FindStringSubmatch(match)
		var alphabet []byte
		for i := 0; i+2 < len(found[1]); i += 3 {
			for c := found[1][i]; c < found[1][i+2]; c++ {
				alphabet = append(alphabet, c)
			}
		}
		count, _ := strconv.Atoi(found[2])
		var out strings.Builder
		for range count {
			if len(alphabet) > 0 {
				out.WriteByte(alphabet[rand.Intn(len(alphabet))])
			}
		}
		return out.String()
	}), nil
}
