package learn

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/presets/vmschema"
)

// A fleet has the fields of VMs, in which names are generalized.
type fleet struct {
	Options
	// selecting are the labels that selectors may read, so that no preset gives them; nil for all.
	selecting map[string]bool
	// withheld are the paths of fields that choices for all VMs, or for namespaces, do not give.
	withheld map[int]bool
	common   map[string]bool // see commonTexts
	rows     []row
	features []feature
	classes  []class
	// texts and values are those of fields by their number, and numbers are the numbers by text.
	texts   []string
	values  []any
	numbers map[string]int
	// paths are those of fields by their number, and pathNumbers are the numbers by text.
	paths       []provenance.Path
	pathNumbers map[string]int
	// unfit are the numbers of values that no preset may have.
	unfit map[int]bool
	// derived are the labels of VMs that values come from, by the number of the value.
	derived map[int]string
	// literals return the text of what a VM has for a computed value, by the number of the value.
	literals map[int]func(row) string
	// others is the number of fields that presets may not give.
	others int
}

// A row is a VM.
type row struct {
	VM
	labels   map[string]string
	fields   map[int]int // the number of the value, by the number of the path
	features []feature
}

// A class is the VMs that all selectors treat alike.
type class struct {
	features []int
	rows     []int
	// counts are the numbers of VMs by the path and the value of fields that all of them have.
	counts map[int][]tally
}

// A tally is the number of VMs with a value, and of those that a choice would save it for.
type tally struct{ value, vms, saved int }

func numberOf(counts []tally, value int) int {
	for _, t := range counts {
		if t.value == value {
			return t.vms
		}
	}
	return 0
}

func newFleet(vms []VM, o Options, selecting map[string]bool) (*fleet, error) {
	f := &fleet{
		Options: o, selecting: selecting, derived: map[int]string{}, literals: map[int]func(row) string{}, unfit: map[int]bool{},
		numbers: map[string]int{}, pathNumbers: map[string]int{}, withheld: map[int]bool{},
	}
	f.common = commonTexts(vms)
	for _, m := range vms {
		object := f.generalized(m)
		r := row{VM: m, labels: ownLabels(object), fields: map[int]int{}, features: f.featuresOf(m)}
		fields, err := presets.Fields(m.Kind, object)
		if err != nil {
			return nil, fmt.Errorf("cannot read %s/%s: %w", m.Namespace.Name, m.Name, err)
		}
		for _, leaf := range fields {
			if err := f.add(r, leaf); err != nil {
				return nil, err
			}
		}
		f.rows = append(f.rows, r)
	}
	for _, text := range o.withheld {
		if at, known := f.pathNumbers[text]; known {
			f.withheld[at] = true
		}
	}
	f.derive()
	f.classify()
	return f, f.check()
}

// generalized returns a VM with nameMark in the place of its name.
func (f *fleet) generalized(m VM) map[string]any {
	if m.Name == "" {
		return m.Object
	}
	out, _ := generalized(m.Object, m.Name, f.common).(map[string]any)
	return out
}

// add adds a field to a row.
func (f *fleet) add(r row, leaf presets.Leaf) error {
	path := leaf.Path.String()
	if ofTool(leaf.Path) || !f.isLearned(r, leaf, path) {
		f.others++
		return nil
	}
	raw, err := json.Marshal(leaf.Value)
	if err != nil {
		return fmt.Errorf("cannot encode %s: %w", path, err)
	}
	text := path + "\n" + string(raw)
	at, known := f.pathNumbers[path]
	if !known {
		at = len(f.paths)
		f.pathNumbers[path], f.paths = at, append(f.paths, leaf.Path)
	}
	number, known := f.numbers[text]
	if !known {
		number = f.addValue(text, leaf.Value)
		f.numbers[text] = number
	}
	r.fields[at] = number
	return nil
}

func (f *fleet) addValue(text string, value any) int {
	f.texts, f.values = append(f.texts, text), append(f.values, value)
	return len(f.texts) - 1
}

// check finds the values that no preset may have, such as annotations that select presets.
func (f *fleet) check() error {
	if f.Check == nil {
		return nil
	}
	type use struct {
		path, class, count int
	}
	uses := map[int]use{}
	for class, c := range f.classes {
		for _, i := range c.rows {
			for path, value := range f.rows[i].fields {
				uses[value] = use{path, class, uses[value].count + 1}
			}
		}
	}
	for value, in := range uses {
		if in.count < f.Support {
			continue
		}
		one := &choice{selector: selector{extent: newSet(len(f.classes))}, values: map[int]int{in.path: value}}
		one.extent.add(in.class)
		preset, err := f.build(one, "one")
		if err != nil {
			return err
		}
		f.unfit[value] = f.Check(preset.Object) != nil
	}
	return nil
}

// kept are the fields that say whether a VM runs, or name what KubeVirt expands.
var kept = []provenance.Path{
	provenance.Of("spec", "running"), provenance.Of("spec", "runStrategy"),
	provenance.Of("spec", "instancetype"), provenance.Of("spec", "preference"),
}

var (
	labels         = provenance.Of("metadata", "labels")
	templateLabels = provenance.Of("spec", "template", "metadata", "labels")
)

// isLearned reports whether presets may give a field. Labels by which they select stay, but only
// once: on the VM or on its template.
func (f *fleet) isLearned(r row, leaf presets.Leaf, text string) bool {
	for _, at := range []provenance.Path{labels, templateLabels} {
		if !leaf.Path.HasPrefix(at) || len(leaf.Path) == len(at) {
			continue
		}
		key := leaf.Path[len(at)].Name
		onVM := r.Kind == presets.VirtualMachine && len(at) == len(templateLabels) && r.labels[key] == leaf.Value
		return onVM || f.selecting != nil && !f.selecting[key] && !f.Read[key]
	}
	return !mayBeSecret(leaf, text) && !slices.ContainsFunc(kept, leaf.Path.HasPrefix)
}

// ofTool reports whether a field is a label or an annotation by which a tool knows one VM.
func ofTool(p provenance.Path) bool {
	if len(p) == 0 {
		return false
	}
	parent, key := p[:len(p)-1], p[len(p)-1].Name
	return (parent.Equal(labels) || parent.Equal(templateLabels)) && v1alpha1.IsToolLabel(key) ||
		slices.ContainsFunc(annotations, parent.Equal) && v1alpha1.IsToolAnnotation(key)
}

func mayBeSecret(leaf presets.Leaf, text string) bool {
	return presets.MayHoldSecret(text) || hasCredentials(leaf.Value) || slices.ContainsFunc(annotations, leaf.Path.HasPrefix) && secretKey.MatchString(text)
}

var (
	annotations = []provenance.Path{provenance.Of("metadata", "annotations"), vmschema.TemplateAnnotations}
	// secretKey matches keys of annotations that may be secret, beside those of MayHoldSecret.
	secretKey = regexp.MustCompile(`(?i)secret|pass`)
	// credentials are words in texts that may be secret.
	credentials = regexp.MustCompile(`PRIVATE KEY|(?i)passw(or)?d`)
)

// hasCredentials reports whether a value names a secret, or is a URL, or the path of one, that may
// have credentials: a user or a query.
func hasCredentials(value any) bool {
	text, _ := value.(string)
	text, _, _ = strings.Cut(text, "@sha256:") // of an image
	at, err := url.Parse(text)
	switch {
	case credentials.MatchString(text):
		return true
	case err != nil: // such as a password with a percent sign
		return strings.ContainsAny(text, "@?")
	}
	return at.User != nil || at.RawQuery != "" || strings.Contains(at.Opaque+at.Fragment, "@")
}

// classify groups the VMs by those features that enough VMs have.
func (f *fleet) classify() {
	count := map[feature]int{}
	for _, r := range f.rows {
		for _, is := range r.features {
			count[is]++
		}
	}
	maps.DeleteFunc(count, func(_ feature, n int) bool { return n < f.Support })
	f.features = slices.SortedFunc(maps.Keys(count), func(a, b feature) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), strings.Compare(a.key, b.key), strings.Compare(a.value, b.value))
	})
	numbers := make(map[feature]int, len(f.features))
	for i, is := range f.features {
		numbers[is] = i
	}
	known := map[string]int{}
	for i, r := range f.rows {
		var has []int
		for _, is := range r.features {
			if n, ok := numbers[is]; ok {
				has = append(has, n)
			}
		}
		slices.Sort(has)
		key := fmt.Sprint(has)
		at, ok := known[key]
		if !ok {
			at = len(f.classes)
			known[key] = at
			f.classes = append(f.classes, class{features: has})
		}
		f.classes[at].rows = append(f.classes[at].rows, i)
	}
	for i := range f.classes {
		f.classes[i].count(f.rows)
	}
}

func (c *class) count(rows []row) {
	c.counts = map[int][]tally{}
	for path := range rows[c.rows[0]].fields {
		var values []tally
		for _, i := range c.rows {
			value, has := rows[i].fields[path]
			if !has {
				values = nil
				break
			}
			values = append(values, tally{value, 1, 1})
		}
		if values != nil {
			c.counts[path] = summed(values, 0)
		}
	}
}
