package webhooks

import (
	"bytes"
	"context"
	"strings"

	"gomodules.xyz/jsonpatch/v2"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	kjson "sigs.k8s.io/json"

	sspv1alpha1 "github.com/virtwright/virtwright/api/ssp/v1alpha1"
	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/validation"
)

// stampMarks are what every VM has in its JSON that is or will be stamped.
var stampMarks = [][]byte{[]byte(v1alpha1.AnnotationGenerateTemplate), []byte(v1alpha1.AnnotationTemplateRequester)}

// stamp says on a VM who asks for a template by its annotation. The annotation of
// a trusted writer asks for nothing: such copy VMs with what is on them.
func (m *Machine) stamp(req admission.Request) []jsonpatch.Operation {
	marked := func() bool {
		for _, mark := range stampMarks {
			if bytes.Contains(req.Object.Raw, mark) {
				return true
			}
		}
		return false
	}
	if m.Kind != presets.VirtualMachine || !marked() {
		return nil
	}
	var object, old map[string]any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(req.Object.Raw, &object); err != nil {
		return nil // which the engine has told
	}
	if req.Operation == admissionv1.Update {
		if err := kjson.UnmarshalCaseSensitivePreserveInts(req.OldObject.Raw, &old); err != nil {
			return nil
		}
	}
	want := ""
	if !m.Trusted.Has(req.UserInfo.Username) {
		want = stampFor(req.UserInfo, object, old)
	}
	path := annotationPointer(v1alpha1.AnnotationTemplateRequester)
	switch have := annotation(object, v1alpha1.AnnotationTemplateRequester); {
	case have == nil && want == "", have == want:
		return nil
	case want == "":
		return []jsonpatch.Operation{jsonpatch.NewOperation("remove", path, nil)}
	default:
		return []jsonpatch.Operation{jsonpatch.NewOperation("add", path, want)}
	}
}

// annotationPointer is the JSON pointer (RFC 6901) of an annotation.
func annotationPointer(key string) string {
	return "/metadata/annotations/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(key)
}

// stampFor is the stamp that a VM shall have which a user writes: that of who
// wrote the annotation as it is; empty without annotation. old is nil for a new VM.
func stampFor(user authenticationv1.UserInfo, object, old map[string]any) string {
	asked, _ := annotation(object, v1alpha1.AnnotationGenerateTemplate).(string)
	if asked == "" {
		return ""
	}
	if old != nil && annotation(old, v1alpha1.AnnotationGenerateTemplate) == asked {
		stamp, _ := annotation(old, v1alpha1.AnnotationTemplateRequester).(string)
		return stamp
	}
	stamp := sspv1alpha1.Stamp{Requester: sspv1alpha1.RequesterOf(user), Value: asked}
	if meta, ok := old["metadata"].(map[string]any); ok {
		stamp.VMUID, _ = meta["uid"].(string)
	}
	return stamp.String()
}

// template refuses an annotation that asks for a template which its author may
// not have, and a stamp that is not its author's.
func (c *candidate) template(ctx context.Context) error {
	if c.Kind != presets.VirtualMachine || c.trusted {
		return nil
	}
	annotations := field.NewPath("metadata", "annotations")
	if stamp := annotation(c.object, v1alpha1.AnnotationTemplateRequester); stamp != nil && stamp != stampFor(c.req.UserInfo, c.object, c.old) {
		c.problems = append(c.problems, field.Forbidden(annotations.Key(v1alpha1.AnnotationTemplateRequester),
			"virtwright writes who asks for a template: user "+c.req.UserInfo.Username+" may not"))
		return nil
	}
	value, has := annotation(c.object, v1alpha1.AnnotationGenerateTemplate).(string)
	if !has || c.old != nil && annotation(c.old, v1alpha1.AnnotationGenerateTemplate) == value {
		return nil
	}
	if problems := validation.CheckGenerateTemplate(value); len(problems) > 0 {
		c.problems = append(c.problems, problems...)
		return nil
	}
	if c.Guard.Manager == "" {
		c.warnings = append(c.warnings, v1alpha1.AnnotationGenerateTemplate+" asks for nothing here: virtwright's manager runs as a user who may not ask for others")
	} else if annotation(c.object, v1alpha1.AnnotationTemplateRequester) == nil {
		c.warnings = append(c.warnings, v1alpha1.AnnotationGenerateTemplate+" asks for nothing: it came after virtwright's webhook had written who asks; write it anew")
	}
	if len(c.Formats) == 0 {
		return nil
	}
	name, problem, err := chosen(ctx, c.TemplateFormat, c.Formats)
	if err != nil || problem != "" {
		c.problems = append(c.problems, unservedAnnotation(annotations.Key(v1alpha1.AnnotationGenerateTemplate), problem, c.Formats)...)
		return err
	}
	format, _ := sspv1alpha1.FormatNamed(name)
	problems, err := refusals(ctx, c.Authority, c.req.UserInfo, asked(annotations.Key(v1alpha1.AnnotationGenerateTemplate), c.req.Namespace, c.name(), format))
	c.problems = append(c.problems, problems...)
	return err
}
