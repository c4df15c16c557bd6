package presets

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	kjson "sigs.k8s.io/json"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets/condition"
	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/presets/tree"
	"github.com/virtwright/virtwright/presets/vmschema"
)

// MaxPriority bounds spec.priority on both sides.
const MaxPriority = 1_000_000

const (
	maxPartialBytes = 128 << 10 // of defaults and of overrides
	maxFields       = 512       // of defaults and of overrides, with objects, lists and elements
	maxPaths        = 256       // of remove, of forbid and of require
	maxConditions   = 32
	maxSelector     = 1024       // keys and values of a selector
	maxComputed     = 32         // values in defaults and overrides together
	clusterPrefix   = "cluster/" // begins the Ref of a cluster preset
)

// A Compiled is a preset that is checked and prepared for requests. It is immutable.
type Compiled struct {
	// Ref names the preset: NAME, or cluster/NAME for a cluster preset, which has no Namespace.
	Ref        string
	Namespace  string
	Generation int64
	Priority   int32
	ApplyAt    v1alpha1.ApplyAt
	Mode       v1alpha1.Mode
	Explicit   bool

	labels, namespaces labels.Selector
	variables          []*condition.Variable
	conditions         []condition.Expression
	defaults           *fieldNode
	overrides          *fieldNode
	removes            []removal
	forbids, requires  []rule
	computes           bool // the preset has computed values
	setsEvery          bool // the preset sets fields of every element of a list
	legacy             bool // it is a VirtualMachineInstancePreset
	digest             [sha256.Size]byte
	hash               string
}

type removal struct {
	path  provenance.Path
	text  string
	owner ownership
}

// A rule forbids a path, or requires it.
type rule struct {
	path     provenance.Path
	message  string
	required bool
}

// Name returns the namespace and the Ref of the preset.
func (c *Compiled) Name() PresetName { return PresetName{Namespace: c.Namespace, Ref: c.Ref} }

// Legacy reports whether it is a VirtualMachineInstancePreset.
func (c *Compiled) Legacy() bool { return c.legacy }

// HasRules reports whether the preset forbids or requires anything.
func (c *Compiled) HasRules() bool { return len(c.forbids)+len(c.requires) > 0 }

// Cluster reports whether the preset is cluster-scoped.
func (c *Compiled) Cluster() bool { return c.Namespace == "" }

// RefOf returns the name of a preset in annotations, warnings and provenance.
func RefOf(p v1alpha1.Preset) string {
	if p.GetNamespace() == "" {
		return clusterPrefix + p.GetName()
	}
	return p.GetName()
}

// Compile checks a preset and prepares it. It returns nil if, and only if, there are problems.
func Compile(p v1alpha1.Preset) (*Compiled, field.ErrorList) {
	spec, at := p.GetSpec(), field.NewPath("spec")
	out := &Compiled{
		Ref: RefOf(p), Namespace: p.GetNamespace(), Generation: max(p.GetGeneration(), 1),
		Priority: spec.Priority, ApplyAt: spec.ApplyAt.OrDefault(), Mode: spec.Mode.OrDefault(),
		Explicit: spec.Match.Explicit,
	}
	errs, all := out.checkScalars(at), &expressionCompiler{}
	out.variables = all.Variables(spec.Variables, at.Child("variables"), &errs)
	out.compileMatch(spec.Match, at.Child("match"), all, &errs)
	out.defaults = compilePartial(spec.Defaults, at.Child("defaults"), all, &errs)
	out.overrides = compilePartial(spec.Overrides, at.Child("overrides"), all, &errs)
	out.removes = compileRemoves(spec.Remove, at.Child("remove"), &errs)
	out.forbids = compileRules(spec.Forbid, at.Child("forbid"), &errs)
	out.requires = compileRules(asForbid(spec.Require), at.Child("require"), &errs)
	for i := range out.requires {
		out.requires[i].required = true
	}
	errs = append(errs, out.checkConsistency(at)...)
	if len(errs) > 0 {
		return nil, errs
	}
	out.computes = out.defaults != nil && out.defaults.computes || out.overrides != nil && out.overrides.computes
	out.setsEvery = out.defaults.hasEvery() || out.overrides.hasEvery()
	out.digest, out.hash = digest(out, spec), out.contentHash()
	return out, nil
}

func (c *Compiled) checkScalars(at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if c.Priority < -MaxPriority || c.Priority > MaxPriority {
		errs = append(errs, field.Invalid(at.Child("priority"), c.Priority, fmt.Sprintf("must be between %d and %d", -MaxPriority, MaxPriority)))
	}
	errs = append(errs, checkSupported(at.Child("applyAt"), c.ApplyAt, v1alpha1.ApplyAtDefinition, v1alpha1.ApplyAtLaunch)...)
	return append(errs, checkSupported(at.Child("mode"), c.Mode, v1alpha1.ModeEnforce, v1alpha1.ModeWarn, v1alpha1.ModeAudit, v1alpha1.ModeOff)...)
}

func checkSupported[T ~string](at *field.Path, value T, supported ...T) field.ErrorList {
	if slices.Contains(supported, value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(at, value, supported)}
}

func (c *Compiled) compileMatch(m v1alpha1.PresetMatch, at *field.Path, all *expressionCompiler, errs *field.ErrorList) {
	c.labels = limitedSelector(m.Labels, at.Child("labels"), errs)
	c.namespaces = limitedSelector(m.Namespaces, at.Child("namespaces"), errs)
	if m.Namespaces != nil && !c.Cluster() {
		*errs = append(*errs, field.Forbidden(at.Child("namespaces"),
			"a VirtualMachinePreset acts in its own namespace only; use a ClusterVirtualMachinePreset to select namespaces by label"))
	}
	if len(m.Conditions) > maxConditions {
		*errs = append(*errs, field.TooMany(at.Child("conditions"), len(m.Conditions), maxConditions))
		return
	}
	c.conditions = all.Conditions(m.Conditions, at.Child("conditions"), errs)
}

// limitedSelector compiles a selector of a preset. Its size is limited, because VMs and other
// presets are compared with it.
func limitedSelector(s *metav1.LabelSelector, at *field.Path, errs *field.ErrorList) labels.Selector {
	given := ptr.Deref(s, metav1.LabelSelector{})
	size := len(given.MatchLabels)
	for _, r := range given.MatchExpressions {
		size += 1 + len(r.Values)
	}
	if size > maxSelector {
		*errs = append(*errs, field.TooMany(at, size, maxSelector))
		return nil
	}
	return selector(s, at, errs)
}

func selector(s *metav1.LabelSelector, at *field.Path, errs *field.ErrorList) labels.Selector {
	if s == nil {
		return nil
	}
	out, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		problems := metav1validation.ValidateLabelSelector(s, metav1validation.LabelSelectorValidationOptions{}, at)
		if len(problems) == 0 {
			problems = field.ErrorList{field.Invalid(at, field.OmitValueType{}, err.Error())}
		}
		*errs = append(*errs, problems...)
		return nil
	}
	if out.Empty() {
		return nil
	}
	return out
}

func compilePartial(raw *apiextensionsv1.JSON, at *field.Path, all *expressionCompiler, errs *field.ErrorList) *fieldNode {
	if raw == nil || len(raw.Raw) == 0 {
		return nil
	}
	var value any
	if len(raw.Raw) > maxPartialBytes {
		*errs = append(*errs, field.TooLong(at, "", maxPartialBytes))
	} else if err := kjson.UnmarshalCaseSensitivePreserveInts(raw.Raw, &value); err != nil {
		*errs = append(*errs, field.Invalid(at, tree.Show(string(raw.Raw)), "must be JSON: "+err.Error()))
	} else if fields, ok := value.(map[string]any); !ok {
		*errs = append(*errs, field.TypeInvalid(at, value, "must be a partial VirtualMachine: an object with spec, metadata.labels or metadata.annotations"))
	} else {
		return compilePartialFields(fields, at, all, errs)
	}
	return nil
}

func compilePartialFields(fields map[string]any, at *field.Path, all *expressionCompiler, errs *field.ErrorList) *fieldNode {
	c := &fieldCompiler{root: at, expressions: all}
	c.checkHeader(fields)
	var root *fieldNode
	if len(fields) > 0 {
		decimalsToStrings(fields, vmschema.VM())
		if root = c.compile(fields, vmschema.VM(), nil); c.fields > maxFields {
			*errs = append(*errs, field.Forbidden(at, fmt.Sprintf(
				"must have at most %d fields, objects and list elements: divide it into several presets", maxFields)))
			return nil
		}
		visitLeaves(root, func(leaf *fieldNode) {
			if why := reservedPath(leaf.path); why != "" {
				c.errs = append(c.errs, field.Forbidden(at.Child(leaf.text), why))
			}
		})
	}
	if *errs = append(*errs, c.errs...); len(c.errs) > 0 {
		return nil
	}
	return root
}

// checkHeader allows apiVersion and kind, and reports status.
func (c *fieldCompiler) checkHeader(fields map[string]any) {
	for name, want := range map[string]string{"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine"} {
		if got, ok := fields[name]; ok && got != want {
			c.errs = append(c.errs, field.Invalid(c.root.Child(name), got, fmt.Sprintf("must be %q or left out", want)))
		}
		delete(fields, name)
	}
	if _, ok := fields["status"]; ok {
		c.errs = append(c.errs, field.Forbidden(c.root.Child("status"), "controllers write status; a preset may set spec, metadata.labels and metadata.annotations"))
		delete(fields, "status")
	}
}

// digest identifies the content of a preset; the spelling of its JSON does not matter.
func digest(c *Compiled, spec *v1alpha1.PresetSpec) [sha256.Size]byte {
	canonical := *spec
	canonical.ApplyAt, canonical.Mode = c.ApplyAt, c.Mode
	canonical.Defaults, canonical.Overrides = canonicalJSON(spec.Defaults), canonicalJSON(spec.Overrides)
	return sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%s", c.Namespace, c.Ref, tree.JSON(canonical)))
}

func canonicalJSON(in *apiextensionsv1.JSON) *apiextensionsv1.JSON {
	if in == nil {
		return nil
	}
	var value any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(in.Raw, &value); err != nil {
		return in
	}
	return &apiextensionsv1.JSON{Raw: []byte(tree.JSON(value))}
}

// SplitRef splits a Ref into the name and whether the preset is cluster-scoped.
func SplitRef(ref string) (name string, cluster bool) {
	return strings.CutPrefix(ref, clusterPrefix)
}

// Hash identifies the defaults, overrides, remove and paths of forbid and require of the preset, in
// any order and spelling, with the variables that computed values use. Nothing else counts. It has
// 8 hexadecimal digits, and provenance stores it.
func (c *Compiled) Hash() string { return c.hash }

func (c *Compiled) source(role provenance.Role) provenance.Source {
	return provenance.Source{Preset: c.Ref, Generation: c.Generation, Role: role, Hash: c.hash}
}

func (c *Compiled) contentHash() string {
	var removes []string
	for _, removed := range c.removes {
		removes = append(removes, removed.text)
	}
	slices.Sort(removes)
	parts := []any{c.defaults.canonical(), c.overrides.canonical(), removes, sortedPaths(c.forbids)}
	if len(c.requires) > 0 { // the hash of other presets stays as VMs have stored it
		parts = append(parts, sortedPaths(c.requires))
	}
	sum := sha256.Sum256([]byte(tree.JSON(parts)))
	return hex.EncodeToString(sum[:4])
}

func sortedPaths(rules []rule) []string {
	var out []string
	for _, f := range rules {
		out = append(out, f.path.String())
	}
	slices.Sort(out)
	return out
}

// canonical returns a text that does not depend on order and spelling.
func (f *fieldNode) canonical() string {
	switch {
	case f == nil:
		return ""
	case f.leaf:
		return f.canonicalValue()
	}
	var lines []string
	for _, kid := range f.children {
		lines = append(lines, strconv.Itoa(int(kid.segment.Kind))+strconv.Quote(kid.segment.Name)+":"+kid.canonical())
	}
	for _, kid := range f.unkeyed {
		lines = append(lines, "#:"+kid.canonical()) // the name of the element is its position
	}
	slices.Sort(lines)
	return "{" + strings.Join(lines, ",") + "}"
}

func (f *fieldNode) canonicalValue() string {
	switch {
	case f.computed != nil:
		return ComputedKey + strconv.Quote(f.computed.Text)
	case f.quantity != nil:
		q := f.quantity.DeepCopy()
		return resource.NewDecimalQuantity(*q.AsDec(), resource.DecimalSI).String()
	}
	return tree.JSON(f.value)
}
