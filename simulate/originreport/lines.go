// Package originreport shows an expanded VM as lines of YAML that know their origins: as values for
// the playground, as a web page and as a picture.
package originreport

import (
	"slices"
	"strings"

	yaml3 "go.yaml.in/yaml/v3"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/provenance"
)

// A VM is an expanded VM or VMI with the origins of its fields.
type VM struct {
	Kind   presets.Kind
	Object map[string]any
	// YAML is Object as virtwright expand prints it.
	YAML        string
	Explanation *presets.Explanation
	// Damaged is true if the record cannot be read.
	Damaged bool
	// Under limits the lines to a field, the fields beneath it and its parents.
	Under provenance.Path
}

// A Line is a line of YAML, a field that a preset removed, or a field that an instancetype or a
// preference sets when the VM starts. Without the last two, the lines are the YAML of the VM.
type Line struct {
	Text string `json:"text"`
	// Path of the leaf that this line shows, as in virtwright explain.
	Path string `json:"path,omitempty"`
	// From is the origin of the leaf, as in Source. It is empty for lines without a leaf, for the
	// record of origins, and for the fields that API servers set.
	From string `json:"from,omitempty"`
	// By names the origin, as in Source.String.
	By string `json:"by,omitempty"`
	// Class is the class of the origin, as in Source.Class, or ClassLost for a removed field.
	Class string `json:"class,omitempty"`
	// Notes are sentences: the values that lost, the reasons, the expression of a computed value.
	Notes   []string `json:"notes,omitempty"`
	Removed bool     `json:"removed,omitempty"`
	// Lost is the strongest value that this one overruled, if it is short.
	Lost string `json:"-"`
}

// AtStart reports whether the field is absent until the VM starts.
func (l Line) AtStart() bool { return l.From == "instancetype" || l.From == "preference" }

// Lines returns the lines of a VM. If its YAML cannot be parsed, they have no origins.
func (vm VM) Lines() []Line {
	w := &walk{vm: vm, extra: map[int][]entry{}, shown: map[string]bool{}}
	w.text = strings.Split(strings.TrimSuffix(vm.YAML, "\n"), "\n")
	w.at = make([]entry, len(w.text))
	for i, text := range w.text {
		w.at[i].Text = text
	}
	var root yaml3.Node
	if err := yaml3.Unmarshal([]byte(singleBreaks.Replace(vm.YAML)), &root); err == nil && len(root.Content) > 0 {
		w.visit(root.Content[0], vm.Object, vm.root())
		w.fillContinuations()
		w.annotate()
	}
	var out []Line
	for _, e := range w.entries() {
		if len(vm.Under) == 0 || overlap(e.path, vm.Under) {
			out = append(out, e.Line)
		}
	}
	return out
}

// singleBreaks replaces the characters, except newlines, that end a line in YAML 1.1.
var singleBreaks = strings.NewReplacer("\r", " ", "\u0085", " ", "\u2028", " ", "\u2029", " ")

// root returns the path of the object's root. Paths of a VMI begin at the root of a VM.
func (vm VM) root() provenance.Path {
	if vm.Kind == presets.VirtualMachineInstance {
		return provenance.Of("spec", "template")
	}
	return nil
}

// child returns the path of a field. Only two fields of a VMI are in the template of a VM.
func (vm VM) child(p provenance.Path, name string) provenance.Path {
	if vm.Kind == presets.VirtualMachineInstance && p.Equal(vm.root()) && name != "metadata" && name != "spec" {
		return provenance.Of(name)
	}
	return p.Field(name)
}

// overlap reports whether one path is a prefix of the other.
func overlap(p, under provenance.Path) bool {
	return p.HasPrefix(under[:min(len(p), len(under))])
}

// An entry is a line with its full path.
type entry struct {
	Line
	path   provenance.Path
	leaf   bool
	marked bool
}

// A block is an object that has a line for each field.
type block struct {
	path      provenance.Path
	fields    []field
	indent    int
	last      int // index of the last line that begins a field within the block
	inElement bool
}

type field struct {
	name  string
	start int
}

// A walk visits the nodes of YAML, to find the path of each line.
type walk struct {
	vm     VM
	text   []string
	at     []entry // by line
	blocks []*block
	last   int
	extra  map[int][]entry // after a line
	shown  map[string]bool // paths of leaves
}

func (w *walk) mark(line int, p provenance.Path, leaf bool) {
	w.last = line - 1
	e := &w.at[w.last]
	e.path, e.leaf, e.marked = p, leaf, true
	if leaf {
		w.shown[p.String()] = true
	}
}

func (w *walk) visit(n *yaml3.Node, v any, p provenance.Path) {
	fields, _ := v.(map[string]any)
	list, _ := v.([]any)
	switch {
	case n.Kind == yaml3.MappingNode && len(n.Content) > 0:
		b := &block{path: p, indent: n.Content[0].Column - 1}
		b.inElement = len(p) > 0 && p[len(p)-1].Kind == provenance.Element
		for i := 0; i+1 < len(n.Content); i += 2 {
			key, value := n.Content[i], n.Content[i+1]
			child := w.vm.child(p, key.Value)
			b.fields = append(b.fields, field{key.Value, key.Line - 1})
			w.mark(key.Line, child, false)
			w.visit(value, fields[key.Value], child)
		}
		b.last = w.last
		w.blocks = append(w.blocks, b)
	case n.Kind == yaml3.SequenceNode && len(n.Content) > 0 && len(list) == len(n.Content):
		w.visitList(n, list, p)
	default:
		w.mark(w.last+1, p, true)
	}
}

func (w *walk) visitList(n *yaml3.Node, list []any, p provenance.Path) {
	keys := presets.ElementKeys(p, list)
	if keys == nil {
		w.mark(w.last+1, p, true)
		return
	}
	for i, element := range n.Content {
		at := p.Element(keys[i])
		w.mark(element.Line, at, false)
		w.visit(element, list[i], at)
	}
}

// fillContinuations gives the further lines of a text or a list the path of its first line. The
// last lines of objects in JSON have none.
func (w *walk) fillContinuations() {
	for i := 1; i < len(w.at); i++ {
		before, e := w.at[i-1], &w.at[i]
		closing := strings.Trim(e.Text, "{ ]},") == "" && strings.HasPrefix(strings.TrimPrefix(w.vm.YAML, "---\n"), "{")
		if !e.marked && !closing {
			e.path, e.leaf = before.path, before.leaf
		}
	}
}

// annotate fills in the origins, and adds the fields that the YAML does not have.
func (w *walk) annotate() {
	origins := map[string]presets.Origin{}
	for _, o := range w.vm.Explanation.Fields {
		switch text := o.Path.String(); {
		case o.ContributedBy.Name != "", o.Value == nil && !w.shown[text]:
			w.insert(o)
		default:
			origins[text] = o
		}
	}
	for i, e := range w.at {
		if !e.leaf {
			continue
		}
		text := e.path.String()
		if o, found := origins[text]; found {
			w.at[i].Line = w.vm.describe(o, e.Text)
		} else {
			w.at[i].From, w.at[i].By = w.vm.unlisted(e.path)
			w.at[i].Class = Source{From: w.at[i].From}.Class()
		}
		w.at[i].Path = text
	}
}

// Record is the origin of the annotation that holds the origins of all fields.
const Record = "record of origins"

// unlisted returns the origin of a leaf that explanations do not list.
func (vm VM) unlisted(p provenance.Path) (from, by string) {
	annotation := provenance.Segment{Name: v1alpha1.AnnotationProvenance}
	switch {
	case p[len(p)-1] == annotation:
		return "", Record
	case p.HasPrefix(provenance.Of("status")), p.HasPrefix(vm.root().Field("metadata")):
		return "", "the API server"
	case len(p) == 1: // apiVersion and kind of a VMI
		return "user", "user"
	}
	return "unknown", "unknown"
}

func (w *walk) entries() []entry {
	out := slices.Clone(w.extra[-1])
	for i, e := range w.at {
		out = append(append(out, e), w.extra[i]...)
	}
	return out
}
