package webhooks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	kjson "sigs.k8s.io/json"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/validation"
)

// MaxPresetBytes is how large a preset may be. etcd would refuse one of 1.5 MiB
// in words that help nobody.
const MaxPresetBytes = 1 << 20

// A Preset validates presets of one kind by compiling them, so that one that
// cannot be right never comes into being.
//
// It ratchets: an update that leaves spec as it was passes, whatever spec says. Of what
// Rules finds, an update is refused only for what it changes.
type Preset struct {
	// Kind is v1alpha1.KindVirtualMachinePreset or v1alpha1.KindClusterVirtualMachinePreset.
	Kind string
	// Authority is asked whether the author may write the preset; nil asks
	// nobody, as a program may that only checks files.
	Authority Authority
	// Rules find presets that compile and harm VMs; nil finds none.
	Rules *validation.Config
	// Stored counts stored VMs; nil counts none.
	Stored StoredVMs
}

// StoredVMs counts the VMs of a cluster.
type StoredVMs interface {
	// Breaking counts the VMs that have what a preset forbids and names one of them. If all is
	// false, it has not looked at every VM.
	Breaking(ctx context.Context, preset *presets.Compiled) (n int, example string, all bool, err error)
}

// countTime is how long stored VMs are counted for a request.
const countTime = time.Second

var _ admission.Handler = Preset{}

// Handle answers one request.
func (p Preset) Handle(ctx context.Context, req admission.Request) admission.Response {
	switch req.Operation {
	case admissionv1.Create, admissionv1.Update:
	case admissionv1.Delete:
		return p.deleted(req.OldObject.Raw)
	default:
		return allowed()
	}
	raw := req.Object.Raw
	if req.Operation == admissionv1.Update && sameSpec(raw, req.OldObject.Raw) {
		return allowed()
	}
	kind := v1alpha1.GroupVersion.WithKind(p.Kind).GroupKind()
	if len(raw) > MaxPresetBytes {
		return invalid(kind, req.Name, field.ErrorList{field.Forbidden(field.NewPath("spec"), fmt.Sprintf(
			"a preset may be %d KiB large, and this one is %d KiB: make several of it", MaxPresetBytes>>10, len(raw)>>10))})
	}
	preset := p.empty()
	strict, err := kjson.UnmarshalStrict(raw, preset)
	if err != nil {
		return p.unreadable(req, err)
	}
	problems := unknownFields(strict, presetParts)
	problems = append(problems, nulls(raw)...)
	compiled, more := presets.Compile(preset)
	if problems = append(problems, more...); len(problems) > 0 {
		return invalid(kind, req.Name, problems)
	}
	response := authorized(ctx, p.Authority, req, compiled)
	if !response.Allowed {
		return response
	}
	verdict := p.validate(preset, compiled, req.OldObject.Raw)
	if len(verdict.Errors) > 0 {
		return invalid(kind, req.Name, verdict.Errors)
	}
	response.Warnings = presets.Bounded(append(p.breaking(ctx, req, compiled), verdict.Warnings...), "virtwright validate shows all")
	return response
}

// deleted warns if VMs have what the preset gave. It never refuses.
func (p Preset) deleted(raw []byte) admission.Response {
	response, preset := allowed(), p.empty()
	if kjson.UnmarshalCaseSensitivePreserveInts(raw, preset) != nil {
		return response
	}
	matched := preset.GetStatus().Matched
	if matched != nil && *matched > 0 && preset.GetSpec().Mode.OrDefault() == v1alpha1.ModeEnforce {
		keep := fmt.Sprintf("%d VMs keep what it gave them", *matched)
		if *matched == 1 {
			keep = "1 VM keeps what it gave it"
		}
		response.Warnings = []string{fmt.Sprintf("preset %s is in use: %s, and new VMs do not get it", presets.RefOf(preset), keep)}
	}
	return response
}

// breaking warns if stored VMs have what the preset forbids. The author must be allowed to list
// VMs: a rule with a condition could ask anything about them.
func (p Preset) breaking(ctx context.Context, req admission.Request, compiled *presets.Compiled) []string {
	if p.Stored == nil || !compiled.Forbids() || compiled.Mode != v1alpha1.ModeEnforce || compiled.ApplyAt != v1alpha1.ApplyAtDefinition {
		return nil
	}
	if p.Authority != nil {
		lists := authorizationv1.ResourceAttributes{Namespace: req.Namespace, Verb: "list", Group: "kubevirt.io", Resource: "virtualmachines"}
		if may, err := p.Authority.Allowed(ctx, req.UserInfo, lists); err != nil || !may {
			return nil
		}
	}
	ctx, cancel := context.WithTimeout(ctx, countTime)
	defer cancel()
	n, example, all, err := p.Stored.Breaking(ctx, compiled)
	if err != nil {
		ctrl.LoggerFrom(ctx).Info("Cannot count the VMs that break a preset", "preset", compiled.Ref, "reason", err.Error())
	}
	if n == 0 {
		return nil
	}
	least, are := "", "stored VMs break it, such as"
	if !all {
		least = "at least "
	}
	if n == 1 {
		are = "stored VM breaks it,"
	}
	return []string{fmt.Sprintf("spec.forbid: %s%d %s %s; such VMs stay as they are, and updates may not make it worse", least, n, are, example)}
}

// unreadable answers for a preset with a value of a wrong type.
func (p Preset) unreadable(req admission.Request, err error) admission.Response {
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if !ok || wrong.Field == "" {
		return malformed(fmt.Errorf("cannot read the %s: %w", p.Kind, err))
	}
	detail := fmt.Sprintf("must be %s, not %s", kindNames[wrong.Type.Kind()], wrong.Value)
	if wrong.Field == "spec.mode" && wrong.Value == "bool" {
		detail = `must be a string; YAML reads Off without quotes as false, so write mode: "Off"`
	}
	return invalid(v1alpha1.GroupVersion.WithKind(p.Kind).GroupKind(), req.Name, field.ErrorList{
		field.TypeInvalid(field.NewPath(wrong.Field), field.OmitValueType{}, detail),
	})
}

var kindNames = map[reflect.Kind]string{
	reflect.String: "a string", reflect.Bool: "true or false", reflect.Int32: "a whole number", reflect.Int64: "a whole number",
	reflect.Slice: "a list", reflect.Struct: "an object", reflect.Map: "an object",
}

// validate applies the rules to a preset, and on an update leaves out what they say of the
// stored one.
func (p Preset) validate(preset v1alpha1.Preset, compiled *presets.Compiled, stored []byte) validation.Result {
	if p.Rules == nil {
		return validation.Result{}
	}
	old := p.empty()
	if len(stored) == 0 || kjson.UnmarshalCaseSensitivePreserveInts(stored, old) != nil {
		return p.Rules.ValidatePreset(preset, compiled)
	}
	return p.Rules.ValidatePresetUpdate(preset, compiled, old)
}

// authorized refuses a preset that its author may not write. Writing presets is
// writing other people's VMs, so the author must be allowed to do that; and for
// what reaches beyond a VM there is a verb of its own.
func authorized(ctx context.Context, authority Authority, req admission.Request, compiled *presets.Compiled) admission.Response {
	needs := []need{{
		at:   field.NewPath("spec"),
		what: authorizationv1.ResourceAttributes{Namespace: req.Namespace, Verb: "update", Group: "kubevirt.io", Resource: "virtualmachines"},
		why:  "a preset writes other people's VirtualMachines",
	}}
	if sensitive := compiled.Sensitive(); len(sensitive) > 0 {
		needs = append(needs, need{
			at: field.NewPath("spec"),
			what: authorizationv1.ResourceAttributes{
				Namespace: req.Namespace, Verb: VerbEscalate, Group: req.Resource.Group, Resource: req.Resource.Resource, Name: presetName(req),
			},
			why: "it sets " + listed(sensitive) + ", which reach beyond the VM",
		})
	}
	return permitted(ctx, authority, req, needs)
}

// permitted refuses an object whose author lacks rights, and names each of them. Without an
// authority it allows all.
func permitted(ctx context.Context, authority Authority, req admission.Request, needs []need) admission.Response {
	if authority == nil {
		return allowed()
	}
	var problems field.ErrorList
	for _, n := range needs {
		switch may, err := authority.Allowed(ctx, req.UserInfo, n.what); {
		case err != nil:
			return unanswerable(ctx, req, err)
		case !may:
			problems = append(problems, field.Forbidden(n.at, fmt.Sprintf("user %s may not %s, which is required: %s",
				req.UserInfo.Username, describe(n.what), n.why)))
		}
	}
	if len(problems) > 0 {
		return invalid(schema.GroupKind{Group: req.Kind.Group, Kind: req.Kind.Kind}, req.Name, problems)
	}
	return allowed()
}

// A need is something that an author must be allowed to do.
type need struct {
	at   *field.Path
	what authorizationv1.ResourceAttributes
	why  string
}

// presetName is the name of the preset, which a request to create one under
// generateName does not have.
func presetName(req admission.Request) string {
	if req.Name != "" {
		return req.Name
	}
	var meta metav1.PartialObjectMetadata
	_ = kjson.UnmarshalCaseSensitivePreserveInts(req.Object.Raw, &meta) // it was read before
	return meta.Name
}

func (p Preset) empty() v1alpha1.Preset {
	if p.Kind == v1alpha1.KindClusterVirtualMachinePreset {
		return &v1alpha1.ClusterVirtualMachinePreset{}
	}
	return &v1alpha1.VirtualMachinePreset{}
}

// sameSpec reports whether two objects have equal spec.
func sameSpec(a, b []byte) bool {
	var left, right struct {
		Spec any `json:"spec"`
	}
	if kjson.UnmarshalCaseSensitivePreserveInts(a, &left) != nil || kjson.UnmarshalCaseSensitivePreserveInts(b, &right) != nil {
		return false
	}
	return apiequality.Semantic.DeepEqual(left.Spec, right.Spec)
}

// nulls refuses null where Go cannot tell it from an absent field.
func nulls(raw []byte) field.ErrorList {
	var preset struct {
		Spec struct {
			Defaults  json.RawMessage `json:"defaults"`
			Overrides json.RawMessage `json:"overrides"`
		} `json:"spec"`
	}
	if kjson.UnmarshalCaseSensitivePreserveInts(raw, &preset) != nil {
		return nil
	}
	var problems field.ErrorList
	for name, value := range map[string]json.RawMessage{"defaults": preset.Spec.Defaults, "overrides": preset.Spec.Overrides} {
		if string(value) == "null" {
			problems = append(problems, field.Invalid(field.NewPath("spec", name), nil,
				"must not be null: leave it out, or use remove to take fields out of a VM"))
		}
	}
	slices.SortFunc(problems, func(a, b *field.Error) int { return strings.Compare(a.Field, b.Field) })
	return problems
}

// unknownFields turns what a strict decoder complains about into problems with
// field paths. An API server drops unknown fields before it asks us, unless
// its client wants them refused; this is for whoever asks us directly.
func unknownFields(strict []error, parts map[string]reflect.Type) field.ErrorList {
	var problems field.ErrorList
	for _, err := range strict {
		var at *field.Path
		if _, quoted, ok := strings.Cut(err.Error(), `"`); ok {
			at = field.NewPath(strings.TrimSuffix(quoted, `"`))
		}
		reason := strings.TrimSpace(strings.SplitN(err.Error(), `"`, 2)[0])
		problems = append(problems, field.Forbidden(at, reason+known(at.String(), parts)))
	}
	return problems
}

// presetParts are the parts of a preset whose fields are listed to whoever
// misspells one.
var presetParts = map[string]reflect.Type{
	"spec.match": reflect.TypeFor[v1alpha1.PresetMatch](), "spec": reflect.TypeFor[v1alpha1.PresetSpec](),
	"spec.match.labels": reflect.TypeFor[metav1.LabelSelector](), "spec.match.namespaces": reflect.TypeFor[metav1.LabelSelector](),
}

// known lists the fields that might have been meant by one of these parts.
func known(path string, parts map[string]reflect.Type) string {
	for parent, fields := range parts {
		if name, ok := strings.CutPrefix(path, parent+"."); ok && !strings.ContainsAny(name, ".[") {
			if meant := presets.Nearest(name, slices.Values(jsonNames(fields))); meant != "" {
				return fmt.Sprintf("; did you mean %q?", meant)
			}
			if meant := presets.Nearest(name, slices.Values(jsonNames(reflect.TypeFor[metav1.LabelSelector]()))); meant != "" && parent == "spec.match" {
				return fmt.Sprintf("; did you mean labels.%s?", meant)
			}
			return "; " + parent + " has " + strings.Join(jsonNames(fields), ", ")
		}
	}
	return ""
}

func jsonNames(t reflect.Type) []string {
	var names []string
	for _, f := range reflect.VisibleFields(t) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
