package webhooks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	kjson "sigs.k8s.io/json"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/validation"
	"github.com/virtwright/virtwright/validation/names"
	"github.com/virtwright/virtwright/validation/protection"
)

// Names knows which machines there are.
type Names interface {
	// Around is what an index knows around a machine.
	Around(ctx context.Context, m *names.Machine) (names.Surroundings, error)
	// Confirm reads what was seen again, live.
	Confirm(ctx context.Context, m *names.Machine, seen names.Surroundings) (names.Surroundings, error)
}

// A Validator admits VirtualMachines, or VirtualMachineInstances, as they will
// be stored: who writes what is guarded, whether it can start, whether presets
// hold, and whose name it has.
type Validator struct {
	Kind      presets.Kind
	Guard     protection.Guard
	Rules     *validation.Config
	Engine    *presets.Engine
	Snapshots Snapshots
	// Namespaces is asked where presets act at launch.
	Namespaces Namespaces
	// Names may be nil, and then nothing is compared with other machines.
	Names Names
	// Instancetypes may be nil, and then no VM is expanded by its instancetype.
	Instancetypes Instancetypes
	// Profiles may be nil, and then nothing is rendered.
	Profiles Profiles
	// Authority may be nil: then every user may use every preset.
	Authority Authority
	// Formats are the names of those in which templates may be made.
	Formats []string
	// TemplateFormat chooses that which an annotation asks for; nil chooses the first.
	TemplateFormat TemplateFormat
	// Unbounded keeps every problem and every warning, at any length. API servers want few
	// and short ones.
	Unbounded bool
	// Stored validates the object of a create as an object that is stored already. Who may write
	// it, and whose name it has, was decided before.
	Stored bool
}

var _ admission.Handler = (*Validator)(nil)

// Handle answers one request.
func (v *Validator) Handle(ctx context.Context, req admission.Request) admission.Response {
	if req.Operation != admissionv1.Create && req.Operation != admissionv1.Update || req.SubResource != "" {
		return allowed()
	}
	c := &candidate{Validator: v, req: req, trusted: v.Guard.Trusts(req.UserInfo.Username)}
	if err := c.read(); err != nil {
		return malformed(err)
	}
	steps := []func(context.Context) error{c.guard, c.validate, c.render, c.confirm, c.confirmExpansion, c.compare, c.authorize, c.template}
	switch {
	case v.Stored:
		steps = []func(context.Context) error{c.validate, c.render, c.compare}
	case c.deleting():
		steps = steps[:1] // it only goes; nothing else matters any more
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return unanswerable(ctx, req, err)
		}
	}
	if len(c.problems) > 0 {
		c.explain(ctx)
	}
	return c.answer()
}

func (c *candidate) answer() admission.Response {
	problems, warnings := inVersion(c.req, c.problems), warningsIn(c.req, c.warnings)
	kind := schema.GroupKind{Group: c.req.Kind.Group, Kind: c.req.Kind.Kind}
	response := allowed()
	switch {
	case len(problems) > 0 && c.Unbounded:
		response = denied(apierrors.NewInvalid(kind, c.name(), problems).Status())
	case len(problems) > 0:
		response = invalid(kind, c.name(), problems)
	}
	if !c.Unbounded {
		warnings = presets.Bounded(warnings, "virtwright validate shows all")
	}
	response.Warnings = warnings
	return response
}

// maxHints is for how many missing values presets are named.
const maxHints = 8

// explain adds to the problems the presets that caused them, and to missing values the
// presets that would give them.
func (c *candidate) explain(ctx context.Context) {
	c.problems = presets.NameOrigins(c.Kind, c.object, c.problems)
	namespace, err := c.Namespaces.Get(ctx, c.req.Namespace)
	snapshot := c.Snapshots.Snapshot()
	if err != nil || snapshot == nil {
		return
	}
	request := presets.Request{Kind: c.Kind, Object: c.req.Object.Raw, Namespace: namespace}
	var missing field.ErrorList
	var fields []string
	for _, p := range c.problems {
		if p.Type == field.ErrorTypeRequired && len(missing) < maxHints {
			missing, fields = append(missing, p), append(fields, p.Field)
		}
	}
	if len(missing) == 0 {
		return
	}
	for i, givers := range c.Engine.Givers(ctx, snapshot, request, fields...) {
		missing[i].Detail = strings.Join(append([]string{missing[i].Detail}, givers...), "; ")
	}
}

// A candidate is a VM or VMI that is about to be written.
type candidate struct {
	*Validator
	req     admission.Request
	trusted bool
	// object and old are decoded JSON; old is nil on a create.
	object, old map[string]any
	machine     *validation.Machine
	// ruled says that no rule refuses the machine.
	ruled bool

	problems field.ErrorList
	warnings []string
}

func (c *candidate) read() error {
	if c.object = decodedIn(c.req.Object); c.object != nil && c.req.Operation == admissionv1.Create {
		return nil
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(c.req.Object.Raw, &c.object); err != nil {
		return fmt.Errorf("cannot read the %s: %w", c.Kind, err)
	}
	if c.object == nil {
		return fmt.Errorf("cannot read the %s: want a JSON object, not null", c.Kind)
	}
	if c.req.Operation == admissionv1.Update {
		if err := kjson.UnmarshalCaseSensitivePreserveInts(c.req.OldObject.Raw, &c.old); err != nil || c.old == nil {
			return fmt.Errorf("cannot read the stored %s: %w", c.Kind, errors.Join(err, errors.New("want a JSON object")))
		}
	}
	return nil
}

func (c *candidate) meta(name string) any {
	meta, _ := c.object["metadata"].(map[string]any)
	return meta[name]
}

// deleting reports whether what is stored is being deleted: what a user sends
// may say so of anything.
func (c *candidate) deleting() bool {
	meta, _ := c.old["metadata"].(map[string]any)
	return meta["deletionTimestamp"] != nil
}

// name is the machine's, which a request under generateName does not have.
func (c *candidate) name() string {
	name, _ := c.meta("name").(string)
	return name
}

// guard refuses what only trusted writers write.
func (c *candidate) guard(context.Context) error {
	c.problems = append(c.problems, c.Guard.Check(protection.Write{
		Kind: c.Kind, User: c.req.UserInfo.Username, Object: c.object, Old: c.old,
	})...)
	return nil
}

// validate refuses what cannot start.
func (c *candidate) validate(ctx context.Context) error {
	var old *validation.Machine
	var unreadable error
	if c.old != nil {
		if old, unreadable = c.decode(c.expanded(ctx, c.req.OldObject.Raw)); unreadable == nil {
			c.launch(ctx, old, c.req.OldObject.Raw, c.old)
		}
	}
	machine, err := c.decode(c.expanded(ctx, c.req.Object.Raw))
	if err != nil {
		c.unreadable(err, unreadable != nil)
		return nil
	}
	c.launch(ctx, machine, c.req.Object.Raw, c.object)
	c.machine, machine.Old = machine, old
	result := c.Rules.ValidateAssumed(c.machine, c.sent)
	c.problems = append(c.problems, result.Errors...)
	c.warnings = append(c.warnings, result.Warnings...)
	c.ruled = len(result.Errors) == 0
	return nil
}

// sent is the object without assumed defaults.
func (c *candidate) sent() (*validation.Machine, error) {
	out, err := c.decode(c.req.Object.Raw)
	if err == nil && c.old != nil {
		out.Old, err = c.decode(c.req.OldObject.Raw)
	}
	return out, err
}

// unreadable refuses what rules cannot read. What is stored and cannot be read
// either may stay.
func (c *candidate) unreadable(err error, before bool) {
	problems := field.ErrorList{field.Invalid(field.NewPath("spec"), c.name(), err.Error())}
	if refusal, ok := errors.AsType[*presets.Refusal](err); ok {
		problems = refusal.Problems
	} else if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok { // such as a negative number of cores
		problems = field.ErrorList{field.TypeInvalid(field.NewPath(wrong.Field), field.OmitValueType{}, "must not be "+wrong.Value)}
	}
	if !before {
		c.problems = append(c.problems, problems...)
		return
	}
	for _, p := range problems {
		c.warnings = append(c.warnings, p.Error()+"; it was so before, and nothing else of it is validated")
	}
}

// launch lets rules see what presets complete only at launch. Where they would
// refuse the launch, rules see the VM as it is.
func (c *candidate) launch(ctx context.Context, m *validation.Machine, raw []byte, object map[string]any) {
	snapshot := c.Snapshots.Snapshot()
	if c.Kind != presets.VirtualMachine || c.Rules.Addon || m.Spec == nil || snapshot == nil || !snapshot.Launches() {
		return
	}
	namespace, err := c.Namespaces.Get(ctx, c.req.Namespace)
	if err != nil || c.Engine.LaunchesTemplate(snapshot, object, namespace) {
		return
	}
	instance, err := c.Engine.Launch(ctx, snapshot, presets.Request{Kind: c.Kind, Object: raw, Decoded: object, Namespace: namespace})
	if err != nil {
		c.warnings = append(c.warnings, "as presets are now, the VM could not be launched: "+err.Error())
		return
	}
	_ = m.Launched(instance) // which the engine has made of what could be read
}

func (c *candidate) decode(raw []byte) (*validation.Machine, error) {
	if c.Kind == presets.VirtualMachine {
		return validation.NewVirtualMachine(raw)
	}
	return validation.NewInstance(raw)
}

// nothing is a set of no presets.
var nothing = presets.NewSnapshot(nil, nil)

// expanded is raw with platform defaults. In standalone mode it has them
// already; beside KubeVirt, which fills them in when a VM starts, they are
// assumed, so that rules see what will run; where they cannot be, rules see
// what was sent.
func (c *candidate) expanded(ctx context.Context, raw []byte) []byte {
	if !c.Rules.Addon {
		return raw
	}
	assumed := &presets.Engine{Platform: &presets.Platform{Architecture: c.Rules.Architecture, Instancetypes: true}}
	result, err := assumed.Resolve(ctx, nothing, presets.Request{Kind: c.Kind, Object: raw})
	if err != nil {
		return raw
	}
	out, err := json.Marshal(result.Object())
	if err != nil { // unreachable: it was JSON before
		return raw
	}
	return out
}

// confirm checks that what presets did has survived other webhooks.
func (c *candidate) confirm(ctx context.Context) error {
	snapshot := c.Snapshots.Snapshot()
	if snapshot == nil {
		return errors.New("presets are not loaded yet")
	}
	namespace, err := c.Namespaces.Get(ctx, c.req.Namespace)
	if err != nil {
		return fmt.Errorf("cannot read namespace %s: %w", c.req.Namespace, err)
	}
	request := presets.Request{
		Kind: c.Kind, Object: c.req.Object.Raw, Decoded: c.object, Namespace: namespace,
		Instancetypes: finder(ctx, c.Instancetypes, c.req.Namespace),
	}
	if c.old != nil {
		request.OldObject, request.OldDecoded = c.req.OldObject.Raw, c.old
	}
	if refusal, ok := errors.AsType[*presets.Refusal](c.Engine.VerifyApplied(ctx, snapshot, request)); ok {
		c.problems = append(c.problems, refusal.Problems...)
	}
	return nil
}

// compare refuses a name or a disk that another VM has.
func (c *candidate) compare(ctx context.Context) error {
	if c.Names == nil || c.machine == nil {
		return nil
	}
	m, old := digest(c.machine), (*names.Machine)(nil)
	m.Namespace = c.req.Namespace
	switch {
	case c.Stored:
		old = new(m)
	case c.machine.Old != nil:
		old = new(digest(c.machine.Old))
	}
	seen, err := c.Names.Around(ctx, &m)
	if err != nil {
		return err
	}
	if names.NeedsLiveRead(&m, old, seen, c.trusted) {
		if seen, err = c.Names.Confirm(ctx, &m, seen); err != nil {
			return err
		}
	}
	c.problems = append(c.problems, names.Check(&m, old, seen, c.trusted)...)
	c.warnings = append(c.warnings, names.Warnings(&m, old, seen)...)
	return nil
}

func digest(m *validation.Machine) names.Machine {
	if m.VM != nil {
		return names.OfVirtualMachine(m.VM)
	}
	return names.OfInstance(m.VMI)
}

func annotation(object map[string]any, key string) any {
	meta, _ := object["metadata"].(map[string]any)
	annotations, _ := meta["annotations"].(map[string]any)
	return annotations[key]
}

// authorize refuses presets that the author names and may not use.
func (c *candidate) authorize(ctx context.Context) error {
	snapshot := c.Snapshots.Snapshot()
	if c.Authority == nil || c.trusted || snapshot == nil {
		return nil
	}
	before := presets.Named(c.Kind, c.old)
	anew := annotation(c.old, v1alpha1.AnnotationReapply) != annotation(c.object, v1alpha1.AnnotationReapply)
	at := field.NewPath("metadata", "annotations").Key(v1alpha1.AnnotationPresets)
	for _, ref := range presets.Named(c.Kind, c.object) {
		named := slices.Contains(before, ref)
		if named && !anew {
			continue
		}
		if _, exists := snapshot.Lookup(c.req.Namespace, ref); !exists {
			if !named {
				c.problems = append(c.problems, field.NotFound(at, ref))
			}
			continue
		}
		what := authorizationv1.ResourceAttributes{
			Namespace: c.req.Namespace, Verb: VerbUse, Group: v1alpha1.GroupName, Resource: v1alpha1.ResourceVirtualMachinePresets, Name: ref,
		}
		if name, cluster := strings.CutPrefix(ref, "cluster/"); cluster {
			what.Namespace, what.Resource, what.Name = "", v1alpha1.ResourceClusterVirtualMachinePresets, name
		}
		may, err := c.Authority.Allowed(ctx, c.req.UserInfo, what)
		if err != nil {
			return err
		}
		if !may {
			c.problems = append(c.problems, field.Forbidden(at,
				fmt.Sprintf("user %s may not use preset %s: requires permission to %s", c.req.UserInfo.Username, ref, describe(what))))
		}
	}
	return nil
}
