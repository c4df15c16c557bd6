package blueprint

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// token begins a reference in all engines.
const token = "${"

var mention = regexp.MustCompile(`\$\{+([A-Za-z0-9_]+)\}`)

// MaxExact is the largest integer up to which float64, the type that OpenShift uses, is exact.
const MaxExact = 1 << 53

// A site is a scalar of the VM. A site with a class becomes a parameter.
type site struct {
	at    path
	value any
	kind  Type
	class Class
	name  string
	// commonWord says that the secret may be a common word, which names, labels and keys may
	// contain.
	commonWord bool
	prefix     string // precedes the parameter

	parts []part // of its name
}

func (s *site) text() string {
	if text, ok := s.value.(string); ok {
		return text
	}
	encoded, _ := json.Marshal(s.value) // scalars have an encoding
	return string(encoded)
}

// collect lists the scalars of the VM except labels, and classifies the leaves of the instance spec
// as values.
func collect(d *draft) error {
	v := visitor{key: d.noteKey, scalar: func(at path, value any) error {
		s := &site{at: at, value: value, kind: typeOf(at, value)}
		if isLeaf(s) {
			s.class = Value
		}
		if isLarge(value) && at.inInstance() {
			d.warn("%s is an integer that no parameter can hold exactly, so it is not a parameter", at)
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
			return errors.New("metadata.labels: a label contains \"${\", which begins a reference")
		}
	}
	return nil
}

// noteKey reserves the names that a key mentions, because keys cannot be changed. LABELS cannot
// have another name: the error is reported after secrets are known.
func (d *draft) noteKey(parent path, key string) error {
	for _, found := range mention.FindAllStringSubmatch(key, -1) {
		if found[1] == labelsName && d.reservedKey == nil {
			d.reservedKey = fmt.Errorf("a key in %s contains a reference to parameter %s, which every template has", orRoot(parent), labelsName)
		}
		d.reserved[found[1]] = true
	}
	return nil
}

func isLeaf(s *site) bool {
	if !s.at.inInstance() || s.value == nil {
		return false
	}
	last := s.at[len(s.at)-1]
	_, isString := s.value.(string)
	return last.item || last.key != "name" || !isString
}

func isLarge(value any) bool {
	n, ok := value.(int64)
	return ok && (n > MaxExact || n < -MaxExact)
}

func typeOf(at path, value any) Type {
	_, isText := value.(string)
	if n := len(at); n > 3 && at[n-3].key == "resources" && !isText { // resources.requests.cpu
		return Quantity
	}
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
