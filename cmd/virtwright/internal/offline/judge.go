package offline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
	kjson "sigs.k8s.io/json"

	"github.com/virtwright/virtwright/cmd/virtwright/internal/manifest"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/validation"
	"github.com/virtwright/virtwright/validation/names"
	"github.com/virtwright/virtwright/validation/protection"
	"github.com/virtwright/virtwright/webhooks/conversion"
)

// anybody writes the files: nobody whom a cluster trusts.
const anybody = "anybody"

// A reviewer judges machines one after the other.
type reviewer struct {
	*Cluster
	// seen are the machines that were there before, by what they are called.
	seen map[string]manifest.Position
	// others are those of them that could be read.
	others []names.Machine
}

// candidate is a machine that is judged.
type candidate struct {
	*reviewer
	ctx     context.Context
	machine Machine
	verdict *Verdict
	// sent is what presets and platform defaults have not touched, as decoded JSON.
	sent map[string]any
	// object is what would be stored, as decoded JSON and as text.
	object map[string]any
	raw    []byte
}

// judge is what the API server and the webhooks do to a request to create m. It
// says what is wrong of each of their steps that can be reached.
func (r *reviewer) judge(ctx context.Context, m Machine, v *Verdict) error {
	checked, err := r.checkFields(m)
	if err != nil {
		return err
	}
	c := &candidate{reviewer: r, ctx: ctx, machine: checked.machine, verdict: v, sent: checked.sent}
	if first, again := r.seen[m.String()]; again && !unnamed(m.Name) {
		v.refuse(existsAlready(first))
	} else {
		r.seen[m.String()] = m.Where
	}
	shape := checked.shape
	c.unknown(checked)
	switch err := c.mutate(); {
	case errors.As(err, new(*Refusal)):
		c.mistyped(shape)
		c.object = c.sent
		c.guard()
		return nil
	case err != nil:
		return err
	}
	shape = presets.CheckShape(m.Kind, c.object)
	c.mistyped(shape)
	c.guard()
	machine, err := c.read()
	if err != nil {
		if len(shape.Mistyped) == 0 { // which say it better
			c.refuse(err)
		}
		return nil
	}
	c.rules(machine)
	c.expansion()
	c.compare(machine)
	return nil
}

// problems adds problems with paths of the version that the user wrote.
func (c *candidate) problems(problems field.ErrorList) {
	for _, p := range problemsOf(problems) {
		p.Field = conversion.Path(c.machine.version, p.Field)
		c.verdict.refuse(p)
	}
}

// refuse adds what the engine or a decoder says.
func (c *candidate) refuse(err error) {
	var refusal *presets.Refusal
	var wrong *json.UnmarshalTypeError
	switch {
	case errors.As(err, &refusal):
		c.problems(refusal.Problems)
	case errors.As(err, &wrong): // such as a negative number where there can be none
		c.verdict.refuse(Problem{conversion.Path(c.machine.version, wrong.Field), "must not be " + wrong.Value})
	default:
		c.verdict.refuse(Problem{Message: err.Error()})
	}
}

// warn adds warnings, of which some begin with a path.
func (c *candidate) warn(texts ...string) {
	for _, text := range texts {
		if at, rest, ok := strings.Cut(text, ": "); ok {
			text = conversion.Path(c.machine.version, at) + ": " + rest
		}
		c.verdict.warn(text)
	}
}

// unknown reports fields that do not exist, and warns of those that an API server keeps.
func (c *candidate) unknown(checked *checked) {
	c.verdict.refuse(problemsOf(checked.problems)...)
	c.verdict.warn(checked.warnings...)
	for _, p := range checked.shape.Kept {
		c.warn(p.Field + ": " + p.Detail + "; what is unknown there is stored, and nobody reads it")
	}
}

// seedField corrects what is said of a disk of version v1alpha2, which has a
// field more. That field is left only where it names no volume.
func (m Machine) seedField(p *field.Error) {
	parent, name, _ := cutLast(p.Field, ".")
	const disks, volume = "spec.template.spec.domain.devices.disks[", "volumeName"
	switch {
	case m.version != conversion.V1Alpha2 || !strings.HasPrefix(parent, disks) || !strings.HasSuffix(parent, "]"):
	case name == volume:
		p.Detail = "must be the name of a volume"
	case presets.Nearest(name, slices.Values([]string{volume})) != "":
		p.Detail = fmt.Sprintf("unknown field %q; did you mean %q?", name, volume)
	}
}

func cutLast(text, separator string) (before, after string, found bool) {
	i := strings.LastIndex(text, separator)
	if i < 0 {
		return "", text, false
	}
	return text[:i], text[i+len(separator):], true
}

func (c *candidate) mistyped(shape presets.Shape) { c.problems(shape.Mistyped) }

// mutate does what the mutating webhook does: it expands the machine and takes
// away what its author cannot mean.
func (c *candidate) mutate() error {
	result, err := c.Resolve(c.ctx, c.machine)
	if err != nil {
		c.refuse(err)
		return c.machine.refusal(err)
	}
	c.warn(result.Warnings...)
	raw, err := json.Marshal(result.Object())
	if err != nil {
		return fmt.Errorf("%s: cannot expand %s: %w", c.machine.Where, c.machine, err)
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &c.object); err != nil {
		return fmt.Errorf("%s: cannot expand %s: %w", c.machine.Where, c.machine, err)
	}
	c.drop(protection.Forged(c.machine.Kind, c.sent))
	c.raw, err = json.Marshal(c.object)
	return err
}

// drop takes fields out of the object, and says so as the webhook does.
func (c *candidate) drop(forged [][]string) {
	var dotted []string
	for _, path := range forged {
		last := len(path) - 1
		parent := c.object
		for _, name := range path[:last] {
			parent, _ = parent[name].(map[string]any)
		}
		delete(parent, path[last])
		dotted = append(dotted, field.NewPath(path[0], path[1:]...).String())
	}
	if len(dotted) > 0 {
		c.warn("controllers write " + strings.Join(dotted, ", ") + ": left out")
	}
}

// guard refuses what only trusted writers write.
func (c *candidate) guard() {
	c.problems(protection.Guard{Addon: c.settings.Rules.Addon}.Check(protection.Write{
		Kind: c.machine.Kind, User: anybody, Object: c.object,
	}))
}

// read decodes the machine as rules see it: as it will run.
func (c *candidate) read() (*validation.Machine, error) {
	raw, err := c.assumed()
	if err != nil {
		return nil, err
	}
	return c.decode(raw)
}

func (c *candidate) decode(raw []byte) (*validation.Machine, error) {
	if c.machine.Kind == presets.VirtualMachine {
		return validation.NewVirtualMachine(raw)
	}
	return validation.NewInstance(raw)
}

// assumed is the machine with the defaults that KubeVirt, where it is there,
// fills in when a VM starts. Where that cannot be done rules see what was sent.
func (c *candidate) assumed() ([]byte, error) {
	if !c.settings.Rules.Addon {
		return c.raw, nil
	}
	engine := &presets.Engine{Platform: &presets.Platform{Architecture: c.settings.Rules.Architecture, Instancetypes: true}}
	result, err := engine.Resolve(c.ctx, presets.NewSnapshot(nil, nil), presets.Request{Kind: c.machine.Kind, Object: c.raw})
	if err != nil {
		return c.raw, nil //nolint:nilerr // nothing is assumed then
	}
	return json.Marshal(result.Object())
}

// expansion refuses what presets do not let an instancetype or a preference give.
func (c *candidate) expansion() {
	if !c.settings.Rules.Addon || c.machine.Kind != presets.VirtualMachine {
		return
	}
	request := c.request(c.machine)
	request.Object = c.raw
	if err := c.settings.Engine.VerifyExpansion(c.ctx, c.snapshot, request); err != nil {
		c.refuse(err)
	}
}

// rules refuses what cannot start.
func (c *candidate) rules(machine *validation.Machine) {
	c.launch(machine)
	result := c.settings.Rules.ValidateAssumed(machine, func() (*validation.Machine, error) { return c.decode(c.raw) })
	c.problems(result.Errors)
	c.warn(result.Warnings...)
	if len(result.Errors) == 0 {
		c.render(machine)
	}
}

// render refuses what no host could run, as the webhook does in standalone mode.
func (c *candidate) render(machine *validation.Machine) {
	if c.settings.Rules.Addon || machine.Spec == nil {
		return
	}
	namespace := c.namespace(c.machine.Namespace)
	if machine.VM != nil && !c.snapshot.Launches() { // else it was launched for the rules
		launched, err := c.settings.Engine.Launch(c.ctx, c.snapshot, presets.Request{Kind: presets.VirtualMachine, Object: c.raw, Namespace: namespace})
		if err != nil || machine.Launched(launched) != nil {
			return // which rules and presets have told
		}
	}
	instance := &kubevirtv1.VirtualMachineInstance{ObjectMeta: *machine.Meta, Spec: *machine.Spec}
	_, problems := c.profiles.Plan(instance, namespace.Labels, nil)
	c.problems(machine.Placed(problems))
}

// launch lets rules see what presets complete only at launch.
func (c *candidate) launch(machine *validation.Machine) {
	if machine.VM == nil || c.settings.Rules.Addon || machine.Spec == nil || !c.snapshot.Launches() {
		return
	}
	instance, err := c.settings.Engine.Launch(c.ctx, c.snapshot, presets.Request{
		Kind: presets.VirtualMachine, Object: c.raw, Namespace: c.namespace(c.machine.Namespace),
	})
	if err == nil {
		err = machine.Launched(instance)
	}
	if err != nil {
		c.warn("as presets are now, the VM could not be launched: " + err.Error())
	}
}

// compare refuses a name or a disk that an earlier machine has.
func (c *candidate) compare(machine *validation.Machine) {
	var m names.Machine
	if machine.VM != nil {
		m = names.OfVirtualMachine(machine.VM)
	} else {
		m = names.OfInstance(machine.VMI)
	}
	m.Name = c.machine.Name // also where it is yet to be made up
	around := surroundings(&m, c.others)
	c.problems(names.Check(&m, nil, around, false))
	c.warn(names.Warnings(&m, nil, around)...)
	c.others = append(c.others, m)
}
