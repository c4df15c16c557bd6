package webhooks

import (
	"context"
	"fmt"
	"reflect"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	kjson "sigs.k8s.io/json"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
)

// A PresetException validates exceptions. Its author must be allowed to update each preset that
// it names. It ratchets as a Preset does.
type PresetException struct {
	// Authority is asked for the author's rights; nil allows all.
	Authority Authority
	Snapshots Snapshots
	// MaxDuration is how far ahead spec.until may be; 0 means without limit.
	MaxDuration time.Duration
	Now         func() time.Time
}

var _ admission.Handler = PresetException{}

var exceptionParts = map[string]reflect.Type{
	"spec": reflect.TypeFor[v1alpha1.PresetExceptionSpec](), "spec.vmSelector": reflect.TypeFor[metav1.LabelSelector](),
}

// Handle answers one request.
func (p PresetException) Handle(ctx context.Context, req admission.Request) admission.Response {
	updates := req.Operation == admissionv1.Update
	if req.Operation != admissionv1.Create && !updates || updates && sameSpec(req.Object.Raw, req.OldObject.Raw) {
		return allowed()
	}
	var exception v1alpha1.PresetException
	strict, err := kjson.UnmarshalStrict(req.Object.Raw, &exception)
	if err != nil {
		return malformed(fmt.Errorf("cannot read the %s: %w", v1alpha1.KindPresetException, err))
	}
	var old *v1alpha1.PresetExceptionSpec
	if updates {
		var before v1alpha1.PresetException
		if kjson.UnmarshalCaseSensitivePreserveInts(req.OldObject.Raw, &before) == nil {
			old = &before.Spec
		}
	}
	problems := unknownFields(strict, exceptionParts)
	compiled, more := presets.CompileException(&exception)
	problems = append(append(problems, more...), p.until(&exception.Spec, old)...)
	if len(problems) > 0 {
		return invalid(v1alpha1.GroupVersion.WithKind(v1alpha1.KindPresetException).GroupKind(), req.Name, problems)
	}
	response := permitted(ctx, p.Authority, req, updatesOf(req.Namespace, compiled.Presets))
	if response.Allowed && p.Snapshots.Snapshot() != nil {
		response.Warnings = p.Snapshots.Snapshot().Missing(compiled)
	}
	return response
}

// until checks when an exception ends. An update that leaves that as it is may keep it, unless
// the exception then takes in more.
func (p PresetException) until(spec, old *v1alpha1.PresetExceptionSpec) field.ErrorList {
	at, latest := field.NewPath("spec", "until"), p.Now().Add(p.MaxDuration)
	limit := fmt.Sprintf("must be %s or earlier: exceptions may last for %s in this cluster", latest.UTC().Format(time.RFC3339), p.MaxDuration)
	same := old != nil && old.Until.Equal(spec.Until)
	switch {
	case spec.Until != nil && !same && !spec.Until.After(p.Now()):
		return field.ErrorList{field.Invalid(at, spec.Until.UTC().Format(time.RFC3339), "must be in the future")}
	case p.MaxDuration == 0 ||
		same && apiequality.Semantic.DeepEqual(old.Presets, spec.Presets) && apiequality.Semantic.DeepEqual(old.VMSelector, spec.VMSelector):
		return nil
	case spec.Until == nil:
		return field.ErrorList{field.Required(at, limit)}
	case spec.Until.After(latest):
		return field.ErrorList{field.Invalid(at, spec.Until.UTC().Format(time.RFC3339), limit)}
	}
	return nil
}

// updatesOf are the rights to update presets, by their Refs in a namespace.
func updatesOf(namespace string, refs []string) []need {
	var out []need
	for i, ref := range refs {
		n := need{
			at:   field.NewPath("spec", "presets").Index(i),
			what: authorizationv1.ResourceAttributes{Namespace: namespace, Verb: "update", Group: v1alpha1.GroupName, Resource: v1alpha1.ResourceVirtualMachinePresets},
			why:  "an exception keeps the preset from acting",
		}
		var cluster bool
		if n.what.Name, cluster = presets.Bare(ref); cluster {
			n.what.Namespace, n.what.Resource = "", v1alpha1.ResourceClusterVirtualMachinePresets
		}
		out = append(out, n)
	}
	return out
}
