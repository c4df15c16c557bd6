package presets

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/presets/tree"
	"github.com/virtwright/virtwright/presets/vmschema"
)

// An Explanation says where each field of an object came from, and how each preset affected it.
type Explanation struct {
	Result  *Result       // of the request; nil if a stored object was explained
	Fields  []Origin      // of the effective object, and those that a preset kept out of it, by path
	Presets []MatchResult // for the presets that could act, by precedence
	Skipped []Skipped
	// Exceptions that the object uses, according to its record.
	Exceptions []provenance.Exception
}

// An Origin says where one field came from.
type Origin struct {
	Path          provenance.Path
	Value         any               // nil if the field was removed
	By            provenance.Source // decided the field; the zero Source if the user did
	User          bool              // the value is the user's
	Overruled     bool              // the user wrote another value, Was
	Was           any
	Computed      string        // the expression of a computed field
	ContributedBy Matcher       // sets the field when the VM starts; the stored VM does not have it
	Losing        []LosingValue // the other values that presets would have set
	Launched      bool          // a preset sets the value at launch; the stored VM has another or none
}

// A LosingValue is a value that a stronger source kept a preset from setting.
type LosingValue struct {
	By    provenance.Source
	Value any
	// Path of the value, if the field is an alternative to it; else nil.
	Path provenance.Path
	// Excluded is true if the VM's annotation excludes the value: it did not compete.
	Excluded bool
}

// Counts are the fields that a preset set, those that the author or a stronger preset kept it from
// setting, and values of the author that it replaced or removed.
type Counts struct {
	Set       int `json:"set"`
	Lost      int `json:"lost"`
	Overruled int `json:"overruled"`
}

// describeCounts formats counts, such as: set 2 fields, lost 1, overruled 0.
func describeCounts(c *Counts) string {
	noun := "fields"
	if c.Set == 1 {
		noun = "field"
	}
	return fmt.Sprintf("set %d %s, lost %d, overruled %d", c.Set, noun, c.Lost, c.Overruled)
}

// A MatchResult says why a preset acted or did not.
type MatchResult struct {
	Preset, Namespace string
	Matched           bool
	Mode              v1alpha1.Mode
	Reason            string  // why it did not match, or its effect
	Counts            *Counts // of an enforced preset that matched; else nil
}

// ParsePath reads a path and checks that a VirtualMachine can have it.
func ParsePath(text string) (provenance.Path, error) { return parseKnown(text) }

// Explain resolves a request and explains the result. Errors are those of Resolve.
func (e *Engine) Explain(ctx context.Context, s *Snapshot, req Request) (*Explanation, error) {
	s = s.For(req)
	out, err := e.Resolve(ctx, s, req)
	if err != nil {
		return nil, err
	}
	x := &Explanation{Result: out, Fields: out.state.allOrigins(), Skipped: slices.Concat(out.state.skips, out.state.quietSkips)}
	_, q, err := loadQuery(ctx, req)
	if err != nil {
		return nil, err
	}
	x.addLeaves(out, q.selection)
	x.Presets = x.verdicts(s, q)
	return x, nil
}

// ExplainStored explains an object by the record that it carries.
func ExplainStored(req Request) (*Explanation, error) {
	r, err := load(req.Kind, req.Object)
	if err != nil {
		return nil, err
	}
	r.findInstancetype = req.Instancetypes
	if text := r.storedProvenance(); text != "" {
		if r.record, err = provenance.Decode(text); err != nil {
			return nil, &Malformed{What: "annotation " + v1alpha1.AnnotationProvenance, Err: err}
		}
	}
	return &Explanation{Fields: r.allOrigins(), Exceptions: r.record.Exceptions}, nil
}

// allOrigins also lists the fields that instancetype and preference set when the VM starts.
func (r *mergeState) allOrigins() []Origin {
	return sortedByPath(append(origins(r), r.contributedFields()...))
}

func origins(r *mergeState) []Origin {
	var out []Origin
	listLeaves(r.root, vmschema.VM(), nil, func(p provenance.Path, v any) {
		onlyInVM := r.sentVMI != nil && !p.HasPrefix(vmschema.Template)
		if p.HasPrefix(provenanceOn(r.kind())) || onlyInVM {
			return
		}
		o := Origin{Path: p, Value: v, User: true}
		if n := r.record.At(p); n.IsDecided() {
			o.By, o.Overruled, o.Was = r.record.Sources[n.Source], n.Overruled && !tree.Equal(n.UserValue, v), n.UserValue
			o.User = n.Overruled && !o.Overruled
		}
		out = append(out, o)
	})
	for p, n := range r.record.Decided() {
		if tookEffect(n) && vmschema.Value(r.root, p) == nil {
			out = append(out, Origin{Path: slices.Clone(p), By: r.record.Sources[n.Source], Overruled: n.Overruled, Was: n.UserValue})
		}
	}
	return sortedByPath(out)
}

// tookEffect reports whether a removal removed a value, or kept one out. Other removals stay in the
// record, because they act again when the VM starts.
func tookEffect(n *provenance.Node) bool {
	return n.Overruled || n.Change == provenance.Removed || n.Withheld
}

func sortedByPath(in []Origin) []Origin {
	slices.SortStableFunc(in, func(a, b Origin) int { return strings.Compare(a.Path.String(), b.Path.String()) })
	return in
}

// listLeaves visits scalars, atomic lists, and empty objects and lists.
func listLeaves(v any, s *vmschema.Schema, p provenance.Path, visit func(provenance.Path, any)) {
	switch at := v.(type) {
	case map[string]any:
		for name, sub := range at {
			listLeaves(sub, s.Field(name), p.Field(name), visit)
		}
		if len(at) > 0 {
			return
		}
	case []any:
		if s.Shape == vmschema.Keyed && len(at) > 0 {
			for _, e := range at {
				listLeaves(e, s.Elem, p.Element(s.KeyOf(e)), visit)
			}
			return
		}
	}
	visit(p, v)
}

func (x *Explanation) addLeaves(out *Result, selection presetSelection) {
	computed := out.computedFields()
	at := make(map[string]*Origin, len(x.Fields))
	for i, o := range x.Fields {
		at[o.Path.String()] = &x.Fields[i]
		x.Fields[i].Computed = computed[o.Path.String()+" "+o.By.String()]
	}
	add := func(by provenance.Source, root *fieldNode) {
		all, paths := selection.excludes(by.Preset)
		visitLeaves(root, func(leaf *fieldNode) {
			lost := LosingValue{By: by, Value: leaf.value}
			lost.Excluded = !by.Role.OutranksUser() && (all || slices.ContainsFunc(paths, leaf.path.HasPrefix))
			o := at[leaf.text]
			if o == nil {
				o, lost.Path = x.alternativeTo(leaf.path), leaf.path
			}
			if o != nil && o.By != by && !leaf.isKey {
				o.Losing = append(o.Losing, lost)
			}
		})
	}
	s := forEvery{out.state.root, out.state.root}
	for _, c := range out.Matched {
		if c.Mode == v1alpha1.ModeEnforce {
			add(c.source(provenance.Override), s.over(c.overrides))
			add(c.source(c.defaultRole()), s.over(c.defaults))
		}
	}
}

// alternativeTo returns the first field of another member of a one-of that p lies in; nil if there
// is none.
func (x *Explanation) alternativeTo(p provenance.Path) *Origin {
	for _, alternative := range vmschema.AlternativesOf(p) {
		for i, o := range x.Fields {
			if o.Value != nil && o.Path.HasPrefix(alternative) {
				return &x.Fields[i]
			}
		}
	}
	return nil
}

// computedFields returns the expressions of computed fields, by path and source.
func (r *Result) computedFields() map[string]string {
	out := map[string]string{}
	for _, l := range r.state.layers {
		visitLeaves(l.root, func(leaf *fieldNode) {
			if leaf.computed != nil && l.source != provenance.NoSource {
				out[leaf.text+" "+r.state.record.Sources[l.source].String()] = leaf.computed.Text
			}
		})
	}
	return out
}

func loadQuery(ctx context.Context, req Request) (*mergeState, *query, error) {
	r, err := load(req.Kind, req.Object)
	if err != nil {
		return nil, nil, err
	}
	owner, err := r.adoptOwner(req.Owner)
	if err != nil {
		return nil, nil, err
	}
	return r, r.query(ctx, req, owner), nil
}

func (x *Explanation) verdicts(s *Snapshot, q *query) []MatchResult {
	var verdicts []MatchResult
	for _, c := range s.all {
		if !c.Cluster() && c.Namespace != q.namespace.Name {
			continue
		}
		v := MatchResult{Preset: c.Ref, Namespace: c.Namespace, Mode: c.Mode, Matched: slices.Contains(x.Result.Matched, c)}
		switch excluded, _ := q.selection.excludes(c.Ref); {
		case !v.Matched:
			if v.Reason, v.Matched = q.mismatchReason(s, c, x.Result.state); v.Matched {
				v.Reason = "matches; " + v.Reason
			}
		case excluded && !c.outranksUser():
			v.Reason = "matches; the annotation " + v1alpha1.AnnotationExclude + " excludes it"
		case c.Mode != v1alpha1.ModeEnforce:
			v.Reason = fmt.Sprintf("matches; mode %s changes nothing", c.Mode)
		default:
			v.Counts = x.countsOf(c)
			v.Reason = describeCounts(v.Counts)
		}
		verdicts = append(verdicts, v)
	}
	return verdicts
}

func (x *Explanation) countsOf(c *Compiled) *Counts {
	out := &Counts{}
	for _, o := range x.Fields {
		if o.By.Preset == c.Ref {
			if o.Value != nil {
				out.Set++
			}
			if o.Overruled {
				out.Overruled++
			}
		}
		for _, lost := range o.Losing {
			if lost.By.Preset == c.Ref && !lost.Excluded {
				out.Lost++
			}
		}
	}
	return out
}

// mismatchReason says why a preset does not act, and whether it matches nevertheless. Effective,
// unless nil, is the object after presets acted.
func (q *query) mismatchReason(s *Snapshot, c *Compiled, effective *mergeState) (reason string, matches bool) {
	if reason = q.selectionReason(c, effective); reason != "" {
		return reason, false
	}
	reason = q.conditionReason(c)
	if e := q.exceptionFor(s, c); e != nil && reason == "" {
		return e.String() + " keeps it from acting", true
	}
	return cmp.Or(reason, "does not match"), false
}

// selectionReason says why labels, annotations or the mode of a preset do not select the VM.
func (q *query) selectionReason(c *Compiled, effective *mergeState) string {
	switch {
	case c.Mode == v1alpha1.ModeOff:
		return "mode Off"
	case !q.actsNow(c):
		return applyAtReasons[c.ApplyAt]
	case c.Explicit && !q.selection.names(c.Ref):
		return fmt.Sprintf("explicit: the annotation %s does not name it", v1alpha1.AnnotationPresets)
	case c.labels != nil && !c.labels.Matches(q.labels):
		return fmt.Sprintf("labels do not match %s%s", c.labels, q.presetLabel(c, effective))
	case c.namespaces != nil && !c.namespaces.Matches(labels.Set(q.namespace.Labels)):
		return fmt.Sprintf("namespace %s does not match %s", q.namespace.Name, c.namespaces)
	}
	return ""
}

// presetLabel names a label that a preset set and that the selector of c requires.
func (q *query) presetLabel(c *Compiled, effective *mergeState) string {
	for _, required := range requirementsOf(c.labels) {
		if effective == nil || required.Matches(q.labels) {
			continue
		}
		for _, meta := range []provenance.Path{provenance.Of("metadata"), vmschema.TemplateMetadata} {
			at := meta.Field("labels").Field(required.Key())
			value, n := tree.AsText(vmschema.Value(effective.root, at)), effective.record.At(at)
			if n.IsDecided() && required.Matches(labels.Set{required.Key(): value}) {
				return fmt.Sprintf(": preset %s sets %s=%s, and only labels of the author select presets",
					effective.record.Sources[n.Source].Preset, required.Key(), value)
			}
		}
	}
	return ""
}

var applyAtReasons = map[v1alpha1.ApplyAt]string{
	v1alpha1.ApplyAtLaunch:     "applyAt Launch: it acts when the VMI is created",
	v1alpha1.ApplyAtDefinition: "applyAt Definition: it acted on the VirtualMachine",
}

func (q *query) conditionReason(c *Compiled) string {
	q.eval.Budget = clusterCost // other conditions do not count
	switch unmet, err := q.unmetCondition(c); {
	case err != nil:
		return err.Error()
	case unmet != nil:
		return unmet.Name + " is false"
	}
	return ""
}

func (r *mergeState) contributedFields() []Origin {
	found, err := r.known()
	if err != nil || found == (contributions{}) {
		return nil
	}
	x := &expandedVM{state: r, contributions: found, expanded: found.expanded(r.root)}
	var out []Origin
	listLeaves(x.expanded, vmschema.VM(), nil, func(p provenance.Path, v any) {
		if fields, isObject := v.(map[string]any); isObject && len(fields) == 0 && !x.contributorOf(p).owns(p) {
			return // expansion created it
		}
		if !tree.Equal(v, vmschema.Value(r.root, p)) {
			out = append(out, Origin{Path: p, Value: v, ContributedBy: x.contributorOf(p).matcher})
		}
	})
	return out
}
