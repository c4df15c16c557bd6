package simulate

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/spelling"
	"github.com/virtwright/virtwright/presets/tree"
	"github.com/virtwright/virtwright/webhooks"
	"github.com/virtwright/virtwright/webhooks/conversion"
)

const (
	// anybody is the user name of requests. No cluster trusts it.
	anybody          = "anybody"
	manager          = "system:serviceaccount:" + managerNamespace + ":virtwright"
	managerNamespace = "virtwright-system"
)

// FieldValidation sets how unknown fields are handled, with the values of kubectl --validate.
type FieldValidation string

// Values of FieldValidation. The zero value means strict.
const (
	FieldsStrict FieldValidation = "strict" // reject the object
	FieldsWarn   FieldValidation = "warn"   // drop the fields with a warning
	FieldsIgnore FieldValidation = "ignore" // drop the fields
)

// validate passes a VM through the stages of an API server: field validation, mutating webhook,
// schema, policies, validating webhook. The request creates the VM or reapplies presets. An API
// server stops at the first rejection; validate continues as far as possible, so that v has every
// problem. A stored VM is validated unchanged.
func (c *Cluster) validate(ctx context.Context, m VM, v *Verdict) error {
	ctx, t := inTurn(ctx, m)
	err := c.admit(ctx, m, v)
	if err == nil {
		err = c.evaluateStart(ctx, m, v)
	}
	t.wait()
	defer t.end()
	if len(v.Problems) > 0 {
		c.existing.restore(t)
	}
	c.validatedIn[m.Namespace] = true
	if slices.ContainsFunc(v.Problems, v.lacksValue) && (c.settings.Reapply || !m.isStored()) {
		c.incomplete = append(c.incomplete, m.String())
	}
	if first, again := c.seen[m.String()]; again && !unnamed(m.Name) {
		v.Problems = slices.Insert(v.Problems, 0, duplicateName(m.Name, first))
	} else {
		c.seen[m.String()] = m.Where
	}
	return err
}

// admit runs the stages of validate that do not depend on other VMs.
func (c *Cluster) admit(ctx context.Context, m VM, v *Verdict) error {
	raw, decoded, mistyped, err := c.checkFields(m, v)
	if err != nil {
		return err
	}
	if m.isStored() && !c.settings.Reapply {
		v.stored = raw
		return c.validateStored(ctx, m, v)
	}
	request, err := c.admissionRequest(m, raw)
	if err != nil {
		return err
	}
	if request.Operation == admissionv1.Create {
		request.Object.Object = &unstructured.Unstructured{Object: decoded}
	}
	mutator := c.webhooks.Mutator(m.Kind)
	var result *presets.Result
	mutator.Resolved = func(r *presets.Result) { result = r }
	answer := mutator.Handle(ctx, request)
	if v.reject(mistyped...); len(mistyped) > 0 { // and the answer has them without positions of list elements
		answer.Problems = slices.DeleteFunc(answer.Problems, func(p Problem) bool { return p.Type == field.ErrorTypeTypeInvalid })
	}
	if err := v.addResponse(answer); err != nil || !answer.Allowed {
		return err
	}
	mistyped, err = v.setExpanded(m, request, result, answer)
	if v.reject(mistyped...); err != nil || len(mistyped) > 0 {
		return err
	}
	var old map[string]any
	if request.Operation == admissionv1.Update {
		if old, err = m.decode(request.OldObject.Raw); err != nil {
			return err
		}
	}
	if err := c.evaluate(ctx, m, v, v.object, old); err != nil {
		return err
	}
	request.Object = runtime.RawExtension{Raw: v.stored, Object: &unstructured.Unstructured{Object: v.object}}
	validator := c.webhooks.Validator(m.Kind)
	validator.Unbounded = true
	if err := v.addResponse(validator.Handle(ctx, request)); err != nil {
		return err
	}
	return c.checkInstancetype(ctx, m, v)
}

// checkInstancetype rejects a VM to which KubeVirt does not apply its instancetype, that lacks what
// its preference requires, or that is invalid with the fields of both.
func (c *Cluster) checkInstancetype(ctx context.Context, m VM, v *Verdict) error {
	if c.standalone() || m.Kind != presets.VirtualMachine || len(v.Problems) > 0 {
		return nil
	}
	forbid := func(name, conflict string) {
		v.reject(problemsOf(field.ErrorList{field.Forbidden(field.NewPath("spec", name), "KubeVirt rejects the VM: "+conflict)})...)
	}
	expanded, named, conflict := presets.ExpandInstancetype(v.object, c.request(ctx, m).Instancetypes)
	if conflict != "" {
		forbid("instancetype", conflict)
		return nil
	}
	p, known := c.preferredOf(ctx, m, named)
	if !known {
		return nil
	}
	unmet, err := c.unmetRequirement(ctx, p, expanded)
	if err != nil {
		return err
	}
	if unmet != "" {
		forbid("preference", unmet)
		return nil
	}
	problems, err := c.checkExpanded(ctx, m, expanded)
	v.reject(problemsOf(m.inVersion(problems))...)
	return err
}

// setExpanded returns the values of a wrong type.
func (v *Verdict) setExpanded(m VM, request webhooks.Request, result *presets.Result, answer webhooks.Response) (mistyped []Problem, err error) {
	raw, object, err := m.mutated(request, result, answer)
	if err != nil {
		return nil, fmt.Errorf("%s: cannot expand %s: %w", m.Where, m, err)
	}
	shape := presets.CheckSchema(m.Kind, object)
	dropped := request.Operation == admissionv1.Create && m.dropServerFields(object)
	if shape.Default() || dropped || raw == nil {
		if raw, err = json.Marshal(object); err != nil {
			return nil, err
		}
	}
	v.stored, v.object = raw, object
	return problemsOf(m.inVersion(shape.Mistyped)), nil
}

// validateStored validates v.stored as an update that changes nothing.
func (c *Cluster) validateStored(ctx context.Context, m VM, v *Verdict) error {
	object, err := m.decode(v.stored)
	if err != nil {
		return err
	}
	if mistyped := presets.CheckSchema(m.Kind, object).Mistyped; len(mistyped) > 0 {
		v.reject(problemsOf(m.inVersion(mistyped))...)
		return nil
	}
	if err := c.evaluate(ctx, m, v, object, object); err != nil {
		return err
	}
	validator := c.webhooks.Validator(m.Kind)
	validator.Unbounded, validator.Stored = true, true
	return v.addResponse(validator.Handle(ctx, m.creation(v.stored)))
}

func (v *Verdict) addResponse(answer webhooks.Response) error {
	v.warn(answer.Warnings...)
	switch {
	case answer.Allowed:
	case answer.Result.Code >= http.StatusInternalServerError:
		return fmt.Errorf("%s: cannot validate %s: %s", v.Where, v, answer.Result.Message)
	default:
		v.reject(answer.Problems...)
	}
	return nil
}

func (c *Cluster) admissionRequest(m VM, raw []byte) (webhooks.Request, error) {
	out := m.creation(raw)
	if m.old != nil {
		out.Operation, out.OldObject.Raw = admissionv1.Update, m.old
		return out, nil
	}
	if !c.settings.Reapply || !m.isStored() {
		return out, nil
	}
	var err error
	out.Operation, out.OldObject.Raw = admissionv1.Update, raw
	out.Object.Raw, err = m.reapplied(raw)
	return out, err
}

func (m VM) creation(raw []byte) webhooks.Request {
	kind := metav1.GroupVersionKind{Group: kubevirtGroup, Version: path.Base(conversion.V1), Kind: string(m.Kind)}
	sent := kind
	sent.Version = path.Base(m.version)
	return webhooks.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		Operation: admissionv1.Create, Kind: kind, RequestKind: &sent, Name: m.entry.meta.Name, Namespace: m.Namespace,
		Object: runtime.RawExtension{Raw: raw}, UserInfo: authenticationv1.UserInfo{Username: anybody},
	}}
}

// mutated returns the object after the mutating webhook. It is the engine's result, which is not
// encoded yet, if the webhook added nothing and the object has no record; otherwise the patch is
// applied.
func (m VM) mutated(request webhooks.Request, result *presets.Result, answer webhooks.Response) (raw []byte, object map[string]any, err error) {
	recorded := m.entry.meta.Annotations[v1alpha1.AnnotationProvenance] != ""
	if !recorded && request.Operation == admissionv1.Create && len(answer.Patches) == len(result.Patch) {
		return nil, tree.AsObject(tree.Clone(result.Object())), nil
	}
	if raw, err = answer.Apply(request.Object.Raw); err == nil {
		object, err = m.decode(raw)
	}
	return raw, object, err
}

// dropServerFields removes the fields of a new VM that only API servers and controllers may set.
// VMIs have no status subresource. It reports whether any field was removed.
func (m VM) dropServerFields(object map[string]any) bool {
	meta, _ := object["metadata"].(map[string]any)
	before := len(meta) + len(object)
	for _, name := range serverFields {
		delete(meta, name)
	}
	if m.Kind == presets.VirtualMachine {
		delete(object, "status")
	}
	return len(meta)+len(object) < before
}

func (m VM) decode(raw []byte) (object map[string]any, err error) {
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &object); err != nil {
		return nil, fmt.Errorf("%s: cannot read %s: %w", m.Where, m, err)
	}
	return object, nil
}

// inVersion converts field paths to the version of the input.
func (m VM) inVersion(errs field.ErrorList) field.ErrorList {
	for _, err := range errs {
		err.Field = conversion.Path(m.version, err.Field)
	}
	return errs
}

// checkFields handles unknown fields like an API server. It returns the object that webhooks
// receive, also decoded, and the values of a wrong type.
func (c *Cluster) checkFields(m VM, v *Verdict) (raw []byte, sent map[string]any, mistyped []Problem, err error) {
	if sent, err = m.decode(m.JSON); err != nil {
		return nil, nil, nil, err
	}
	shape := presets.CheckSchema(m.Kind, sent)
	for _, p := range shape.Unknown {
		m.correctDiskField(p)
	}
	unknown, mistyped := m.inVersion(shape.Unknown), problemsOf(m.inVersion(shape.Mistyped))
	for _, p := range m.inVersion(shape.Preserved) {
		v.warn(p.Field + ": " + p.Detail + "; API servers store this unknown field, but it has no effect")
	}
	changed := shape.Default()
	switch c.settings.Fields {
	case FieldsStrict, "":
		v.reject(problemsOf(unknown)...)
	case FieldsWarn:
		for _, p := range unknown {
			v.warn(p.Field + ": " + p.Detail)
		}
		fallthrough
	default:
		changed = changed || len(unknown) > 0
		shape.Prune()
	}
	if !changed {
		return m.JSON, sent, mistyped, nil
	}
	raw, err = json.Marshal(sent)
	return raw, sent, mistyped, err
}

// correctDiskField corrects problems of a disk in version v1alpha2, which has the additional field
// volumeName. Conversion leaves that field only if it does not name a volume.
func (m VM) correctDiskField(p *field.Error) {
	dotted := path.Ext(p.Field)
	parent, name := strings.TrimSuffix(p.Field, dotted), strings.TrimPrefix(dotted, ".")
	const disks, volume = "spec.template.spec.domain.devices.disks[", "volumeName"
	switch {
	case m.version != conversion.V1Alpha2 || !strings.HasPrefix(parent, disks) || !strings.HasSuffix(parent, "]"):
	case name == volume:
		p.Detail, p.Origin = "must be the name of a volume", ""
	case spelling.Nearest(name, slices.Values([]string{volume})) != "":
		p.Detail = fmt.Sprintf("unknown field %q; did you mean %q?", name, volume)
	}
}
