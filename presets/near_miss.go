package presets

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets/provenance"
)

const (
	// maxNamed is how many presets a message about near misses names.
	maxNamed  = 3
	maxTypos  = 2  // edits of a misspelled label
	maxLabels = 64 // of a VM, for them to be compared
)

// A labelIndex holds the labels that the selectors of one scope require, by key and value, with the
// presets that require them. Keys and values are also sorted, once all presets are added.
type labelIndex struct {
	byKey  map[string]map[string][]*Compiled
	keys   []string
	values map[string][]string
}

func (s *labelIndex) add(c *Compiled) {
	if c.Mode == v1alpha1.ModeOff || c.legacy || c.Explicit {
		return
	}
	for _, r := range requirementsOf(c.labels) {
		for _, pair := range pairsOf(r) {
			if s.byKey == nil {
				s.byKey = map[string]map[string][]*Compiled{}
			}
			if s.byKey[pair.key] == nil {
				s.byKey[pair.key] = map[string][]*Compiled{}
			}
			s.byKey[pair.key][pair.value] = append(s.byKey[pair.key][pair.value], c)
		}
	}
}

func (s *labelIndex) sort() {
	s.keys, s.values = slices.Sorted(maps.Keys(s.byKey)), make(map[string][]string, len(s.byKey))
	for key, values := range s.byKey {
		s.values[key] = slices.Sorted(maps.Keys(values))
	}
}

// labelTypos warns about labels, except known ones, that resemble one that a selector requires.
func (s *Snapshot) labelTypos(q *query, known labels.Set) []string {
	if q.hasOwner || len(q.labels) > maxLabels {
		return nil // the VM's labels were checked when the VM was written
	}
	scopes := append(make([]*labelIndex, 0, 2), &s.cluster.selected)
	if x := s.namespaced[q.namespace.Name]; x != nil {
		scopes = append(scopes, &x.selected)
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

// typoOf returns the label that a misspelled one resembles, and a preset that selects it.
func (q *query) typoOf(key, value string, scopes []*labelIndex) (meant, ref string) {
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
			keys = Typos(key, s.keys)
		}
		for _, k := range keys {
			values := Typos(value, s.values[k])
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

func (q *query) selectedBy(presets []*Compiled) string {
	for _, c := range presets {
		if matches(c.namespaces, q.namespace.Labels) {
			return c.Ref
		}
	}
	return ""
}

func (c *Compiled) firstLeafUnder(p provenance.Path) (leaf string) {
	for _, root := range []*fieldNode{c.defaults, c.overrides} {
		visitLeaves(root, func(n *fieldNode) {
			if leaf == "" && n.path.HasPrefix(p) {
				leaf = n.text
			}
		})
	}
	return leaf
}

// A nearMiss is a preset that sets a field that a VM lacks, and does not act on it.
type nearMiss struct {
	preset *Compiled
	leaf   string
	// why says why it does not act; distance is the number of edits that would change that.
	why      string
	distance int
}

// NearMisses lists, for each field of a problem, up to three presets that would set it, and why
// they do not act, nearest first. It omits explicit presets, because their use needs a permission.
func (e *Engine) NearMisses(ctx context.Context, s *Snapshot, req Request, fields ...string) [][]string {
	out := make([][]string, len(fields))
	r, q, err := loadQuery(ctx, req)
	if err != nil {
		return out
	}
	q.eval.budget = namespaceCost // for all presets together
	paths := make([]provenance.Path, len(fields))
	for i, text := range fields {
		paths[i] = r.pathOf(text)
	}
	found := make([][]nearMiss, len(fields))
	for _, c := range s.all {
		if ctx.Err() != nil || !c.mayGive(req.Namespace.Name) {
			continue
		}
		q.addNearMisses(c, paths, found)
	}
	for i := range found {
		out[i] = describe(found[i])
	}
	return out
}

func (q *query) addNearMisses(c *Compiled, paths []provenance.Path, found [][]nearMiss) {
	reason := sync.OnceValues(func() (string, int) { return q.missReason(c) })
	for i, p := range paths {
		leaf := c.firstLeafUnder(p)
		if p == nil || leaf == "" {
			continue
		}
		if why, distance := reason(); why != "" {
			found[i] = append(found[i], nearMiss{c, leaf, why, distance})
		}
	}
}

func describe(found []nearMiss) []string {
	slices.SortStableFunc(found, func(a, b nearMiss) int { return cmp.Compare(a.distance, b.distance) })
	if i := slices.IndexFunc(found, func(m nearMiss) bool { return m.distance >= farLabel }); i > 0 {
		found = found[:i] // a misspelled label explains enough
	}
	var out []string
	for _, m := range found[:min(len(found), maxNamed)] {
		out = append(out, fmt.Sprintf("preset %s gives %s to %s", m.preset.Ref, shortPath(m.leaf), m.why))
	}
	return out
}

func (c *Compiled) mayGive(namespace string) bool {
	return c.Mode == v1alpha1.ModeEnforce && !c.legacy && !c.Explicit && (c.Cluster() || c.Namespace == namespace)
}

// shortPath removes the prefix that all paths in a template share.
func shortPath(path string) string {
	for _, prefix := range []string{"spec.template.spec.domain.", "spec.template.spec.", "spec."} {
		if rest, ok := strings.CutPrefix(path, prefix); ok {
			return rest
		}
	}
	return path
}

const (
	// farLabel, farCondition and farNamespace are the distances of a VM from a preset, in edits of
	// a label.
	farLabel     = 10
	farCondition = 12
	farNamespace = 20
)

// missReason says on which VMs the preset acts, and how this VM differs; empty if the preset acts.
func (q *query) missReason(c *Compiled) (why string, distance int) {
	vm := "this VM"
	if q.isVMI {
		vm = "this VMI"
	}
	var wants, has []string
	if !matches(c.labels, q.labels) {
		wanted, have, d := labelMismatch(c.labels, q.labels)
		wants, has, distance = append(wants, "with "+wanted), append(has, vm+" has "+have), d
	}
	if !matches(c.namespaces, q.namespace.Labels) {
		wanted, have, d := labelMismatch(c.namespaces, q.namespace.Labels)
		wants, has = append(wants, "in namespaces with "+wanted), append(has, "namespace "+q.namespace.Name+" has "+have)
		distance += farNamespace + d
	}
	if all, paths := q.selection.excludes(c.Ref); all || len(paths) > 0 {
		wants, has = append(wants, "that do not exclude it"), append(has, vm+" does, in the annotation "+v1alpha1.AnnotationExclude)
	}
	if name := q.falseCondition(c); name != "" {
		wants, distance = append(wants, "for which its "+name+" is true"), distance+farCondition
	}
	if len(wants) == 0 {
		return "", 0
	}
	why = "VMs " + strings.Join(wants, " ")
	if len(has) > 0 {
		why += "; " + strings.Join(has, ", ")
	}
	return why, distance
}

// falseCondition names the first condition that is false. It skips ones that cannot be evaluated.
func (q *query) falseCondition(c *Compiled) string {
	for _, condition := range c.conditions {
		if ok, err := q.eval.holds(condition); err == nil && !ok {
			return condition.name
		}
	}
	return ""
}

func labelMismatch(s labels.Selector, set labels.Set) (wanted, has string, distance int) {
	var wants, have []string
	for _, r := range requirementsOf(s) {
		if r.Matches(set) {
			continue
		}
		wants = append(wants, r.String())
		value, ok := set[r.Key()]
		distance += farLabel
		if !ok {
			have = append(have, "no label "+r.Key())
			continue
		}
		have = append(have, r.Key()+"="+value)
		if near := Typos(value, r.Values().List()); len(near) > 0 {
			distance += editDistance(value, near[0]) - farLabel
		}
	}
	return strings.Join(wants, ","), strings.Join(have, " and "), distance
}
