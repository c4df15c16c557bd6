package webhooks

import (
	"context"

	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/domain"
)

// A Profile validates profiles of one kind. It ratchets as a Preset does.
type Profile struct {
	// Kind is v1alpha1.KindFrontendProfile or v1alpha1.KindBackendProfile.
	Kind string
}

var _ handler = Profile{}

// Handle answers one request.
func (p Profile) Handle(_ context.Context, req Request) Response {
	if !changesSpec(req) {
		return allowed()
	}
	problems, err := p.problems(req.Object.Raw)
	switch {
	case err != nil:
		return undecodable(req, p.Kind, err)
	case len(problems) > 0:
		return invalid(req, problems)
	}
	return allowed()
}

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
