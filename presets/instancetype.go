package presets

import (
	"fmt"
	"slices"
	"strings"

	"kubevirt.io/api/instancetype"

	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/presets/tree"
	"github.com/virtwright/virtwright/presets/vmschema"
)

// An InstancetypeFinder returns the spec of a matcher's instancetype or preference, as decoded
// JSON; nil if it is unknown. The engine treats an error as unknown.
type InstancetypeFinder func(Matcher) (map[string]any, error)

// A Matcher names an instancetype or a preference, like spec.instancetype and spec.preference.
type Matcher struct {
	// Kind is VirtualMachine[Cluster]Instancetype or VirtualMachine[Cluster]Preference.
	Kind, Name string
	// Revision is the ControllerRevision that the VM pins; may be empty.
	Revision string
	// Stored is the ControllerRevision in the VM's status; empty if KubeVirt will replace it. It
	// counts if Revision is empty and it belongs to Name.
	Stored string
}

// String returns kind and name.
func (m Matcher) String() string { return m.Kind + " " + m.Name }

// matcherKinds are the lower-case names that KubeVirt accepts as the kind of a matcher, by field.
// An empty kind is the cluster-scoped one.
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

type contribution struct {
	field   string // instancetype or preference
	matcher Matcher
	spec    map[string]any    // of the instancetype or preference; nil if it is unknown
	owned   []provenance.Path // the fields that it owns; nil if it is unknown
	err     error             // says why it could not be read
}

// A contributions holds those of a VM; nil if it names none.
type contributions struct {
	instancetype, preference *contribution
}

func (c *contribution) String() string {
	if c.matcher.Name == "" {
		return "an inferred " + c.field
	}
	return c.matcher.String()
}

// owns reports whether p belongs to the contribution, or may do so if its spec is unknown.
func (c *contribution) owns(p provenance.Path) bool {
	switch {
	case c == nil:
		return false
	case c.spec != nil:
		return under(p, c.owned)
	case c.field == "preference":
		return under(p, preferenceFields)
	}
	return under(p, instancetypeFields)
}

func (r *mergeState) contributionsOf(spec map[string]any) contributions {
	return contributions{r.contribution("instancetype", spec), r.contribution("preference", spec)}
}

func (r *mergeState) contribution(name string, spec map[string]any) *contribution {
	if spec[name] == nil {
		return nil
	}
	out := &contribution{field: name}
	fields := tree.AsObject(spec[name])
	out.matcher.Name = tree.AsText(fields["name"])
	out.matcher.Kind = matcherKinds[name][strings.ToLower(tree.AsText(fields["kind"]))]
	if out.matcher.Name == "" || out.matcher.Kind == "" || r.findInstancetype == nil {
		return out
	}
	out.matcher.Revision, out.matcher.Stored = tree.AsText(fields["revisionName"]), r.storedRevision(name, tree.AsText(fields["kind"]))
	switch out.spec, out.err = r.findInstancetype(out.matcher); {
	case out.err != nil:
		out.spec = nil
	case out.spec != nil:
		out.owned = ownedBy(name, out.spec)
	}
	return out
}

// storedRevision returns the ControllerRevision of a matcher in the VM's status, unless KubeVirt
// will replace it: it does if the kind has another spelling than before.
func (r *mergeState) storedRevision(name, kind string) string {
	ref, _ := tree.Lookup(r.root, "status."+name+"Ref")
	if kind != "" && kind != tree.AsText(tree.AsObject(ref)["kind"]) {
		return ""
	}
	revision, _ := tree.Lookup(tree.AsObject(ref), "controllerRevisionRef.name")
	return tree.AsText(revision)
}

// reserve reserves the fields that instancetype and preference own after the layers have acted. A
// default's instancetype is skipped if the VM sets a field that it owns.
func (r *mergeState) reserve(layers []layer, defaults bool) {
	if r.sentVMI == nil {
		spec := tree.AsObject(r.root["spec"])
		after := r.matchersAfter(spec, layers)
		r.contributions = r.contributionsOf(after)
		if defaults && spec["instancetype"] == nil && r.contributions.instancetype != nil {
			if at := r.firstSet(r.contributions.instancetype); at != nil {
				r.skippedInstancetype = fmt.Sprintf("the VM sets %s, which the instancetype would own", at)
				r.contributions.instancetype = nil
			}
		}
	}
	for i := range layers {
		layers[i].reserved = r.reservedFields(layers[i].role)
	}
}

// matcherPaths are the fields of a VM that name an instancetype or a preference.
var matcherPaths = []provenance.Path{provenance.Of("spec", "instancetype"), provenance.Of("spec", "preference")}

// matchersAfter returns the matchers that a VM of the given spec has after the layers have acted.
func (r *mergeState) matchersAfter(spec map[string]any, layers []layer) map[string]any {
	if !slices.ContainsFunc(layers, layer.setsMatchers) {
		return spec
	}
	sub := map[string]any{}
	for _, p := range matcherPaths {
		if v := spec[p[1].Name]; v != nil {
			sub[p[1].Name] = tree.Clone(v)
		}
	}
	trial := &mergeState{root: map[string]any{"spec": sub}, record: provenance.New()}
	for _, l := range layers {
		if l.setsMatchers() {
			l.state, l.root = trial, l.root.matchersOnly()
			l.apply()
		}
	}
	return sub
}

func (l layer) setsMatchers() bool {
	return slices.ContainsFunc(matcherPaths, func(p provenance.Path) bool {
		return l.root.find(p) != nil || l.role == provenance.Override && slices.ContainsFunc(l.preset.removes, func(removed removal) bool { return removed.path.HasPrefix(p) })
	})
}

func (f *fieldNode) matchersOnly() *fieldNode {
	spec := f.find(provenance.Of("spec"))
	if spec == nil {
		return nil
	}
	root, sub := *f, *spec
	sub.children = slices.DeleteFunc(slices.Clone(spec.children), func(kid *fieldNode) bool {
		return !slices.ContainsFunc(matcherPaths, kid.path.HasPrefix)
	})
	root.children = []*fieldNode{&sub}
	return &root
}

// maxSockets is the only field of an instancetype that KubeVirt overwrites without a conflict.
var maxSockets = paths("domain.cpu.maxSockets")[0]

// firstSet returns a field of r that conflicts with c, or may do so; nil if r sets none.
func (r *mergeState) firstSet(c *contribution) provenance.Path {
	owned := c.owned
	if c.spec == nil {
		owned = instancetypeFields
	}
	for _, p := range owned {
		v := vmschema.Value(r.root, p)
		if !p.Equal(maxSockets) && isWritten(v) && !(p.HasPrefix(vmschema.TemplateAnnotations) && tree.AsObject(c.spec["annotations"])[p[len(p)-1].Name] == v) {
			return p
		}
	}
	return nil
}

// isWritten reports whether KubeVirt considers a field set: most of these are not pointers.
func isWritten(v any) bool {
	if list, ok := v.([]any); ok {
		return len(list) > 0
	}
	return v != nil && v != false && v != "" && v != int64(0)
}

func (l *layer) isReserved(f *fieldNode) bool {
	owner, why := l.reservedBy(f)
	if why != "" {
		l.note(f.text, Skipped{Reason: why, ByInstancetype: true}, false)
	}
	return owner != 0
}

// reservedBy returns the owners that reserve f, and why. The reason is empty if users expect it.
func (l *layer) reservedBy(f *fieldNode) (ownership, string) {
	reserved := f.owner & l.reserved
	if reserved == 0 {
		return 0, ""
	}
	named := l.state.contributions
	switch {
	case reserved&namesInstancetype != 0:
		return reserved, l.state.skippedInstancetype
	case named.instancetype.owns(f.path):
		return reserved, named.instancetype.why("own")
	case !l.role.OutranksUser() && named.preference.owns(f.path):
		return reserved, named.preference.why("fill")
	}
	return reserved &^ (ownedByInstancetype | ownedByPreference | templateAnnotation), ""
}

func (c *contribution) why(verb string) string {
	if c.spec == nil {
		return fmt.Sprintf("the VM names %s, which may %s it", c, verb)
	}
	return fmt.Sprintf("the VM names %s, which %ss it", c, verb)
}
