package webhooks

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/validation"
	"github.com/virtwright/virtwright/validation/names"
	"github.com/virtwright/virtwright/validation/protection"
)

// Names finds other VMs and VMIs that use the same names, disks and identifiers.
type Names interface {
	// Around returns what an index knows.
	Around(ctx context.Context, m *names.Identity) (names.Related, error)
	// Confirm reads the objects that Around found again, from API servers.
	Confirm(ctx context.Context, m *names.Identity, seen names.Related) (names.Related, error)
}

// A Validator validates VirtualMachines, or VirtualMachineInstances, as they will be stored.
type Validator struct {
	Kind       presets.Kind
	Guard      protection.Guard
	Rules      *validation.Config
	Engine     *presets.Engine
	Snapshots  presetSource
	Namespaces namespaceGetter
	// Owners is required for VirtualMachineInstances alongside KubeVirt only.
	Owners ownerGetter
	// Names may be nil: nothing is compared with other objects then.
	Names Names
	// Instancetypes may be nil: no VM is expanded by its instancetype then.
	Instancetypes instancetypeGetter
	// Profiles may be nil: nothing is rendered then.
	Profiles profileSource
	// Authorizer may be nil: every user may use every preset then.
	Authorizer authorizer
	// Formats are the names of the formats of templates.
	Formats []string
	// TemplateFormat chooses the format that an annotation asks for; nil chooses the first.
	TemplateFormat formatChooser
	// Unbounded returns every problem and warning in full, with the names of other VMs. API servers
	// limit both, and their callers may be unable to read these VMs.
	Unbounded bool
	// Stored validates the object of a create as one that is stored already: who may write it was
	// decided before.
	Stored bool
}

var _ handler = (*Validator)(nil)

// Handle answers one request.
func (v *Validator) Handle(ctx context.Context, req Request) Response {
	if !isWrite(req) || req.SubResource != "" {
		return allowed()
	}
	c := &candidate{
		Validator: v, req: req,
		trusted: v.Guard.Trusts(req.UserInfo.Username, v.Kind), controller: v.Guard.Controls(req.UserInfo.Username),
	}
	if err := c.read(); err != nil {
		return malformed(err)
	}
	steps := []func(context.Context) error{c.guard, c.validate, c.render, c.verifyPresets, c.verifyExpansion, c.compareNames, c.checkNamedPresets, c.template}
	switch {
	case v.Stored:
		steps = []func(context.Context) error{c.validate, c.render, c.compareNames}
	case c.deleting():
		steps = steps[:1] // the rest no longer matters
	case c.plugs():
		steps = []func(context.Context) error{c.checkPlugged}
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return unavailable(ctx, req, err)
		}
	}
	if len(c.problems) > 0 {
		c.explain(ctx)
	}
	return c.answer()
}

func (c *candidate) answer() Response {
	problems, warnings := inVersion(c.req, c.problems), warningsIn(c.req, c.warnings)
	response := allowed()
	switch {
	case len(problems) > 0 && c.Unbounded:
		response = invalidNamed(c.req, c.name(), problems)
	case len(problems) > 0:
		request := c.req
		request.Name = c.name()
		response = invalid(request, problems)
	}
	for i := range min(len(response.Problems), len(c.setBy)) {
		if response.Problems[i].Field == problems[i].Field { // and not the number of further problems
			response.Problems[i].SetBy = c.setBy[i]
		}
	}
	if !c.Unbounded {
		warnings = presets.LimitWarnings(warnings, "virtwright validate shows all")
	}
	response.Warnings = warnings
	return response
}

// maxHints is the number of missing values for which presets are suggested.
const maxHints = 8

// explain adds to the problems the presets that caused them, and to missing values the presets that
// would set them.
func (c *candidate) explain(ctx context.Context) {
	c.problems, c.setBy = presets.AddOrigins(c.Kind, c.object, c.problems)
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
	for i, givers := range c.Engine.NearMisses(ctx, snapshot, request, fields...) {
		missing[i].Detail = strings.Join(append([]string{missing[i].Detail}, givers...), "; ")
	}
}

// A candidate is a VM or VMI that is about to be written.
type candidate struct {
	*Validator
	req Request
	// trusted says that nothing that the user writes is checked, controller that the user owns VMs.
	trusted, controller bool
	// object and old are decoded JSON; old is nil on a create.
	object, old map[string]any
	machine     *validation.ExpandedVM
	// instancetypeExists is true if the VM's instancetype is known to exist.
	instancetypeExists bool
	// rulesPass is true if no rule rejects the object.
	rulesPass bool

	problems field.ErrorList
	// setBy are the Refs of the presets that set the fields of the problems.
	setBy    []string
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

// deleting reports whether the stored object is being deleted. The sent one may claim that falsely.
func (c *candidate) deleting() bool {
	timestamp, _, _ := unstructured.NestedFieldNoCopy(c.old, "metadata", "deletionTimestamp")
	return timestamp != nil
}

// name returns the name in the object, which a request with generateName does not have.
func (c *candidate) name() string {
	name, _, _ := unstructured.NestedString(c.object, "metadata", "name")
	return name
}

// guard rejects changes that only trusted users may make, and a hold that holds nothing.
func (c *candidate) guard(context.Context) error {
	c.problems = append(c.checkHold(), c.Guard.Check(protection.Write{
		Kind: c.Kind, User: c.req.UserInfo.Username, Object: c.object, Old: c.old,
	})...)
	return nil
}

// validate rejects objects that cannot start.
func (c *candidate) validate(ctx context.Context) error {
	var old *validation.ExpandedVM
	var storedErr error
	if c.old != nil {
		if old, storedErr = c.decode(c.expanded(ctx, c.req.OldObject.Raw, c.old)); storedErr == nil {
			c.launch(ctx, old, c.req.OldObject.Raw, c.old)
		}
	}
	machine, err := c.decode(c.expanded(ctx, c.req.Object.Raw, c.object))
	if err != nil {
		c.undecodable(err, storedErr != nil)
		return nil
	}
	c.launch(ctx, machine, c.req.Object.Raw, c.object)
	c.machine, machine.Old = machine, old
	c.instancetypeExists = c.findsInstancetype(ctx)
	machine.InstancetypeExists = c.instancetypeExists
	result := c.Rules.ValidateAssumed(c.machine, c.sent)
	c.problems = append(c.problems, result.Errors...)
	c.warnings = append(c.warnings, result.Warnings...)
	c.rulesPass = len(result.Errors) == 0
	return nil
}

// sent returns the object without assumed defaults.
func (c *candidate) sent() (*validation.ExpandedVM, error) {
	out, err := c.decode(c.req.Object.Raw)
	if err != nil {
		return nil, err
	}
	if out.InstancetypeExists = c.instancetypeExists; c.old != nil {
		out.Old, err = c.decode(c.req.OldObject.Raw)
	}
	return out, err
}

// findsInstancetype reports whether the instancetype that the VM names exists. If it cannot be
// read, KubeVirt decides.
func (c *candidate) findsInstancetype(ctx context.Context) bool {
	if c.Instancetypes == nil || c.machine.VM == nil || c.machine.VM.Spec.Instancetype == nil || c.machine.VM.Spec.Instancetype.Name == "" {
		return false
	}
	named := c.machine.VM.Spec.Instancetype
	found, err := c.Instancetypes.Spec(ctx, c.req.Namespace, presets.Matcher{
		Kind: cmp.Or(named.Kind, "VirtualMachineClusterInstancetype"), Name: named.Name, Revision: named.RevisionName,
	})
	return err == nil && found != nil
}

// undecodable rejects an object that cannot be decoded. If the stored object cannot be decoded
// either, it only warns.
func (c *candidate) undecodable(err error, before bool) {
	problems := field.ErrorList{field.Invalid(field.NewPath("spec"), c.name(), err.Error())}
	if rejection, ok := errors.AsType[*presets.Rejection](err); ok {
		problems = rejection.Problems
	} else if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok { // such as a negative number of cores
		problems = field.ErrorList{field.TypeInvalid(field.NewPath(wrong.Field), field.OmitValueType{}, "must not be "+wrong.Value)}
	}
	if !before {
		c.problems = append(c.problems, problems...)
		return
	}
	for _, p := range problems {
		c.warnings = append(c.warnings, p.Error()+"; the stored object has the same problem, and nothing else is validated")
	}
}

// launch applies the presets that act at launch, so that rules see the VMI that will run. If a
// preset would reject the launch, rules see the VM as it is.
func (c *candidate) launch(ctx context.Context, m *validation.ExpandedVM, raw []byte, object map[string]any) {
	snapshot := c.Snapshots.Snapshot()
	if c.Kind != presets.VirtualMachine || c.Rules.Addon || m.Spec == nil || snapshot == nil || !snapshot.Launches() {
		return
	}
	namespace, err := c.Namespaces.Get(ctx, c.req.Namespace)
	if err != nil || c.Engine.LaunchKeepsTemplate(snapshot, object, namespace) {
		return
	}
	vmi, err := c.Engine.Launch(ctx, snapshot, presets.Request{Kind: c.Kind, Object: raw, Decoded: object, Namespace: namespace})
	if err != nil {
		c.warnings = append(c.warnings, "presets would reject the launch of this VM: "+err.Error())
		return
	}
	_ = m.ReplaceTemplate(vmi) // cannot fail: the engine has decoded the object
}

func (c *candidate) decode(raw []byte) (*validation.ExpandedVM, error) {
	if c.Kind == presets.VirtualMachine {
		return validation.NewVirtualMachine(raw)
	}
	return validation.NewVirtualMachineInstance(raw)
}

// expanded returns raw with platform defaults. In standalone mode it has them already. Alongside
// KubeVirt, which sets them when a VM starts, they are assumed, so that rules see what will run.
func (c *candidate) expanded(ctx context.Context, raw []byte, object map[string]any) []byte {
	if !c.Rules.Addon {
		return raw
	}
	object = runtime.DeepCopyJSON(object)
	unstructured.RemoveNestedField(object, "metadata", "annotations", v1alpha1.AnnotationProvenance) // values of presets stay
	assumed := &presets.Engine{Platform: &presets.Platform{Architecture: c.Rules.Architecture, Alongside: true}}
	result, err := assumed.Resolve(ctx, presets.PlatformOnly, presets.Request{Kind: c.Kind, Object: raw, Decoded: object})
	if err != nil {
		return raw
	}
	out, _ := json.Marshal(result.Object()) // no error: it was JSON before
	return out
}

// compareNames rejects a name or a disk that another VM uses.
func (c *candidate) compareNames(ctx context.Context) error {
	if c.Names == nil || c.machine == nil {
		return nil
	}
	m, old := digest(c.machine), (*names.Identity)(nil)
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
	if names.NeedsLiveRead(&m, old, seen, c.controller) {
		if seen, err = c.Names.Confirm(ctx, &m, seen); err != nil {
			return err
		}
	}
	if !c.Unbounded {
		seen = seen.Anonymous()
	}
	c.problems = append(c.problems, names.Check(&m, old, seen, c.controller)...)
	c.warnings = append(c.warnings, names.Warnings(&m, old, seen)...)
	return nil
}

func digest(m *validation.ExpandedVM) names.Identity {
	if m.VM != nil {
		return names.OfVirtualMachine(m.VM)
	}
	return names.OfVirtualMachineInstance(m.VMI)
}
