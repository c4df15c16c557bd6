package templates

import (
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	sspv1alpha1 "github.com/virtwright/virtwright/api/ssp/v1alpha1"
	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/lifecycle/templates/blueprint"
	"github.com/virtwright/virtwright/lifecycle/templates/format"
)

// A plan is what to do for a request.
type plan struct {
	// status to write, if it is not so already.
	status sspv1alpha1.VirtualMachineTemplateRequestStatus
	// create is the template to make; nil for none.
	create *unstructured.Unstructured
	// done is status once create is made, but for its UID and the time.
	done sspv1alpha1.VirtualMachineTemplateRequestStatus
	// remove says that the request is over, and goes.
	remove bool
	// after is when to look again; 0 for when something changes.
	after time.Duration
	// patience is when to try create again.
	patience time.Duration
	// panicked is what generation panicked with, for the log.
	panicked error
}

// An outcome is how a request stands.
type outcome struct {
	ready    bool
	reason   string
	message  string
	terminal bool
}

// decide says what to do for a request. It is pure.
func decide(s *sight) plan {
	p := plan{status: *s.request.Status.DeepCopy()}
	if finished(&p.status) {
		p.expire(s)
		return p
	}
	p.status.ObservedGeneration = s.request.Generation
	o := obstacle(s)
	switch {
	case o != nil:
	case s.existing != nil:
		o = p.recognize(s)
	default:
		o = p.generate(s)
	}
	if o == nil { // there is something to make
		p.patience = patience(s, sspv1alpha1.ReasonWaiting)
		set(&p.done, made(s), s)
		if ready(&p.status) != nil { // what kept it from being made before may do so again
			return p
		}
		o = &outcome{reason: sspv1alpha1.ReasonReconciling, message: fmt.Sprintf("%s %s is being made", s.format.Kind.Kind, s.name)}
	}
	set(&p.status, o, s)
	if !o.terminal && p.create == nil {
		p.after = patience(s, o.reason)
	}
	if p.status.CompletionTime != nil && p.after == 0 { // known again
		p.after = lifetime(s.request)
	}
	return p
}

// obstacle is what keeps a template from being looked for or made; nil if nothing.
func obstacle(s *sight) *outcome {
	switch {
	case s.request.Spec.Requester == nil:
		return &outcome{reason: sspv1alpha1.ReasonUnauthorized, terminal: true,
			message: "requester unknown: the webhook did not see this request; delete and recreate it"}
	case s.maker == nil:
		return &outcome{reason: sspv1alpha1.ReasonSourceInvalid, terminal: true, message: "spec.target asks for no form that is known"}
	case s.disabled:
		return &outcome{reason: sspv1alpha1.ReasonFormatUnavailable,
			message: "templates of the form " + s.format.Name + " are not made in this cluster (--template-formats)"}
	case len(s.refused) > 0:
		return &outcome{reason: sspv1alpha1.ReasonUnauthorized, message: fmt.Sprintf("user %s may not %s, which making this template takes",
			s.request.Spec.Requester.Username, strings.Join(described(s.refused), "; nor "))}
	case s.mute != nil:
		return &outcome{reason: sspv1alpha1.ReasonWaiting, message: s.mute.Error()}
	case s.lack != "":
		return &outcome{reason: sspv1alpha1.ReasonFormatUnavailable, message: s.lack + " is not served by this cluster; the template is made once it is"}
	}
	return nil
}

func described(needs []sspv1alpha1.Need) []string {
	var out []string
	for _, need := range needs {
		out = append(out, need.String())
	}
	return out
}

// recognize decides about an object that has the template's name. A user can write the request's
// label, so the content must prove the object: it is what status recorded, or, where status records
// nothing, what this request would make now.
func (p *plan) recognize(s *sight) *outcome {
	problem := ""
	switch {
	case s.existing.GetLabels()[v1alpha1.LabelTemplateRequest] != string(s.request.UID):
		problem = "was not made for this request"
	case p.status.TemplateHash == "":
		problem = p.regenerate(s)
	case p.status.TemplateHash != s.maker.Hash(s.existing):
		problem = "was made for this request and changed since"
	}
	if problem != "" {
		return end(sspv1alpha1.ReasonTargetExists, fmt.Sprintf("%s %s already exists and %s; it stays as it is: use another name, or delete it and create a new request",
			s.format.Kind.Kind, s.name, problem))
	}
	p.status.TemplateRef = refer(s.existing)
	return made(s)
}

// regenerate describes the existing object in status if the request would make the same template.
// It returns what contradicts that.
func (p *plan) regenerate(s *sight) string {
	anew := plan{status: *p.status.DeepCopy()}
	o := anew.generate(s)
	p.panicked = anew.panicked
	switch {
	case o != nil:
		return "has the label of this request, but virtwright cannot verify its content: " + o.message
	case anew.status.TemplateHash != s.maker.Hash(s.existing):
		return "has the label of this request, but its content differs from the template that this request makes"
	}
	p.status = anew.status
	return ""
}

// generate makes the template, processes it, and compares what comes out with
// the VM. What it returns says why there is none; nil if there is.
func (p *plan) generate(s *sight) (o *outcome) {
	defer func() {
		if reason := recover(); reason != nil {
			p.create, p.panicked = nil, fmt.Errorf("panic with %T\n%s", reason, debug.Stack()) // which has no values
			o = end(sspv1alpha1.ReasonSourceInvalid, "virtwright has a defect and cannot make a template of this VirtualMachine; please report it with the log of virtwright-manager")
		}
	}()
	if o := missing(s); o != nil {
		return o
	}
	b, err := blueprint.Of(s.source.Object, blueprint.Options{
		Rename: s.request.Spec.DataVolumes == sspv1alpha1.DataVolumesRename, Namespace: s.request.Namespace,
	})
	if tooLarge, is := errors.AsType[*blueprint.TooLarge](err); is {
		return end(sspv1alpha1.ReasonTemplateTooLarge, tooLarge.Error())
	}
	if err != nil {
		return end(sspv1alpha1.ReasonSourceInvalid, "no template can be made of the VirtualMachine: "+err.Error())
	}
	template, err := s.maker.Encode(b, metaOf(s))
	if tooLarge, is := errors.AsType[*format.TooLarge](err); is {
		return end(sspv1alpha1.ReasonTemplateTooLarge, tooLarge.Error())
	}
	if err != nil {
		return end(sspv1alpha1.ReasonSourceInvalid, "no template of this form can be made of the VirtualMachine: "+err.Error())
	}
	if err := s.maker.Verify(template, b); err != nil {
		verified(&p.status, err, s)
		return end(sspv1alpha1.ReasonVerificationFailed, "processing the template would not give the VirtualMachine back, so it is not published: "+err.Error())
	}
	verified(&p.status, nil, s)
	p.describe(b, s.maker.Hash(template), s)
	p.create, p.done = template, *p.status.DeepCopy()
	return nil
}

func end(reason, message string) *outcome {
	return &outcome{reason: reason, message: message, terminal: true}
}

// missing says why there is no VM to make a template of; nil if there is one.
func missing(s *sight) *outcome {
	source := s.request.Spec.Source
	if s.source == nil {
		if s.request.Status.SourceUID != "" {
			return end(sspv1alpha1.ReasonSourceChanged, "the VirtualMachine is gone")
		}
		return &outcome{reason: sspv1alpha1.ReasonSourceNotFound, message: fmt.Sprintf("there is no VirtualMachine %s in namespace %s", source.VMName, source.VMNamespace)}
	}
	uid := string(s.source.GetUID())
	for _, want := range []string{source.VMUID, string(s.request.Status.SourceUID)} {
		if want != "" && want != uid {
			return end(sspv1alpha1.ReasonSourceChanged, "another VirtualMachine has the name now")
		}
	}
	if s.source.GetDeletionTimestamp() != nil {
		return end(sspv1alpha1.ReasonSourceInvalid, "the VirtualMachine is being deleted")
	}
	return nil
}

// metaOf is the metadata of the template.
func metaOf(s *sight) format.Meta {
	meta := format.Meta{
		Name: s.name, Namespace: s.request.Namespace,
		Labels: map[string]string{v1alpha1.LabelTemplateRequest: string(s.request.UID)},
		Annotations: map[string]string{
			v1alpha1.AnnotationSourceVM:  sourceKey(s.source.GetNamespace(), s.source.GetName()),
			v1alpha1.AnnotationSourceUID: string(s.source.GetUID()),
		},
	}
	for key, value := range s.request.Spec.TemplateLabels {
		meta.Labels[key] = string(value)
	}
	if trigger := s.request.Annotations[v1alpha1.AnnotationTrigger]; trigger != "" {
		meta.Annotations[v1alpha1.AnnotationTrigger] = trigger
	}
	return meta
}

// describe says in status what the template is.
func (p *plan) describe(b *blueprint.Blueprint, hash string, s *sight) {
	p.status.SourceUID, p.status.TemplateHash = s.source.GetUID(), hash
	p.status.ParameterCount = int32(min(len(b.Parameters), 1<<30)) //nolint:gosec // bounded
	p.status.WithheldParameters, p.status.Warnings = b.Withheld(), bounded(b.Warnings)
}

// bounded is a list that fits into status.
func bounded(warnings []string) []string {
	const most = 50
	if len(warnings) <= most {
		return warnings
	}
	return append(append([]string{}, warnings[:most]...), fmt.Sprintf("and %d more, which virtwright template generate shows", len(warnings)-most))
}

// patience is how long to wait for what nobody tells of: longer, the older the request.
func patience(s *sight, reason string) time.Duration {
	longest := 5 * time.Minute
	if reason == sspv1alpha1.ReasonFormatUnavailable || reason == sspv1alpha1.ReasonWaiting {
		longest = 15 * time.Second
	}
	age := s.now.Sub(s.request.CreationTimestamp.Time)
	return max(time.Second, min(age/2, longest))
}

// expire removes a request whose time is up.
func (p *plan) expire(s *sight) {
	ttl, done := s.request.Spec.TTLSecondsAfterFinished, s.request.Status.CompletionTime
	if ttl == nil || done == nil {
		return
	}
	left := done.Add(time.Duration(*ttl) * time.Second).Sub(s.now)
	if p.remove = left <= 0; !p.remove {
		p.after = left
	}
}
