package presets

import (
	"cmp"
	"context"
	"fmt"
	"maps"
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
	// maxCompared is how many keys, or values of a key, a label is compared with.
	maxCompared = 64
)

// selected are the labels that selectors of one scope ask for: by key and value, with the
// Ref of one preset.
type selected struct{ byKey map[string]map[string]string }

func (s *selected) add(c *Compiled) {
	if c.labels == nil || c.Mode == v1alpha1.ModeOff || c.legacy {
		return
	}
	requirements, _ := c.labels.Requirements()
	for _, r := range requirements {
		switch r.Operator() {
		case selection.Equals, selection.DoubleEquals, selection.In:
			s.addValues(r, c.Ref)
		}
	}
}

func (s *selected) addValues(r labels.Requirement, ref string) {
	values := s.byKey[r.Key()]
	if values == nil {
		if s.byKey == nil {
			s.byKey = map[string]map[string]string{}
		}
		values = map[string]string{}
		s.byKey[r.Key()] = values
	}
	for v := range r.Values() {
		if first, ok := values[v]; !ok || ref < first {
			values[v] = ref
		}
	}
}

// labelTypos warns of labels that no selector asks for and that are a slip of the finger
// away from one that a selector does. Known labels are not looked at again.
func (s *Snapshot) labelTypos(q *query, known labels.Set) []string {
	if q.owned {
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
		if meant, ref := typoOf(key, value, scopes); ref != "" {
			out = append(out, fmt.Sprintf("label %s=%s: did you mean %s, which selects preset %s?", key, value, meant, ref))
		}
	}
	slices.Sort(out)
	return out[:min(len(out), maxNamed)]
}

// typoOf returns the label that was meant, and a preset that selects it.
func typoOf(key, value string, scopes []*selected) (meant, ref string) {
	isKnown := false
	for _, s := range scopes {
		if s.byKey[key][value] != "" {
			return "", ""
		}
		isKnown = isKnown || s.byKey[key] != nil
	}
	for _, s := range scopes {
		if isKnown {
			meant, ref = s.nearest(key, typos(value, maps.Keys(s.byKey[key])))
		} else {
			meant, ref = s.nearestKey(key, value)
		}
		if ref != "" {
			return meant, ref
		}
	}
	return "", ""
}

// nearest returns the first of the values that key was meant to have.
func (s *selected) nearest(key string, values []string) (meant, ref string) {
	if len(values) == 0 {
		return "", ""
	}
	return key + "=" + values[0], s.byKey[key][values[0]]
}

// nearestKey returns a label with a key near an unknown one, and the value or one near it.
func (s *selected) nearestKey(key, value string) (meant, ref string) {
	for _, k := range typos(key, maps.Keys(s.byKey)) {
		values := typos(value, maps.Keys(s.byKey[k]))
		if s.byKey[k][value] != "" {
			values = []string{value}
		}
		if meant, ref = s.nearest(k, values); ref != "" {
			return meant, ref
		}
	}
	return "", ""
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

// Givers lists presets that would give an object the field that a problem names, each with
// what keeps it from acting: at most three, those first that need the smallest change.
func (e *Engine) Givers(ctx context.Context, s *Snapshot, req Request, field string) []string {
	w, err := load(req.Kind, req.Object)
	if err != nil {
		return nil
	}
	owner, err := w.adoptOwner(req.Owner)
	p := w.pathOf(field)
	if err != nil || p == nil {
		return nil
	}
	q := w.query(ctx, req, owner)
	var found []nearMiss
	for _, c := range s.all {
		if leaf := c.gives(p); leaf != "" && c.couldGive(req.Namespace.Name) {
			if why, distance := q.separates(c); why != "" {
				found = append(found, nearMiss{c, leaf, why, distance})
			}
		}
	}
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
	return c.Mode == v1alpha1.ModeEnforce && !c.legacy && (c.Cluster() || c.Namespace == namespace)
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
	farExplicit  = 15
	farNamespace = 20
)

// separates says to which VMs the preset gives its values, and what this VM has instead;
// empty where the preset acts.
func (q *query) separates(c *Compiled) (why string, distance int) {
	vm := "this VM"
	if q.launch {
		vm = "this VMI"
	}
	if c.labels != nil && !c.labels.Matches(q.labels) {
		wanted, has, d := mismatch(c.labels, q.labels)
		return fmt.Sprintf("VMs with %s; %s has %s", wanted, vm, has), d
	}
	if c.namespaces != nil && !c.namespaces.Matches(labels.Set(q.namespace.Labels)) {
		wanted, has, d := mismatch(c.namespaces, labels.Set(q.namespace.Labels))
		return fmt.Sprintf("VMs in namespaces with %s; namespace %s has %s", wanted, q.namespace.Name, has), farNamespace + d
	}
	return q.separatesOtherwise(c, vm)
}

// separatesOtherwise is separates for a preset whose selectors match.
func (q *query) separatesOtherwise(c *Compiled, vm string) (why string, distance int) {
	all, paths := q.selection.excludes(c.Ref)
	switch {
	case c.Explicit && !q.selection.names(c.Ref):
		return fmt.Sprintf("VMs that name it in the annotation %s", v1alpha1.AnnotationPresets), farExplicit
	case all || len(paths) > 0:
		return fmt.Sprintf("VMs that do not exclude it; %s does, in the annotation %s", vm, v1alpha1.AnnotationExclude), 0
	}
	q.eval.left = clusterCost
	for _, condition := range c.conditions {
		if ok, err := q.eval.holds(condition); err == nil && !ok {
			return fmt.Sprintf("VMs for which its %s is true", condition.name), farCondition
		}
	}
	return "", 0
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
			if near := typos(value, maps.Keys(r.Values())); len(near) > 0 {
				distance += editDistance(value, near[0]) - farLabel
			}
		}
	}
	return strings.Join(wants, ","), strings.Join(have, " and "), distance
}
