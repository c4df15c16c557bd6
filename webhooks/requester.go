package webhooks

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"gomodules.xyz/jsonpatch/v2"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	sspv1alpha1 "github.com/virtwright/virtwright/api/ssp/v1alpha1"
	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/tree"
	"github.com/virtwright/virtwright/validation"
	"github.com/virtwright/virtwright/validation/protection"
)

// recordRequester records on a VM who asks for a template by annotation. The warning says that the
// record ends.
func (m *Mutator) recordRequester(req Request, result *presets.Result) (patch []jsonpatch.Operation, warning string) {
	occurs := func(key string) bool { return bytes.Contains(req.Object.Raw, []byte(key)) }
	keys := []string{v1alpha1.AnnotationGenerateTemplate, v1alpha1.AnnotationTemplateRequester}
	if m.Kind != presets.VirtualMachine || !slices.ContainsFunc(keys, occurs) {
		return nil, ""
	}
	var object, old map[string]any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(req.Object.Raw, &object); err != nil {
		return nil, "" // the engine has reported it
	}
	if req.Operation == admissionv1.Update {
		if err := kjson.UnmarshalCaseSensitivePreserveInts(req.OldObject.Raw, &old); err != nil {
			return nil, ""
		}
	}
	want := requesterRecord(m.Guard, req.UserInfo, object, old)
	if by := requesterBefore(m.Guard, req.UserInfo, want); by != "" && old != nil && !tree.Equal(result.Object()["spec"], old["spec"]) {
		want, warning = "", fmt.Sprintf("%s: if there is no template yet, none is made, because you change the VM after user %s asked for it; to ask for it again, remove the annotation and add it",
			v1alpha1.AnnotationGenerateTemplate, by)
	}
	path := annotationPointer(v1alpha1.AnnotationTemplateRequester)
	switch have := annotation(object, v1alpha1.AnnotationTemplateRequester); {
	case have == nil && want == "", have == want:
		return nil, warning
	case want == "":
		return []jsonpatch.Operation{jsonpatch.NewOperation("remove", path, nil)}, warning
	default:
		return []jsonpatch.Operation{jsonpatch.NewOperation("add", path, want)}, warning
	}
}

// requesterBefore returns the user who asked for a template before, if another user writes the VM
// now. A template that is made after a change would show what the other user wrote.
func requesterBefore(guard protection.Guard, user authenticationv1.UserInfo, text string) string {
	record, err := sspv1alpha1.ParseRequesterRecord(text)
	if err != nil || record.Username == user.Username || guard.Controls(user.Username) {
		return ""
	}
	return record.Username
}

// annotation returns an annotation of a decoded object; nil if it has none.
func annotation(object map[string]any, key string) any {
	value, _, _ := unstructured.NestedFieldNoCopy(object, "metadata", "annotations", key)
	return value
}

// annotationPointer returns the JSON pointer (RFC 6901) of an annotation.
func annotationPointer(key string) string {
	return "/metadata/annotations/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(key)
}

// requesterRecord returns the record that a VM must have when a user writes it: it names the user
// who set the annotation to its value. It is empty without annotation, and for an annotation that a
// controller copies from elsewhere. old is nil for a new VM.
func requesterRecord(guard protection.Guard, user authenticationv1.UserInfo, object, old map[string]any) string {
	value, _ := annotation(object, v1alpha1.AnnotationGenerateTemplate).(string)
	if value == "" {
		return ""
	}
	if old != nil && annotation(old, v1alpha1.AnnotationGenerateTemplate) == value {
		record, _ := annotation(old, v1alpha1.AnnotationTemplateRequester).(string)
		return record
	}
	if guard.Controls(user.Username) {
		return ""
	}
	record := sspv1alpha1.RequesterRecord{Requester: sspv1alpha1.RequesterOf(user), Value: value}
	if meta, ok := old["metadata"].(map[string]any); ok {
		record.VMUID, _ = meta["uid"].(string)
	}
	return record.String()
}

// template rejects an annotation that asks for a template which the user may not create, and a
// record of another requester.
func (c *candidate) template(ctx context.Context) error {
	if c.Kind != presets.VirtualMachine {
		return nil
	}
	annotations := field.NewPath("metadata", "annotations")
	record := annotation(c.object, v1alpha1.AnnotationTemplateRequester)
	if record != nil && record != requesterRecord(c.Guard, c.req.UserInfo, c.object, c.old) {
		c.problems = append(c.problems, field.Forbidden(annotations.Key(v1alpha1.AnnotationTemplateRequester),
			"user "+c.req.UserInfo.Username+" may not write this: only virtwright records who asks for a template"))
		return nil
	}
	const key = v1alpha1.AnnotationGenerateTemplate
	value, has := annotation(c.object, key).(string)
	if !has || c.old != nil && annotation(c.old, key) == value || c.controller {
		return nil
	}
	if problems := validation.CheckGenerateTemplate(value); len(problems) > 0 {
		c.problems = append(c.problems, problems...)
		return nil
	}
	if c.Guard.Manager == "" {
		c.warnings = append(c.warnings, key+" has no effect: virtwright's manager runs as a user who may not create templates for others")
	} else if record == nil {
		c.warnings = append(c.warnings, key+" has no effect: another webhook added it after virtwright's had recorded the requester; remove it and add it again")
	}
	if len(c.Formats) == 0 {
		return nil
	}
	name, problem, err := chooseFormat(ctx, c.TemplateFormat, c.Formats)
	if err != nil {
		return err
	}
	if problem != "" {
		problem += remedy(c.Formats, "create a "+sspv1alpha1.KindVirtualMachineTemplateRequest+" with format: configMap")
		c.problems = append(c.problems, field.Forbidden(annotations.Key(key), problem))
		return nil
	}
	format, _ := sspv1alpha1.FormatNamed(name)
	permissions := append(sspv1alpha1.RequiredPermissions(c.req.Namespace, c.req.Namespace, c.name(), format), sspv1alpha1.CreateRequestPermission(c.req.Namespace))
	for i := range permissions {
		permissions[i].Path = annotations.Key(key)
	}
	problems, err := missing(ctx, c.Authorizer, c.req.UserInfo, forTemplate(permissions))
	c.problems = append(c.problems, problems...)
	return err
}
