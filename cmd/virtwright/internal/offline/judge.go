package offline

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	kjson "sigs.k8s.io/json"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/webhooks/conversion"
)

const (
	// anybody is the user who writes the files. No cluster trusts this name.
	anybody = "anybody"
	// manager is the user as which virtwright's controllers run.
	manager = "system:serviceaccount:" + managerNamespace + ":virtwright"
	// managerNamespace is where virtwright's controllers run by default.
	managerNamespace = "virtwright-system"
)

// A FieldValidation is what an API server does about fields that do not exist, in
// the words of kubectl --validate.
type FieldValidation string

// Field validations. The zero value is strict.
const (
	FieldsStrict FieldValidation = "strict" // refuse the object
	FieldsWarn   FieldValidation = "warn"   // drop the fields with a warning
	FieldsIgnore FieldValidation = "ignore" // drop the fields
)

// judge sends the request to create m, or to reapply presets to it, the way that it goes in an API
// server: field validation, the mutating webhook, the schema, the validating webhook. An API server
// stops at the first that refuses. judge goes on as far as it can, so that v has every problem.
// A machine that a cluster has stored is validated as it is.
func (c *Cluster) judge(ctx context.Context, m Machine, v *Verdict) error {
	ctx, t := inTurn(ctx, m)
	err := c.ask(ctx, m, v)
	t.wait()
	defer t.end()
	if len(v.Problems) > 0 {
		c.others.keep(t)
	}
	c.judged[m.Namespace] = true
	if v.lacks() && (c.settings.Reapply || !m.isStored()) {
		c.lacking = append(c.lacking, lackingMachine{m.String(), m.Namespace})
	}
	if first, again := c.seen[m.String()]; again && !unnamed(m.Name) {
		v.Problems = slices.Insert(v.Problems, 0, existsAlready(first))
	} else {
		c.seen[m.String()] = m.Where
	}
	return err
}

// ask is judge without what depends on other machines.
func (c *Cluster) ask(ctx context.Context, m Machine, v *Verdict) error {
	raw, decoded, mistyped, err := c.checkFields(m, v)
	if err != nil {
		return err
	}
	if m.isStored() && !c.settings.Reapply {
		v.stored = raw
		return c.validateStored(ctx, m, v)
	}
	request, err := c.sent(m, raw)
	if err != nil {
		return err
	}
	if request.Operation == admissionv1.Create {
		request.Object.Object = &unstructured.Unstructured{Object: decoded}
	}
	mutator := c.webhooks.Machine(m.Kind)
	var result *presets.Result
	mutator.Resolved = func(r *presets.Result) { result = r }
	answer := mutator.Handle(ctx, request)
	if err := v.hear(answer); err != nil || !answer.Allowed {
		v.refuse(mistyped...)
		return err
	}
	if v.stored, err = m.mutated(request, result, answer); err != nil {
		return fmt.Errorf("%s: cannot expand %s: %w", m.Where, m, err)
	}
	if v.object, err = m.decode(v.stored); err != nil {
		return err
	}
	if mistyped := presets.CheckShape(m.Kind, v.object).Mistyped; len(mistyped) > 0 {
		v.refuse(problemsOf(m.inVersion(mistyped))...)
		return nil
	}
	request.Object = runtime.RawExtension{Raw: v.stored, Object: &unstructured.Unstructured{Object: v.object}}
	validator := c.webhooks.Validator(m.Kind)
	validator.Unbounded = true
	return v.hear(validator.Handle(ctx, request))
}

// validateStored validates v.stored as a cluster has stored it, or would store it.
func (c *Cluster) validateStored(ctx context.Context, m Machine, v *Verdict) error {
	object, err := m.decode(v.stored)
	if err != nil {
		return err
	}
	if mistyped := presets.CheckShape(m.Kind, object).Mistyped; len(mistyped) > 0 {
		v.refuse(problemsOf(m.inVersion(mistyped))...)
		return nil
	}
	validator := c.webhooks.Validator(m.Kind)
	validator.Unbounded, validator.Stored = true, true
	return v.hear(validator.Handle(ctx, m.creation(v.stored)))
}

// hear takes in what a webhook answers.
func (v *Verdict) hear(answer admission.Response) error {
	v.warn(answer.Warnings...)
	switch {
	case answer.Allowed:
	case answer.Result.Code >= http.StatusInternalServerError:
		return fmt.Errorf("%s: cannot judge %s: %s", v.Where, v, answer.Result.Message)
	default:
		v.refuse(answered(answer.Result)...)
	}
	return nil
}

// sent is the request to create m, or to reapply presets to it, from the object after
// field validation.
func (c *Cluster) sent(m Machine, raw []byte) (admission.Request, error) {
	out := m.creation(raw)
	if !c.settings.Reapply || !m.isStored() {
		return out, nil
	}
	var err error
	out.Operation, out.OldObject.Raw = admissionv1.Update, raw
	out.Object.Raw, err = m.reapplied(raw)
	return out, err
}

// creation is the request to create an object as m.
func (m Machine) creation(raw []byte) admission.Request {
	kind := metav1.GroupVersionKind{Group: kubevirtGroup, Version: path.Base(conversion.V1), Kind: string(m.Kind)}
	sent := kind
	sent.Version = path.Base(m.version)
	return admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		Operation: admissionv1.Create, Kind: kind, RequestKind: &sent, Name: m.entry.meta.Name, Namespace: m.Namespace,
		Object: runtime.RawExtension{Raw: raw}, UserInfo: authenticationv1.UserInfo{Username: anybody},
	}}
}

// mutated is the JSON of the object after the mutating webhook: that of the engine if the webhook added
// nothing and the object has no record, else by the patch.
func (m Machine) mutated(request admission.Request, result *presets.Result, answer admission.Response) ([]byte, error) {
	recorded := m.entry.meta.Annotations[v1alpha1.AnnotationProvenance] != ""
	if recorded || request.Operation != admissionv1.Create || len(answer.Patches) != len(result.Patch) {
		return patched(request.Object.Raw, answer)
	}
	return json.Marshal(result.Object())
}

// patched applies the patch of a webhook's answer, as an API server does.
func patched(raw []byte, answer admission.Response) ([]byte, error) {
	if len(answer.Patches) == 0 {
		return raw, nil
	}
	operations, err := json.Marshal(answer.Patches)
	if err != nil {
		return nil, err
	}
	patch, err := jsonpatch.DecodePatch(operations)
	if err != nil {
		return nil, err
	}
	return patch.Apply(raw)
}

// decode decodes m at some stage.
func (m Machine) decode(raw []byte) (object map[string]any, err error) {
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &object); err != nil {
		return nil, fmt.Errorf("%s: cannot read %s: %w", m.Where, m, err)
	}
	return object, nil
}

// inVersion gives errors the paths of the version that the user wrote.
func (m Machine) inVersion(errs field.ErrorList) field.ErrorList {
	for _, err := range errs {
		err.Field = conversion.Path(m.version, err.Field)
	}
	return errs
}

// checkFields does what an API server does about fields that do not exist. It
// returns the object that webhooks see, also decoded, and the values of a wrong type in it.
func (c *Cluster) checkFields(m Machine, v *Verdict) (raw []byte, sent map[string]any, mistyped []Problem, err error) {
	if sent, err = m.decode(m.JSON); err != nil {
		return nil, nil, nil, err
	}
	shape := presets.CheckShape(m.Kind, sent)
	for _, p := range shape.Unknown {
		m.seedField(p)
	}
	unknown, mistyped := m.inVersion(shape.Unknown), problemsOf(m.inVersion(shape.Mistyped))
	for _, p := range m.inVersion(shape.Kept) {
		v.warn(p.Field + ": " + p.Detail + "; API servers store fields that are unknown there, and nothing reads them")
	}
	switch {
	case len(unknown) == 0:
		return m.JSON, sent, mistyped, nil
	case c.settings.Fields == FieldsStrict, c.settings.Fields == "":
		v.refuse(problemsOf(unknown)...)
		return m.JSON, sent, mistyped, nil
	case c.settings.Fields == FieldsWarn:
		for _, p := range unknown {
			v.warn(p.Field + ": " + p.Detail)
		}
	}
	shape.Prune()
	raw, err = json.Marshal(sent)
	return raw, sent, mistyped, err
}

// seedField corrects what is said of a disk of version v1alpha2, which has a
// field more. That field is left only where it names no volume.
func (m Machine) seedField(p *field.Error) {
	dotted := path.Ext(p.Field)
	parent, name := strings.TrimSuffix(p.Field, dotted), strings.TrimPrefix(dotted, ".")
	const disks, volume = "spec.template.spec.domain.devices.disks[", "volumeName"
	switch {
	case m.version != conversion.V1Alpha2 || !strings.HasPrefix(parent, disks) || !strings.HasSuffix(parent, "]"):
	case name == volume:
		p.Detail = "must be the name of a volume"
	case presets.Nearest(name, slices.Values([]string{volume})) != "":
		p.Detail = fmt.Sprintf("unknown field %q; did you mean %q?", name, volume)
	}
}
