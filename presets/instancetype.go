package presets

import (
	"fmt"
	"slices"
	"strings"

	"kubevirt.io/api/instancetype"

	"github.com/virtwright/virtwright/presets/provenance"
)

// An InstancetypeFinder returns the spec of what a matcher names, as decoded JSON; nil
// where it is not known. The engine treats an error as not known.
type InstancetypeFinder func(Matcher) (map[string]any, error)

// A Matcher names an instancetype or a preference, as spec.instancetype and spec.preference do.
type Matcher struct {
	// Kind is one of VirtualMachineInstancetype, VirtualMachineClusterInstancetype,
	// VirtualMachinePreference and VirtualMachineClusterPreference.
	Kind string
	Name string
	// Revision is the ControllerRevision that the VM pins; may be empty.
	Revision string
	// Stored is the ControllerRevision that the VM's status names. It counts where Revision is
	// empty and it is of Name.
	Stored string
}

// String is kind and name.
func (m Matcher) String() string { return m.Kind + " " + m.Name }

// matcherKinds are the names that KubeVirt accepts as the kind of a matcher, in lower case, by
// the field that has it. An empty kind is that of the cluster.
var matcherKinds = map[string]map[string]string{
	"instancetype": {
		"":                                       "VirtualMachineClusterInstancetype",
		instancetype.ClusterSingularResourceName: "VirtualMachineClusterInstancetype",
		instancetype.ClusterPluralResourceName:   "VirtualMachineClusterInstancetype",
		instancetype.SingularResourceName:        "VirtualMachineInstancetype",
		instancetype.PluralResourceName:          "VirtualMachineInstancetype",
	},
	"preference": {
		"": "VirtualMachineClusterPreference",
		instancetype.ClusterSingularPreferenceResourceName: "VirtualMachineClusterPreference",
		instancetype.ClusterPluralPreferenceResourceName:   "VirtualMachineClusterPreference",
		instancetype.SingularPreferenceResourceName:        "VirtualMachinePreference",
		instancetype.PluralPreferenceResourceName:          "VirtualMachinePreference",
	},
}

// A contribution is what the instancetype or the preference of a VM gives it.
type contribution struct {
	// field is instancetype or preference.
	field   string
	matcher Matcher
	// spec of what is named, and the fields that it owns; nil where it is not known.
	spec  map[string]any
	owned []provenance.Path
	// err says why it could not be read.
	err error
}

// contributions are those of a VM; nil where it names none.
type contributions struct {
	instancetype, preference *contribution
}

// String names what contributes.
func (c *contribution) String() string {
	if c.matcher.Name == "" {
		return "an inferred " + c.field
	}
	return c.matcher.String()
}

// owns reports whether p belongs to the contribution: what is known of it, or else what it may own.
func (c *contribution) owns(p provenance.Path) bool {
	if c.spec != nil {
		return under(p, c.owned)
	}
	if c.field == "preference" {
		return under(p, preferenceFields)
	}
	return under(p, instancetypeFields)
}

// contributionsOf finds what the matchers in the spec of a VM name.
func (w *resolution) contributionsOf(spec map[string]any) contributions {
	return contributions{w.contribution("instancetype", spec), w.contribution("preference", spec)}
}

func (w *resolution) contribution(name string, spec map[string]any) *contribution {
	if spec[name] == nil {
		return nil
	}
	out := &contribution{field: name}
	fields, _ := spec[name].(map[string]any)
	out.matcher.Name, _ = fields["name"].(string)
	kind, _ := fields["kind"].(string)
	out.matcher.Kind = matcherKinds[name][strings.ToLower(kind)]
	if out.matcher.Name == "" || out.matcher.Kind == "" || w.find == nil {
		return out
	}
	out.matcher.Revision, _ = fields["revisionName"].(string)
	stored, _ := lookupDotted(w.root, "status."+name+"Ref.controllerRevisionRef.name")
	out.matcher.Stored, _ = stored.(string)
	if out.spec, out.err = w.find(out.matcher); out.err != nil {
		out.spec = nil
	}
	if out.spec != nil {
		out.owned = ownedBy(name, out.spec)
	}
	return out
}

// act lets the layers act, overrides first. They leave alone what belongs to the instancetype that
// the user or an override names. Defaults leave alone also what belongs to one that a default names.
func (w *resolution) act() {
	n := 0
	for n < len(w.layers) && w.layers[n].role.Outranks() {
		n++
	}
	overrides, defaults := w.layers[:n], w.layers[n:]
	w.reserve(overrides, false)
	for i := range overrides {
		overrides[i].run()
	}
	w.reserve(defaults, true)
	for i := range defaults {
		defaults[i].run()
	}
}

// reserve finds out what the instancetype and the preference own of a VM on which layers will have
// acted, and bars the layers from it. An instancetype that a default names is held back where the
// VM sets what it owns.
func (w *resolution) reserve(layers []layer, defaults bool) {
	if w.instance == nil {
		spec, _ := w.root["spec"].(map[string]any)
		after := w.matchersAfter(spec, layers)
		w.contributions = w.contributionsOf(after)
		if defaults && spec["instancetype"] == nil && w.contributions.instancetype != nil {
			if at := w.firstSet(w.contributions.instancetype); at != nil {
				w.heldBack = fmt.Sprintf("the VM sets %s, which the instancetype would own", at)
				w.contributions.instancetype = nil
			}
		}
	}
	for i := range layers {
		layers[i].reserved = w.reservedFields(layers[i].role)
	}
}

var matcherPaths = []provenance.Path{provenance.Of("spec", "instancetype"), provenance.Of("spec", "preference")}

// matchersAfter returns a spec with the matchers that a VM of the given spec has once layers have acted.
func (w *resolution) matchersAfter(spec map[string]any, layers []layer) map[string]any {
	if !slices.ContainsFunc(layers, layer.setsMatchers) {
		return spec
	}
	sub := map[string]any{}
	for _, p := range matcherPaths {
		if v := spec[p[1].Name]; v != nil {
			sub[p[1].Name] = cloneJSON(v)
		}
	}
	trial := &resolution{root: map[string]any{"spec": sub}, rec: provenance.New()}
	for _, l := range layers {
		if l.setsMatchers() {
			l.w, l.root = trial, l.root.matchersOnly()
			l.run()
		}
	}
	return sub
}

// setsMatchers reports whether the layer sets or removes a matcher.
func (l layer) setsMatchers() bool {
	return slices.ContainsFunc(matcherPaths, func(p provenance.Path) bool {
		return l.root.find(p) != nil || l.role == provenance.Override && slices.ContainsFunc(l.preset.removes, func(r removal) bool { return r.path.HasPrefix(p) })
	})
}

// matchersOnly is p, the root of a partial VM, without everything but matchers.
func (p *fieldNode) matchersOnly() *fieldNode {
	spec := p.find(provenance.Of("spec"))
	if spec == nil {
		return nil
	}
	root, sub := *p, *spec
	sub.kids = slices.DeleteFunc(slices.Clone(spec.kids), func(kid *fieldNode) bool {
		return !slices.ContainsFunc(matcherPaths, kid.at.HasPrefix)
	})
	root.kids = []*fieldNode{&sub}
	return &root
}

// firstSet returns a field of w that c owns, or may own; nil where w sets none.
func (w *resolution) firstSet(c *contribution) provenance.Path {
	owned := c.owned
	if c.spec == nil {
		owned = instancetypeFields
	}
	for _, p := range owned {
		v := lookup(w.root, vmSchema(), p)
		if isWritten(v) && !c.hasAnnotation(p, v) {
			return p
		}
	}
	return nil
}

// hasAnnotation reports whether p is an annotation that c sets to v.
func (c *contribution) hasAnnotation(p provenance.Path, v any) bool {
	annotations, _ := c.spec["annotations"].(map[string]any)
	return p.HasPrefix(templateAnnotations) && annotations[p[len(p)-1].Name] == v
}

// isWritten reports whether KubeVirt takes a field to be set: most that it compares with an
// instancetype are no pointers.
func isWritten(v any) bool {
	switch v := v.(type) {
	case nil:
		return false
	case bool:
		return v
	case string:
		return v != ""
	case int64:
		return v != 0
	case []any:
		return len(v) > 0
	}
	return true
}

// A HeldBack is what a preset left alone, and why.
type HeldBack struct {
	Preset, Reason string
	Paths          []string
}

// heldBackByPresets lists what presets left alone.
func (w *resolution) heldBackByPresets() []HeldBack {
	out := make([]HeldBack, 0, len(w.skips)+len(w.quiet))
	for _, s := range slices.Concat(w.skips, w.quiet) {
		out = append(out, HeldBack{Preset: s.ref, Reason: s.why, Paths: s.fields})
	}
	return out
}

// isReserved reports whether p belongs to something else, and notes that the layer left it alone.
func (l *layer) isReserved(p *fieldNode) bool {
	owner, why := l.reservedBy(p)
	if why != "" {
		l.skipsQuietly(p, why)
	}
	return owner != 0
}

// reservedBy returns what p belongs to that bars the layer, and why; there is no reason to tell
// where users expect it.
func (l *layer) reservedBy(p *fieldNode) (ownership, string) {
	reserved := p.owner & l.reserved
	if reserved == 0 {
		return 0, ""
	}
	named := l.w.contributions
	switch {
	case reserved&namesInstancetype != 0:
		return reserved, l.w.heldBack
	case named.instancetype != nil && named.instancetype.owns(p.at):
		return reserved, named.instancetype.why("own")
	case !l.role.Outranks() && named.preference != nil && named.preference.owns(p.at):
		return reserved, named.preference.why("fill")
	}
	return reserved &^ (ownedByInstancetype | ownedByPreference | templateAnnotation), ""
}

// why says why fields that c owns, or fills, are left alone.
func (c *contribution) why(verb string) string {
	if c.spec == nil {
		return fmt.Sprintf("the VM names %s, which may %s it", c, verb)
	}
	return fmt.Sprintf("the VM names %s, which %ss it", c, verb)
}
