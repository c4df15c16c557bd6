package presets

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets/provenance"
)

// TemplateChanges returns the fields of a VM's template that differ from the VMI that was
// created from it, by path in the VM. Vm and instance are JSON as stored. What was decided when
// the VMI was created is no difference: Launch presets, platform defaults, the instancetype, the
// firmware's identity, and annotations of KubeVirt and virtwright.
// The error is a *Refusal or a *Malformed.
func TemplateChanges(vm, instance []byte) ([]Origin, error) {
	w, err := load(VirtualMachine, vm)
	if err != nil {
		return nil, err
	}
	launched, err := load(VirtualMachineInstance, instance)
	if err != nil {
		return nil, err
	}
	c := templateChanges{record: cmp.Or(recorded(w), provenance.New()), launch: cmp.Or(recorded(launched), provenance.New())}
	for _, name := range []string{"instancetype", "preference"} {
		c.hasInstancetype = c.hasInstancetype || lookup(w.root, vmSchema(), provenance.Of("spec", name)) != nil
	}
	for _, p := range []provenance.Path{template.With(provenance.Segment{Name: "spec"}), templateMetadata("labels"), templateMetadata("annotations")} {
		c.value(lookup(launched.root, vmSchema(), p), lookup(w.root, vmSchema(), p), vmSchema().at(p), p)
	}
	return sortedByPath(c.found), nil
}

func templateMetadata(name string) provenance.Path {
	return provenance.Of("spec", "template", "metadata", name)
}

// templateChanges compares a template with the VMI that was created from it.
type templateChanges struct {
	// record is that of the VM, launch that of the VMI.
	record, launch  *provenance.Record
	hasInstancetype bool
	found           []Origin
}

// value compares what lies at p in the VMI, was, with what lies there in the template.
func (c *templateChanges) value(was, is any, s *schema, p provenance.Path) {
	switch {
	case equalJSON(was, is):
		return
	case p[len(p)-1].Kind == provenance.Element && (was == nil || is == nil):
	case isObject(was) || isObject(is):
		c.fields(was, is, s, p)
		return
	case s.shape == shapeKeyed:
		c.elements(was, is, s, p)
		return
	case unchanged(was, is, s):
		return
	}
	if !c.decidedAtLaunch(is, s, p) {
		c.found = append(c.found, c.origin(is, p))
	}
}

func (c *templateChanges) fields(was, is any, s *schema, p provenance.Path) {
	before, _ := was.(map[string]any)
	now, _ := is.(map[string]any)
	names := maps.Clone(before)
	if names == nil {
		names = map[string]any{}
	}
	maps.Copy(names, now)
	for name := range names {
		c.value(before[name], now[name], s.field(name), p.With(provenance.Segment{Name: name}))
	}
}

func (c *templateChanges) elements(was, is any, s *schema, p provenance.Path) {
	before, _ := was.([]any)
	now, _ := is.([]any)
	keys := map[string]bool{}
	for _, e := range slices.Concat(before, now) {
		keys[keyOf(e, s)] = true
	}
	for key := range keys {
		c.value(elementOf(before, s, key), elementOf(now, s, key), s.elem, p.With(provenance.Segment{Name: key, Kind: provenance.Element}))
	}
}

// decidedAtLaunch reports whether the VMI differs from the template because of what was decided
// when it was created.
func (c *templateChanges) decidedAtLaunch(is any, s *schema, p provenance.Path) bool {
	n := c.launch.At(p)
	switch {
	case p.HasPrefix(provenance.Of("spec", "template", "metadata")):
		key := p[len(p)-1].Name
		return strings.HasPrefix(key, v1alpha1.AnnotationPrefix) || is == nil && strings.HasPrefix(key, "kubevirt.io/")
	case isDecided(n) && n.Overruled:
		return n.Lost || unchanged(n.Was, is, s)
	case is != nil:
		return false
	}
	return c.hasInstancetype || isDecided(decidingNode(n)) || slices.ContainsFunc(givenAtLaunch, p.HasPrefix)
}

// givenAtLaunch are fields that a lifecycle controller gives a VMI.
var givenAtLaunch = []provenance.Path{
	provenance.Of("spec", "template", "spec", "domain", "firmware", "uuid"),
	provenance.Of("spec", "template", "spec", "domain", "firmware", "serial"),
	provenance.Of("spec", "template", "spec", "startStrategy"),
}

// decidingNode returns the node that says what decided n: for an element that a source added, its
// name.
func decidingNode(n *provenance.Node) *provenance.Node {
	if n == nil || n.Kind != provenance.Element || isDecided(n) {
		return n
	}
	return childOf(n, provenance.Segment{Name: "name"})
}

// origin says where the value of the template at p came from.
func (c *templateChanges) origin(is any, p provenance.Path) Origin {
	n := decidingNode(c.record.At(p))
	out := Origin{Path: p, Value: is, User: !isDecided(n)}
	if !out.User {
		out.By = c.record.Sources[n.Source]
	}
	return out
}
