package presets

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets/provenance"
)

const (
	// MaxPartialBytes is how large defaults and overrides may each be.
	MaxPartialBytes = 128 << 10
	// MaxConditions is how many conditions a preset may have.
	MaxConditions = 32
	// MaxPriority bounds spec.priority on both sides.
	MaxPriority = 1_000_000
	// clusterPrefix stands before the name of a cluster preset, everywhere.
	clusterPrefix = "cluster/"
)

// A Compiled preset is a preset with everything worked out that does not
// depend on a request. It is immutable.
type Compiled struct {
	// Ref names the preset: NAME, or cluster/NAME for a cluster preset.
	Ref string
	// Namespace is empty for a cluster preset.
	Namespace  string
	Generation int64
	Priority   int32
	ApplyAt    v1alpha1.ApplyAt
	Mode       v1alpha1.Mode
	Explicit   bool

	labels, namespaces labels.Selector
	conditions         []expression
	defaults           *fieldNode
	overrides          *fieldNode
	removes            []removal
	forbids            []forbid
	// computes says that some of its values are computed.
	computes bool
	// legacy marks a VirtualMachineInstancePreset.
	legacy bool
	digest [sha256.Size]byte
	hash   string
}

type removal struct {
	path provenance.Path
	text string
	// schemas holds the schema of each step of path.
	owner ownership
}

type forbid struct {
	path    provenance.Path
	message string
}

// Name is that of the preset, whatever its kind.
func (c *Compiled) Name() PresetName { return PresetName{Namespace: c.Namespace, Ref: c.Ref} }

// Legacy reports whether it is a VirtualMachineInstancePreset.
func (c *Compiled) Legacy() bool { return c.legacy }

// Forbids reports whether the preset forbids anything.
func (c *Compiled) Forbids() bool { return len(c.forbids) > 0 }

// Cluster reports whether the preset is cluster-scoped.
func (c *Compiled) Cluster() bool { return c.Namespace == "" }

// RefOf returns the name by which a preset goes in annotations, warnings and
// provenance.
func RefOf(p v1alpha1.Preset) string {
	if p.GetNamespace() == "" {
		return clusterPrefix + p.GetName()
	}
	return p.GetName()
}

// Compile checks a preset and prepares it. Every problem is reported, with the
// field it lies in; a nil Compiled comes with at least one.
func Compile(p v1alpha1.Preset) (*Compiled, field.ErrorList) {
	spec, at := p.GetSpec(), field.NewPath("spec")
	out := &Compiled{
		Ref: RefOf(p), Namespace: p.GetNamespace(), Generation: max(p.GetGeneration(), 1),
		Priority: spec.Priority, ApplyAt: spec.ApplyAt.OrDefault(), Mode: spec.Mode.OrDefault(),
		Explicit: spec.Match.Explicit,
	}
	errs := out.checkScalars(at)
	errs = append(errs, out.compileMatch(spec.Match, at.Child("match"))...)
	var more field.ErrorList
	out.defaults, more = compilePartial(spec.Defaults, at.Child("defaults"))
	errs = append(errs, more...)
	out.overrides, more = compilePartial(spec.Overrides, at.Child("overrides"))
	errs = append(errs, more...)
	out.removes, more = compileRemoves(spec.Remove, at.Child("remove"))
	errs = append(errs, more...)
	out.forbids, more = compileForbids(spec.Forbid, at.Child("forbid"))
	errs = append(errs, more...)
	errs = append(errs, out.checkAgainstEachOther(at)...)
	if len(errs) > 0 {
		return nil, errs
	}
	out.computes = out.defaults.hasComputed() || out.overrides.hasComputed()
	out.digest, out.hash = digest(out, spec), out.hashGiven()
	return out, nil
}

func (c *Compiled) checkScalars(at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if c.Priority < -MaxPriority || c.Priority > MaxPriority {
		errs = append(errs, field.Invalid(at.Child("priority"), c.Priority, fmt.Sprintf("must be between %d and %d", -MaxPriority, MaxPriority)))
	}
	switch c.ApplyAt {
	case v1alpha1.ApplyAtDefinition, v1alpha1.ApplyAtLaunch:
	default:
		errs = append(errs, field.NotSupported(at.Child("applyAt"), c.ApplyAt,
			[]v1alpha1.ApplyAt{v1alpha1.ApplyAtDefinition, v1alpha1.ApplyAtLaunch}))
	}
	switch c.Mode {
	case v1alpha1.ModeEnforce, v1alpha1.ModeWarn, v1alpha1.ModeAudit, v1alpha1.ModeOff:
	default:
		errs = append(errs, field.NotSupported(at.Child("mode"), c.Mode,
			[]v1alpha1.Mode{v1alpha1.ModeEnforce, v1alpha1.ModeWarn, v1alpha1.ModeAudit, v1alpha1.ModeOff}))
	}
	return errs
}

func (c *Compiled) compileMatch(m v1alpha1.PresetMatch, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	c.labels = selector(m.Labels, at.Child("labels"), &errs)
	c.namespaces = selector(m.Namespaces, at.Child("namespaces"), &errs)
	if m.Namespaces != nil && !c.Cluster() {
		errs = append(errs, field.Forbidden(at.Child("namespaces"),
			"a VirtualMachinePreset acts in its own namespace only; use a ClusterVirtualMachinePreset to choose namespaces by label"))
	}
	if len(m.Conditions) > MaxConditions {
		return append(errs, field.TooMany(at.Child("conditions"), len(m.Conditions), MaxConditions))
	}
	var more field.ErrorList
	c.conditions, more = compileConditions(m.Conditions, at.Child("conditions"))
	return append(errs, more...)
}

// selector compiles s; nil selects everything, as an absent match part does.
func selector(s *metav1.LabelSelector, at *field.Path, errs *field.ErrorList) labels.Selector {
	if s == nil {
		return nil
	}
	out, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		*errs = append(*errs, selectorProblems(s, at, err)...)
		return nil
	}
	if out.Empty() {
		return nil
	}
	return out
}

// selectorProblems says what is wrong with a selector that err refuses.
func selectorProblems(s *metav1.LabelSelector, at *field.Path, err error) field.ErrorList {
	problems := metav1validation.ValidateLabelSelector(s, metav1validation.LabelSelectorValidationOptions{}, at)
	if len(problems) == 0 {
		problems = field.ErrorList{field.Invalid(at, field.OmitValueType{}, err.Error())}
	}
	return problems
}

func compilePartial(raw *apiextensionsv1.JSON, at *field.Path) (*fieldNode, field.ErrorList) {
	if raw == nil || len(raw.Raw) == 0 {
		return nil, nil
	}
	if len(raw.Raw) > MaxPartialBytes {
		return nil, field.ErrorList{field.TooLong(at, "", MaxPartialBytes)}
	}
	var value any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw.Raw, &value); err != nil {
		return nil, field.ErrorList{field.Invalid(at, show(string(raw.Raw)), "must be JSON: "+err.Error())}
	}
	fields, ok := value.(map[string]any)
	if !ok {
		return nil, field.ErrorList{field.TypeInvalid(at, value, "must be a partial VirtualMachine: an object with spec, metadata.labels or metadata.annotations")}
	}
	return compilePartialFields(fields, at)
}

func compilePartialFields(fields map[string]any, at *field.Path) (*fieldNode, field.ErrorList) {
	c := &fieldCompiler{root: at}
	c.checkHeader(fields)
	if len(fields) == 0 {
		return nil, c.errs
	}
	decimals(fields, vmSchema(), "")
	root := c.compile(fields, vmSchema(), nil)
	if root != nil {
		c.checkReserved(root)
	}
	if len(c.errs) > 0 {
		return nil, c.errs
	}
	return root, nil
}

// checkHeader lets authors paste apiVersion and kind, and refuses status.
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

// digest identifies what a preset says, whatever the spelling of its JSON.
func digest(c *Compiled, spec *v1alpha1.PresetSpec) [sha256.Size]byte {
	canonical := *spec
	canonical.ApplyAt, canonical.Mode = c.ApplyAt, c.Mode
	canonical.Defaults, canonical.Overrides = canonicalJSON(spec.Defaults), canonicalJSON(spec.Overrides)
	b, err := json.Marshal(canonical)
	if err != nil { // unreachable: canonicalJSON made every raw part
		b = []byte(err.Error())
	}
	return digestOf(fmt.Appendf(nil, "%s\n%s\n%s", c.Namespace, c.Ref, b))
}

func digestOf(b []byte) [sha256.Size]byte { return sha256.Sum256(b) }

func canonicalJSON(in *apiextensionsv1.JSON) *apiextensionsv1.JSON {
	if in == nil {
		return nil
	}
	var value any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(in.Raw, &value); err != nil {
		return in
	}
	b, err := json.Marshal(value)
	if err != nil {
		return in
	}
	return &apiextensionsv1.JSON{Raw: b}
}

// Bare splits a Ref into the name and the scope.
func Bare(ref string) (name string, cluster bool) {
	name, cluster = strings.CutPrefix(ref, clusterPrefix)
	return name, cluster
}
