package learn

import (
	"encoding/json"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
)

// mostDerived is how few of the VMs with a field may have another value than a label says: one of
// that many.
const mostDerived = 10

// A derivation is a field whose value most VMs have from a label.
type derivation struct {
	path int
	// of returns the labels, or annotations, that have the value.
	of         func(row) map[string]string
	key        string
	ofVM       bool
	expression string
}

// derive replaces values that most VMs have from a label of their namespace, or from one of their
// own that no preset gives.
func (f *fleet) derive() {
	for path := range f.paths {
		var rows []row
		for _, r := range f.rows {
			if _, has := r.fields[path]; has {
				rows = append(rows, r)
			}
		}
		if d, found := f.derivation(path, rows); found {
			f.apply(d, rows)
		}
	}
}

// sources are the labels and annotations that values come from, in order of preference.
var sources = []struct {
	of         func(row) map[string]string
	ofVM       bool
	expression string
}{
	{of: func(r row) map[string]string { return r.Namespace.Labels }, expression: "namespaceObject.metadata.labels"},
	{of: func(r row) map[string]string { return r.Namespace.Annotations }, expression: "namespaceObject.metadata.annotations"},
	{of: func(r row) map[string]string { return r.labels }, ofVM: true, expression: "object.metadata.labels"},
}

func (f *fleet) derivation(path int, rows []row) (derivation, bool) {
	for _, s := range sources {
		for _, key := range slices.Sorted(maps.Keys(s.of(rows[0]))) {
			if key == corev1.LabelMetadataName || v1alpha1.IsToolLabel(key) || s.ofVM && f.selecting != nil && !f.selecting[key] {
				continue
			}
			d := derivation{path, s.of, key, s.ofVM, s.expression + "[" + quoted(key) + "]"}
			if f.holds(d, rows) {
				return d, true
			}
		}
	}
	return derivation{}, false
}

// holds reports whether all rows have the label, most of them its value, and not all the same.
func (f *fleet) holds(d derivation, rows []row) bool {
	values, others := map[string]bool{}, 0
	for _, r := range rows {
		switch text := d.of(r)[d.key]; text {
		case "":
			return false
		case f.values[r.fields[d.path]]:
			values[text] = true
		default:
			others++
		}
	}
	return len(values) > 1 && others*mostDerived <= len(rows)
}

func (f *fleet) apply(d derivation, rows []row) {
	number := f.addValue(f.paths[d.path].String()+"\n"+d.expression, map[string]any{presets.ComputedKey: d.expression})
	if d.ofVM {
		f.derived[number] = d.key
	}
	f.literals[number] = func(r row) string {
		text, _ := json.Marshal(d.of(r)[d.key])
		return f.paths[d.path].String() + "\n" + string(text)
	}
	for _, r := range rows {
		if f.values[r.fields[d.path]] == d.of(r)[d.key] {
			r.fields[d.path] = number
		}
	}
}
