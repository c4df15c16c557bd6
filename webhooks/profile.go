package webhooks

import (
	"context"
	"fmt"
	"reflect"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	kjson "sigs.k8s.io/json"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/domain"
)

// A Profile validates profiles of one kind, so that one that cannot be right
// never comes into being. It ratchets as a Preset does.
type Profile struct {
	// Kind is v1alpha1.KindFrontendProfile or v1alpha1.KindBackendProfile.
	Kind string
}

var _ admission.Handler = Profile{}

// Handle answers one request.
func (p Profile) Handle(_ context.Context, req admission.Request) admission.Response {
	if req.Operation != admissionv1.Create && req.Operation != admissionv1.Update {
		return allowed()
	}
	raw := req.Object.Raw
	if req.Operation == admissionv1.Update && sameSpec(raw, req.OldObject.Raw) {
		return allowed()
	}
	problems, err := p.problems(raw)
	switch {
	case err != nil:
		return malformed(fmt.Errorf("cannot read the %s: %w", p.Kind, err))
	case len(problems) > 0:
		return invalid(v1alpha1.GroupVersion.WithKind(p.Kind).GroupKind(), req.Name, problems)
	}
	return allowed()
}

// problems are unknown fields and what the pipeline says of the settings.
func (p Profile) problems(raw []byte) (field.ErrorList, error) {
	if p.Kind == v1alpha1.KindFrontendProfile {
		var profile v1alpha1.FrontendProfile
		strict, err := kjson.UnmarshalStrict(raw, &profile)
		return append(unknownFields(strict, frontendParts), domain.CheckFrontendProfile(&profile)...), err
	}
	var profile v1alpha1.BackendProfile
	strict, err := kjson.UnmarshalStrict(raw, &profile)
	return append(unknownFields(strict, backendParts), domain.CheckBackendProfile(&profile)...), err
}

// The parts of profiles whose fields are listed to whoever misspells one.
var (
	frontendParts = map[string]reflect.Type{
		"spec": reflect.TypeFor[v1alpha1.FrontendProfileSpec](), "spec.match": reflect.TypeFor[v1alpha1.ProfileMatch](),
		"spec.smbios": reflect.TypeFor[v1alpha1.SMBIOS](), "spec.video": reflect.TypeFor[v1alpha1.Video](),
		"spec.balloon": reflect.TypeFor[v1alpha1.Balloon](),
	}
	backendParts = map[string]reflect.Type{
		"spec": reflect.TypeFor[v1alpha1.BackendProfileSpec](), "spec.match": reflect.TypeFor[v1alpha1.ProfileMatch](),
		"spec.disks": reflect.TypeFor[v1alpha1.DiskBacking](), "spec.cpu": reflect.TypeFor[v1alpha1.CPUBacking](),
		"spec.memory": reflect.TypeFor[v1alpha1.MemoryBacking](), "spec.paths": reflect.TypeFor[v1alpha1.Paths](),
	}
)
