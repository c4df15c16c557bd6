package templates

import (
	"errors"
	"fmt"
	"runtime/debug"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	sspv1alpha1 "github.com/virtwright/virtwright/api/ssp/v1alpha1"
	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/templates/blueprint"
	"github.com/virtwright/virtwright/templates/format"
)

type generated struct {
	template  *unstructured.Unstructured
	hash      string
	blueprint *blueprint.Blueprint
}

// generate makes the template and verifies that processing it gives the VM. The outcome has no
// reason on success. A panic becomes an outcome, and its value, which may hold secrets, is dropped.
func generate(o *observation) (result outcome) {
	defer func() {
		if reason := recover(); reason != nil {
			result = ends(sspv1alpha1.ReasonSourceInvalid,
				"virtwright has a defect and cannot make a template of this VirtualMachine; please report it with the log of virtwright-manager")
			result.panicErr = fmt.Errorf("panic with %T\n%s", reason, debug.Stack())
		}
	}()
	if result, missing := missingSource(o); missing {
		return result
	}
	b, err := blueprint.FromVM(o.source.Object, blueprint.Options{
		Rename: o.request.Spec.DataVolumes == sspv1alpha1.DataVolumesRename, Namespace: o.request.Namespace,
	})
	if tooLarge, is := errors.AsType[*blueprint.TooLarge](err); is {
		return ends(sspv1alpha1.ReasonTemplateTooLarge, tooLarge.Error())
	}
	if err != nil {
		return ends(sspv1alpha1.ReasonSourceInvalid, err.Error())
	}
	template, err := o.codec.Encode(b, metaOf(o))
	if tooLarge, is := errors.AsType[*format.TooLarge](err); is {
		return ends(sspv1alpha1.ReasonTemplateTooLarge, tooLarge.Error())
	}
	if err != nil {
		return ends(sspv1alpha1.ReasonSourceInvalid, err.Error())
	}
	if err := o.codec.Verify(template, b); err != nil {
		result = ends(sspv1alpha1.ReasonVerificationFailed, "the template is not created, because processing it does not give the VirtualMachine: "+err.Error())
		result.verifyErr = err
		return result
	}
	return outcome{generated: &generated{template: template, hash: o.codec.Hash(template), blueprint: b}}
}

func missingSource(o *observation) (outcome, bool) {
	source, status := o.request.Spec.Source, o.request.Status
	switch {
	case o.source == nil && status.SourceUID != "":
		return ends(sspv1alpha1.ReasonSourceChanged, "the VirtualMachine was deleted"), true
	case o.source == nil:
		return waits(sspv1alpha1.ReasonSourceNotFound, fmt.Sprintf("VirtualMachine %s not found in namespace %s", source.VMName, source.VMNamespace)), true
	case !matches(o, source.VMUID) || !matches(o, string(status.SourceUID)):
		return ends(sspv1alpha1.ReasonSourceChanged, "another VirtualMachine has this name now"), true
	case o.source.GetDeletionTimestamp() != nil:
		return ends(sspv1alpha1.ReasonSourceInvalid, "the VirtualMachine is being deleted"), true
	}
	return outcome{}, false
}

func matches(o *observation, uid string) bool {
	return uid == "" || uid == string(o.source.GetUID())
}

func metaOf(o *observation) format.Meta {
	meta := format.Meta{
		Name: o.name, Namespace: o.request.Namespace,
		Labels: map[string]string{v1alpha1.LabelTemplateRequest: string(o.request.UID)},
		Annotations: map[string]string{
			v1alpha1.AnnotationSourceVM:  sourceKey(o.source.GetNamespace(), o.source.GetName()),
			v1alpha1.AnnotationSourceUID: string(o.source.GetUID()),
		},
	}
	for key, value := range o.request.Spec.TemplateLabels {
		meta.Labels[key] = string(value)
	}
	if trigger := o.request.Annotations[v1alpha1.AnnotationTriggerHash]; trigger != "" {
		meta.Annotations[v1alpha1.AnnotationTriggerHash] = trigger
	}
	return meta
}
