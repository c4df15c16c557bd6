package presets

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/presets/tree"
	"github.com/virtwright/virtwright/presets/vmschema"
)

// TemplateChanges returns the fields in which a VM's template differs from the VMI that was created
// from it, by path in the VM. Both are JSON as stored. Differences from the creation of the VMI do
// not count: Launch presets, platform defaults, the instancetype, the firmware's identity, and
// annotations of KubeVirt and virtwright. The error is a *Rejection or a *Malformed.
func TemplateChanges(vm, instance []byte) ([]Origin, error) {
	r, err := load(VirtualMachine, vm)
	if err != nil {
		return nil, err
	}
	launched, err := load(VirtualMachineInstance, instance)
	if err != nil {
		return nil, err
	}
	c := templateChanges{
		record: cmp.Or(recorded(r), provenance.New()), launchRecord: cmp.Or(recorded(launched), provenance.New()),
		hasInstancetype: slices.ContainsFunc(matcherPaths, func(p provenance.Path) bool { return vmschema.Value(r.root, p) != nil }),
	}
	for _, p := range []provenance.Path{vmschema.TemplateSpec, vmschema.TemplateLabels, vmschema.TemplateAnnotations} {
		c.value(vmschema.Value(launched.root, p), vmschema.Value(r.root, p), vmschema.VM().At(p), p)
	}
	return sortedByPath(c.found), nil
}

type templateChanges struct {
	// record is that of the VM, launchRecord that of the VMI.
	record, launchRecord *provenance.Record
	hasInstancetype      bool
	found                []Origin
}

// value compares the values at p: was in the VMI, is in the template.
func (c *templateChanges) value(was, is any, s *vmschema.Schema, p provenance.Path) {
	switch {
	case tree.Equal(was, is):
		return
	case p[len(p)-1].Kind == provenance.Element && (was == nil || is == nil):
	case tree.IsObject(was) || tree.IsObject(is):
		c.fields(was, is, s, p)
		return
	case s.Shape == vmschema.Keyed:
		c.elements(was, is, s, p)
		return
	case sameValue(was, is, s):
		return
	}
	if !c.decidedAtLaunch(is, s, p) {
		c.found = append(c.found, c.origin(is, p))
	}
}

func (c *templateChanges) fields(was, is any, s *vmschema.Schema, p provenance.Path) {
	before, now := tree.AsObject(was), tree.AsObject(is)
	names := map[string]any{}
	maps.Copy(names, before)
	maps.Copy(names, now)
	for name := range names {
		c.value(before[name], now[name], s.Field(name), p.Field(name))
	}
}

func (c *templateChanges) elements(was, is any, s *vmschema.Schema, p provenance.Path) {
	before, now := tree.AsList(was), tree.AsList(is)
	keys := map[string]bool{}
	for _, e := range slices.Concat(before, now) {
		keys[s.KeyOf(e)] = true
	}
	for key := range keys {
		c.value(s.ElementOf(before, key), s.ElementOf(now, key), s.Elem, p.Element(key))
	}
}

func (c *templateChanges) decidedAtLaunch(is any, s *vmschema.Schema, p provenance.Path) bool {
	n := c.launchRecord.At(p)
	switch {
	case p.HasPrefix(vmschema.TemplateMetadata):
		key := p[len(p)-1].Name
		return strings.HasPrefix(key, v1alpha1.AnnotationPrefix) || is == nil && strings.HasPrefix(key, "kubevirt.io/")
	case n.IsDecided() && n.Overruled:
		return n.TooLarge || sameValue(n.UserValue, is, s)
	case is != nil:
		return false
	}
	return c.hasInstancetype || decidingNode(n).IsDecided() || slices.ContainsFunc(givenAtLaunch, p.HasPrefix)
}

// givenAtLaunch are fields that a lifecycle controller sets in a VMI.
var givenAtLaunch = paths("domain.firmware.uuid", "domain.firmware.serial", "startStrategy")

// decidingNode returns the node that records the source of n; for an added element, its name.
func decidingNode(n *provenance.Node) *provenance.Node {
	if n == nil || n.Kind != provenance.Element || n.IsDecided() {
		return n
	}
	return n.Find(provenance.Segment{Name: "name"})
}

func (c *templateChanges) origin(is any, p provenance.Path) Origin {
	n := decidingNode(c.record.At(p))
	out := Origin{Path: p, Value: is, User: !n.IsDecided()}
	if !out.User {
		out.By = c.record.Sources[n.Source]
	}
	return out
}
