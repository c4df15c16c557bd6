package blueprint

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// token begins what engines of templates take for a reference.
const token = "${"

// mention finds what an engine could take for the name of a parameter.
var mention = regexp.MustCompile(`\$\{+([A-Za-z0-9_]+)\}`)

// exact is the largest integer up to which a float64, in which OpenShift reads
// the values of parameters, holds every one.
const exact = 1 << 53

// A site is a scalar of the tree. One with a class becomes a parameter.
type site struct {
	at    path
	value any
	kind  Type
	class Class
	name  string
	// word says that the secret may be a common word, which names, labels and keys may contain.
	word bool
	// before stands before the parameter.
	before string

	parts []part // of its name
}

// text is the value as a parameter has it.
func (s *site) text() string {
	if text, ok := s.value.(string); ok {
		return text
	}
	encoded, _ := json.Marshal(s.value) // scalars of JSON encode
	return string(encoded)
}

// collect lists the scalars of the tree, and makes parameters of the leaves of
// the instance. Labels have a parameter of their own.
func collect(d *draft) error {
	v := visitor{key: d.noteKey, scalar: func(at path, value any) error {
		s := &site{at: at, value: value, kind: typeOf(value)}
		if leaf(s) {
			s.class = Value
		}
		if large(value) && at.inInstance() {
			d.warn("%s is an integer that no parameter can hold exactly, and stays as it is", at)
			s.class = ""
		}
		d.sites = append(d.sites, s)
		return nil
	}}
	meta := d.tree["metadata"].(map[string]any)
	labels := meta["labels"]
	delete(meta, "labels")
	err := v.walk(nil, d.tree)
	meta["labels"] = labels
	if err != nil {
		return err
	}
	for key, value := range d.labels {
		if strings.Contains(key+value, token) {
			return errors.New("metadata.labels is invalid: a label has \"${\" in it")
		}
	}
	return nil
}

// noteKey reserves what a key mentions, for keys stay as they are. One that
// mentions what cannot have another name is an error, told once it is known
// that no secret is in its path.
func (d *draft) noteKey(parent path, key string) error {
	for _, found := range mention.FindAllStringSubmatch(key, -1) {
		if found[1] == labelsName && d.captured == nil {
			d.captured = fmt.Errorf("a key in %s mentions the parameter %s, which every template has", orRoot(parent), labelsName)
		}
		d.reserved[found[1]] = true
	}
	return nil
}

// leaf says whether a scalar is a value of the instance, other than a name.
func leaf(s *site) bool {
	if !s.at.inInstance() || s.value == nil {
		return false
	}
	last := s.at[len(s.at)-1]
	_, isText := s.value.(string)
	return last.item || last.key != "name" || !isText
}

func large(value any) bool {
	n, ok := value.(int64)
	return ok && (n > exact || n < -exact)
}

func typeOf(value any) Type {
	switch value.(type) {
	case int64:
		return Integer
	case float64:
		return Number
	case bool:
		return Boolean
	default:
		return String
	}
}

func orRoot(p path) string {
	if len(p) == 0 {
		return "the VM"
	}
	return p.String()
}
