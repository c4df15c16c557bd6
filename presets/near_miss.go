package presets

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets/provenance"
)

const (
	// maxNamed is how many presets a message about near misses names.
	maxNamed = 3
	// maxTypos is how many edits a misspelt label is away from the one that was meant.
	maxTypos = 2
	// maxLabels is how many labels a VM may have for them to be compared.
	maxLabels = 64
)

// selected are the labels that selectors of one scope ask for, by key and value, with the
// presets that ask for them. The keys, and the values of each, are sorted too.
type selected struct {
	byKey  map[string]map[string][]*Compiled
	keys   []string
	values map[string][]string
}

func (s *selected) add(c *Compiled) {
	if c.labels == nil || c.Mode == v1alpha1.ModeOff || c.legacy || c.Explicit {
		return
	}
	requirements, _ := c.labels.Requirements()
	for _, r := range requirements {
		switch r.Operator() {
		case selection.Equals, selection.DoubleEquals, selection.In:
			s.addValues(r, c)
		}
	}
}

func (s *selected) addValues(r labels.Requirement, c *Compiled) {
	if s.byKey == nil {
		s.byKey, s.values = map[string]map[string][]*Compiled{}, map[string][]string{}
	}
	key := r.Key()
	if s.byKey[key] == nil {
		s.byKey[key] = map[string][]*Compiled{}
		s.keys = append(s.keys, key)
	}
	for v := range r.Values() {
		if s.byKey[key][v] == nil {
			s.values[key] = append(s.values[key], v)
		}
		s.byKey[key][v] = append(s.byKey[key][v], c)
	}
}

// sort puts keys and values in order, once all presets are added.
func (s *selected) sort() {
	slices.Sort(s.keys)
	for _, values := range s.values {
		slices.Sort(values)
	}
}

// labelTypos warns of labels that no selector asks for and that are a slip of the finger
// away from one that a selector does. Known labels are not looked at again.
func (s *Snapshot) labelTypos(q *query, known labels.Set) []string {
	if q.owned || len(q.labels) > maxLabels {
		return nil // the VM's labels were looked at when the VM was written
	}
	both := [2]*selected{&s.cluster.selected}
	scopes := both[:1]
	if x := s.namespaced[q.namespace.Name]; x != nil {
		both[1] = &x.selected
		scopes = both[:]
	}
	var out []string
	for key, value := range q.labels {
		if was, ok := known[key]; ok && was == value {
			continue
		}
		if meant, ref := q.typoOf(key, value, scopes); ref != "" {
			out = append(out, fmt.Sprintf("label %s=%s: did you mean %s, which selects preset %s?", key, value, meant, ref))
		}
	}
	slices.Sort(out)
	return out[:min(len(out), maxNamed)]
}

// typoOf returns the label that was meant, and a preset that selects it.
func (q *query) typoOf(key, value string, scopes []*selected) (meant, ref string) {
	isKnown := false
	for _, s := range scopes {
		if s.byKey[key][value] != nil {
			return "", ""
		}
		isKnown = isKnown || s.byKey[key] != nil
	}
	for _, s := range scopes {
		keys := []string{key}
		if !isKnown {
			keys = typos(key, s.keys)
		}
		for _, k := range keys {
			values := typos(value, s.values[k])
			if s.byKey[k][value] != nil {
				values = []string{value}
			}
			for _, v := range values {
				if ref := q.selectedBy(s.byKey[k][v]); ref != "" {
					return k + "=" + v, ref
				}
			}
		}
	}
	return "", ""
}

// selectedBy returns the first of the presets that acts in the namespace.
func (q *query) selectedBy(presets []*Compiled) string {
	for _, c := range presets {
		if c.namespaces == nil || c.namespaces.Matches(labels.Set(q.namespace.Labels)) {
			return c.Ref
		}
	}
	return ""
}

// gives returns the path of a value that the preset gives at p or beneath it; empty where
// it gives none.
func (c *Compiled) gives(p provenance.Path) (leaf string) {
	for _, root := range []*fieldNode{c.defaults, c.overrides} {
		if root == nil {
			continue
		}
		visitLeaves(root, func(n *fieldNode) {
			if leaf == "" && n.at.HasPrefix(p) {
				leaf = n.path
			}
		})
	}
	return leaf
}

// A nearMiss is a preset that gives what a VM lacks, and does not act on it.
type nearMiss struct {
	preset *Compiled
	leaf   string
	// why it does not act, and how far the VM is from it.
	why      string
	distance int
}

// Givers lists, for each field that a problem names, the presets that would give it to an
// object, with what keeps them from acting: at most three, those first that need the
// smallest change. Explicit presets are left out: not everybody may use them.
func (e *Engine) Givers(ctx context.Context, s *Snapshot, req Request, fields ...string) [][]string {
	out := make([][]string, len(fields))
	w, err := load(req.Kind, req.Object)
	if err != nil {
		return out
	}
	owner, err := w.adoptOwner(req.Owner)
	if err != nil {
		return out
	}
	q := w.query(ctx, req, owner)
	q.eval.left = namespaceCost // for all presets together
	paths := make([]provenance.Path, len(fields))
	for i, text := range fields {
		paths[i] = w.pathOf(text)
	}
	found := make([][]nearMiss, len(fields))
	for _, c := range s.all {
		if ctx.Err() != nil || !c.couldGive(req.Namespace.Name) {
			continue
		}
		q.addNearMisses(c, paths, found)
	}
	for i := range found {
		out[i] = describe(found[i])
	}
	return out
}

// addNearMisses adds the preset to those that would give a value at one of the paths.
func (q *query) addNearMisses(c *Compiled, paths []provenance.Path, found [][]nearMiss) {
	why, distance, judged := "", 0, false
	for i, p := range paths {
		if p == nil {
			continue
		}
		leaf := c.gives(p)
		if leaf == "" {
			continue
		}
		if !judged {
			why, distance = q.separates(c)
			judged = true
		}
		if why != "" {
			found[i] = append(found[i], nearMiss{c, leaf, why, distance})
		}
	}
}

// describe describes the nearest of the presets.
func describe(found []nearMiss) []string {
	slices.SortStableFunc(found, func(a, b nearMiss) int { return cmp.Compare(a.distance, b.distance) })
	if i := slices.IndexFunc(found, func(m nearMiss) bool { return m.distance >= farLabel }); i > 0 {
		found = found[:i] // the others are beside the point where a label is misspelt
	}
	var out []string
	for _, m := range found[:min(len(found), maxNamed)] {
		out = append(out, fmt.Sprintf("preset %s gives %s to %s", m.preset.Ref, shortPath(m.leaf), m.why))
	}
	return out
}

// couldGive reports whether the preset sets values in a namespace at all.
func (c *Compiled) couldGive(namespace string) bool {
	return c.Mode == v1alpha1.ModeEnforce && !c.legacy && !c.Explicit && (c.Cluster() || c.Namespace == namespace)
}

// shortPath leaves out what all paths in a template begin with.
func shortPath(path string) string {
	for _, prefix := range []string{"spec.template.spec.domain.", "spec.template.spec.", "spec."} {
		if rest, ok := strings.CutPrefix(path, prefix); ok {
			return rest
		}
	}
	return path
}

// Distances of a VM from a preset, in edits of a label.
const (
	farLabel     = 10
	farCondition = 12
	farNamespace = 20
)

// separates says to which VMs the preset gives its values, and what this VM has instead;
// empty where the preset acts.
func (q *query) separates(c *Compiled) (why string, distance int) {
	vm := "this VM"
	if q.launch {
		vm = "this VMI"
	}
	var out separation
	if c.labels != nil && !c.labels.Matches(q.labels) {
		wanted, have, d := mismatch(c.labels, q.labels)
		out.add("with "+wanted, vm+" has "+have, d)
	}
	if c.namespaces != nil && !c.namespaces.Matches(labels.Set(q.namespace.Labels)) {
		wanted, have, d := mismatch(c.namespaces, labels.Set(q.namespace.Labels))
		out.add("in namespaces with "+wanted, "namespace "+q.namespace.Name+" has "+have, farNamespace+d)
	}
	if all, paths := q.selection.excludes(c.Ref); all || len(paths) > 0 {
		out.add("that do not exclude it", vm+" does, in the annotation "+v1alpha1.AnnotationExclude, 0)
	}
	if name := q.falseCondition(c); name != "" {
		out.add("for which its "+name+" is true", "", farCondition)
	}
	return out.String(), out.distance
}

// A separation is what keeps a VM from a preset.
type separation struct {
	wants, has []string
	distance   int
}

func (s *separation) add(want, has string, distance int) {
	s.wants, s.distance = append(s.wants, want), s.distance+distance
	if has != "" {
		s.has = append(s.has, has)
	}
}

func (s *separation) String() string {
	switch {
	case len(s.wants) == 0:
		return ""
	case len(s.has) == 0:
		return "VMs " + strings.Join(s.wants, " ")
	}
	return "VMs " + strings.Join(s.wants, " ") + "; " + strings.Join(s.has, ", ")
}

// falseCondition names the first condition of the preset that is false for the VM. It passes
// over those that cannot be evaluated.
func (q *query) falseCondition(c *Compiled) string {
	for _, condition := range c.conditions {
		if ok, err := q.eval.holds(condition); err == nil && !ok {
			return condition.name
		}
	}
	return ""
}

// mismatch says what a selector wants, and what labels have instead.
func mismatch(s labels.Selector, set labels.Set) (wanted, has string, distance int) {
	requirements, _ := s.Requirements()
	var wants, have []string
	for _, r := range requirements {
		if r.Matches(set) {
			continue
		}
		wants = append(wants, r.String())
		value, ok := set[r.Key()]
		distance += farLabel
		switch {
		case !ok:
			have = append(have, "no label "+r.Key())
		default:
			have = append(have, r.Key()+"="+value)
			if near := typos(value, r.Values().List()); len(near) > 0 {
				distance += editDistance(value, near[0]) - farLabel
			}
		}
	}
	return strings.Join(wants, ","), strings.Join(have, " and "), distance
}
