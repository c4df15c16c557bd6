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
	"github.com/virtwright/virtwright/presets/spelling"
)

const (
	// maxNamed is how many presets a message about near misses names.
	maxNamed  = 3
	maxLabels = 64 // of a VM, for them to be compared
	// maxCandidates is how many keys, or values of a key, a label is compared with. Authors of
	// presets must not make creates slow.
	maxCandidates = 1024
)

// A labelIndex has the presets of one scope by the key and value of a label that they require.
type labelIndex map[string]map[string][]*Compiled

func (x labelIndex) add(c *Compiled) {
	if c.Mode == v1alpha1.ModeOff || c.legacy || c.Explicit {
		return
	}
	for _, r := range requirementsOf(c.labels) {
		for _, pair := range pairsOf(r) {
			if x[pair.key] == nil {
				x[pair.key] = map[string][]*Compiled{}
			}
			x[pair.key][pair.value] = append(x[pair.key][pair.value], c)
		}
	}
}

// labelTypos warns about labels, except known ones, that resemble one that a selector requires.
func (s *Snapshot) labelTypos(q *query, known labels.Set) []string {
	if q.hasOwner || len(q.labels) > maxLabels {
		return nil // the VM's labels were checked when the VM was written
	}
	scopes := []labelIndex{s.cluster.selected}
	if x := s.namespaced[q.namespace.Name]; x != nil {
		scopes = append(scopes, x.selected)
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
func (q *query) typoOf(key, value string, scopes []labelIndex) (meant, ref string) {
	isKnown := false
	for _, x := range scopes {
		if x[key][value] != nil {
			return "", ""
		}
		isKnown = isKnown || x[key] != nil
	}
	for _, x := range scopes {
		keys := []string{key}
		if !isKnown {
			keys = near(key, x)
		}
		for _, k := range keys {
			values := []string{value}
			if x[k][value] == nil {
				values = near(value, x[k])
			}
			for _, v := range values {
				if ref := q.selectedBy(x[k][v]); ref != "" {
					return k + "=" + v, ref
				}
			}
		}
	}
	return "", ""
}

// near returns the candidates that name may misspell; none if there are too many to compare.
func near[V any](name string, candidates map[string]V) []string {
	if len(candidates) > maxCandidates {
		return nil
	}
	return spelling.Typos(name, maps.Keys(candidates))
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
	c.leaves(func(_ string, n *fieldNode) {
		if leaf == "" && n.path.HasPrefix(p) {
			leaf = n.text
		}
	})
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
	out, s := make([][]string, len(fields)), s.For(req)
	r, q, err := loadQuery(ctx, req)
	if err != nil {
		return out
	}
	q.eval.Budget = namespaceCost // for all presets together
	paths := make([]provenance.Path, len(fields))
	for i, text := range fields {
		paths[i] = r.pathOf(text)
	}
	found := make([][]nearMiss, len(fields))
	for _, c := range s.all {
		if ctx.Err() == nil && c.mayGive(req.Namespace.Name) {
			q.addNearMisses(c, paths, found, func() (string, int) { return q.missReason(s, c) })
		}
	}
	for _, held := range s.held {
		if held.mayGive("") && q.selects(held.Compiled) {
			q.addNearMisses(held.Compiled, paths, found, func() (string, int) { return "VMs that PresetRollout " + held.rollout + " has reached", 0 })
		}
	}
	for i := range found {
		out[i] = describe(found[i])
	}
	return out
}

func (q *query) addNearMisses(c *Compiled, paths []provenance.Path, found [][]nearMiss, missReason func() (string, int)) {
	reason := sync.OnceValues(missReason)
	for i, p := range paths {
		if leaf := c.firstLeafUnder(p); p != nil && leaf != "" {
			if why, distance := reason(); why != "" {
				found[i] = append(found[i], nearMiss{c, leaf, why, distance})
			}
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
func (q *query) missReason(s *Snapshot, c *Compiled) (why string, distance int) {
	vm := "this VM"
	if q.isVMI {
		vm = "this VMI"
	}
	var wants, has []string
	compare := func(preposition, subject string, s labels.Selector, set labels.Set, far int) {
		if !matches(s, set) {
			wanted, have, d := labelMismatch(s, set)
			wants, has, distance = append(wants, preposition+wanted), append(has, subject+" has "+have), distance+far+d
		}
	}
	compare("with ", vm, c.labels, q.labels, 0)
	compare("in namespaces with ", "namespace "+q.namespace.Name, c.namespaces, q.namespace.Labels, farNamespace)
	if all, paths := q.selection.excludes(c.Ref); all || len(paths) > 0 {
		wants, has = append(wants, "that do not exclude it"), append(has, vm+" does, in the annotation "+v1alpha1.AnnotationExclude)
	}
	if unmet, err := q.unmetCondition(c); unmet != nil && err == nil {
		wants, distance = append(wants, "for which its "+unmet.Name+" is true"), distance+farCondition
	}
	if len(wants) == 0 {
		if e := q.exceptionFor(s, c); e != nil {
			return "VMs without " + e.String() + ", which this one has", 0
		}
		return "", 0
	}
	why = "VMs " + strings.Join(wants, " ")
	if len(has) > 0 {
		why += "; " + strings.Join(has, ", ")
	}
	return why, distance
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
		if near := spelling.Typos(value, maps.Keys(r.Values())); len(near) > 0 {
			distance += spelling.Distance(value, near[0]) - farLabel
		}
	}
	return strings.Join(wants, ","), strings.Join(have, " and "), distance
}
