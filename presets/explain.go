package presets

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets/provenance"
)

// An Explanation says of one object where each field came from and what each
// preset had to do with it.
type Explanation struct {
	// Result of the request; nil where a stored object was explained.
	Result *Result
	// Fields of the effective object, and fields that were removed, by path.
	Fields []Origin
	// Presets that could have acted, by precedence.
	Presets []Verdict
	// HeldBack is what presets left alone, and why.
	HeldBack []HeldBack
}

// An Origin says where one field came from.
type Origin struct {
	Path provenance.Path
	// Value is what the field is now; nil where it was removed.
	Value any
	// By is what decided the field; the zero Source where the user did.
	By provenance.Source
	// User says that the value is the user's.
	User bool
	// Overruled says that the user had another value, Was.
	Overruled bool
	Was       any
	// Computed is the expression whose value the field is; empty for plain values.
	Computed string
	// ContributedBy is the instancetype or preference that gives the field when the VM starts. The stored
	// VM does not have it.
	ContributedBy Matcher
	// Beaten are the presets that would have set the field otherwise.
	Beaten []Claim
}

// A Claim is a value that a source would have given.
type Claim struct {
	By    provenance.Source
	Value any
}

// A Verdict says why a preset acted or did not.
type Verdict struct {
	Preset, Namespace string
	Matched           bool
	Mode              v1alpha1.Mode
	// Reason it did not match, or what it did.
	Reason string
}

// ParsePath reads a path and checks that a VirtualMachine can have it.
func ParsePath(text string) (provenance.Path, error) { return parseKnown(text) }

// Explain resolves a request and explains the outcome. Errors are those of Resolve.
func (e *Engine) Explain(ctx context.Context, s *Snapshot, req Request) (*Explanation, error) {
	out, err := e.Resolve(ctx, s, req)
	if err != nil {
		return nil, err
	}
	x := &Explanation{Result: out, Fields: sortedByPath(append(origins(out.w), out.w.contributedFields()...)), HeldBack: out.w.heldBackByPresets()}
	x.addComputed(out)
	x.addBeaten(out)
	x.Presets, err = e.verdicts(ctx, s, req, out)
	return x, err
}

// ExplainStored explains the object of a request from the record that it carries.
func ExplainStored(req Request) (*Explanation, error) {
	w, err := load(req.Kind, req.Object)
	if err != nil {
		return nil, err
	}
	w.find = req.Instancetypes
	if text := w.storedProvenance(); text != "" {
		if w.rec, err = provenance.Decode(text); err != nil {
			return nil, &Malformed{What: "annotation " + v1alpha1.AnnotationProvenance, Err: err}
		}
	}
	return &Explanation{Fields: sortedByPath(append(origins(w), w.contributedFields()...))}, nil
}

// origins lists every leaf of w, and what was removed.
func origins(w *resolution) []Origin {
	var out []Origin
	listLeaves(w.root, vmSchema(), nil, func(p provenance.Path, v any) {
		if p.HasPrefix(provenanceOn(w.kind())) || w.isWrapping(p) {
			return
		}
		o := Origin{Path: p, Value: v, User: true}
		if n := w.rec.At(p); n != nil && n.Source != provenance.NoSource {
			o.By, o.Overruled, o.Was = w.rec.Sources[n.Source], n.Overruled && !equalJSON(n.Was, v), n.Was
			o.User = n.Overruled && !o.Overruled
		}
		out = append(out, o)
	})
	for p, n := range w.rec.Decided() {
		if lookup(w.root, vmSchema(), p) == nil {
			out = append(out, Origin{Path: slices.Clone(p), By: w.rec.Sources[n.Source], Overruled: n.Overruled, Was: n.Was})
		}
	}
	return sortedByPath(out)
}

func sortedByPath(in []Origin) []Origin {
	slices.SortStableFunc(in, func(a, b Origin) int { return strings.Compare(a.Path.String(), b.Path.String()) })
	return in
}

// isWrapping reports whether p is part of the VM form that an instance was put into.
func (w *resolution) isWrapping(p provenance.Path) bool {
	return w.instance != nil && !p.HasPrefix(provenance.Of("spec", "template"))
}

// listLeaves visits scalars, atomic lists and empty containers.
func listLeaves(v any, s *schema, p provenance.Path, visit func(provenance.Path, any)) {
	switch at := v.(type) {
	case map[string]any:
		for name, sub := range at {
			listLeaves(sub, s.field(name), p.With(provenance.Segment{Name: name}), visit)
		}
		if len(at) > 0 {
			return
		}
	case []any:
		if s.shape == shapeKeyed {
			for _, e := range at {
				listLeaves(e, s.elem, p.With(provenance.Segment{Name: keyOf(e, s), Kind: provenance.Element}), visit)
			}
			return
		}
	}
	visit(p, v)
}

// addComputed adds to each field the expression that a preset computed it with.
func (x *Explanation) addComputed(out *Result) {
	computed := map[string]string{}
	for _, l := range out.w.layers {
		visitLeaves(l.root, func(leaf *fieldNode) {
			if leaf.computed != nil && l.source != provenance.NoSource {
				computed[leaf.path+" "+out.w.rec.Sources[l.source].String()] = leaf.computed.text
			}
		})
	}
	for i, o := range x.Fields {
		x.Fields[i].Computed = computed[o.Path.String()+" "+o.By.String()]
	}
}

// addBeaten adds to each field what other matching presets would have made of it.
func (x *Explanation) addBeaten(out *Result) {
	at := make(map[string]int, len(x.Fields))
	for i, o := range x.Fields {
		at[o.Path.String()] = i
	}
	for _, c := range out.Matched {
		for _, claims := range []struct {
			role provenance.Role
			root *fieldNode
		}{{provenance.Override, c.overrides}, {c.defaultRole(), c.defaults}} {
			by := c.source(claims.role)
			visitLeaves(claims.root, func(leaf *fieldNode) {
				i, ok := at[leaf.path]
				if ok && x.Fields[i].By != by && !leaf.isKey && c.Mode == v1alpha1.ModeEnforce {
					x.Fields[i].Beaten = append(x.Fields[i].Beaten, Claim{By: by, Value: leaf.value})
				}
			})
		}
	}
}

// verdicts judges every preset that the object could have met.
func (e *Engine) verdicts(ctx context.Context, s *Snapshot, req Request, out *Result) ([]Verdict, error) {
	w, err := load(req.Kind, req.Object)
	if err != nil {
		return nil, err
	}
	owner, err := w.adoptOwner(req.Owner)
	if err != nil {
		return nil, err
	}
	q := w.query(ctx, req, owner)
	var verdicts []Verdict
	for _, c := range s.all {
		if !c.Cluster() && c.Namespace != req.Namespace.Name {
			continue
		}
		v := Verdict{Preset: c.Ref, Namespace: c.Namespace, Mode: c.Mode, Matched: slices.Contains(out.Matched, c)}
		if v.Matched {
			v.Reason = out.w.did(c)
		} else {
			v.Reason = q.whyNot(s, c)
		}
		verdicts = append(verdicts, v)
	}
	return verdicts, nil
}

// did says what c did.
func (w *resolution) did(c *Compiled) string {
	if c.Mode != v1alpha1.ModeEnforce {
		return fmt.Sprintf("matches; mode %s only tells", c.Mode)
	}
	set, overruled := 0, 0
	for _, d := range w.effects() {
		if d.source.Preset == c.Ref {
			set, overruled = set+d.set.count, overruled+d.overruled.count
		}
	}
	return fmt.Sprintf("set %d, overruled %d", set, overruled)
}

// whyNot says which part of a match does not hold.
func (q *query) whyNot(s *Snapshot, c *Compiled) string {
	switch {
	case c.Mode == v1alpha1.ModeOff:
		return "mode Off"
	case !q.isMoment(c):
		return whenInstead[c.ApplyAt]
	case c.Explicit && !q.selection.names(c.Ref):
		return fmt.Sprintf("explicit: the annotation %s does not name it", v1alpha1.AnnotationPresets)
	case c.labels != nil && !c.labels.Matches(q.labels):
		return fmt.Sprintf("labels do not match %s", c.labels)
	case c.namespaces != nil && !c.namespaces.Matches(labels.Set(q.namespace.Labels)):
		return fmt.Sprintf("namespace %s does not match %s", q.namespace.Name, c.namespaces)
	}
	if e := q.exceptionFor(s, c); e != nil {
		return e.String()
	}
	return q.whichCondition(c)
}

var whenInstead = map[v1alpha1.ApplyAt]string{
	v1alpha1.ApplyAtLaunch:     "applyAt Launch: it acts when the instance is created",
	v1alpha1.ApplyAtDefinition: "applyAt Definition: it acted on the VirtualMachine",
}

// whichCondition names the first condition of c that does not hold.
func (q *query) whichCondition(c *Compiled) string {
	q.eval.left = clusterCost // what others cost is of no interest here
	switch unmet, err := q.unmetCondition(c); {
	case err != nil:
		return err.Error()
	case unmet != nil:
		return unmet.name + " is false"
	}
	return "does not match"
}
