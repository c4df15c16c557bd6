package webhooks

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	sspv1alpha1 "github.com/virtwright/virtwright/api/ssp/v1alpha1"
)

// Verbs of virtwright's own.
const (
	// verbEscalate permits writing presets that affect more than the VM.
	verbEscalate = "escalate"
	// verbUse permits naming a preset that acts only on VMs that name it.
	verbUse = "use"
)

// authorizer reports what users may do.
type authorizer interface {
	Allowed(ctx context.Context, user authenticationv1.UserInfo, action authorizationv1.ResourceAttributes) (bool, error)
}

// A requirement is a permission that a request needs, and why.
type requirement struct {
	sspv1alpha1.Permission
	reason string
}

// missing returns a problem for each requirement that a user does not meet. Without an authorizer
// all are met.
func missing(ctx context.Context, by authorizer, user authenticationv1.UserInfo, required []requirement) (field.ErrorList, error) {
	if by == nil {
		return nil, nil
	}
	var problems field.ErrorList
	for _, r := range required {
		may, err := by.Allowed(ctx, user, r.Attributes)
		if err != nil {
			return nil, err
		}
		if !may {
			problems = append(problems, field.Forbidden(r.Path, fmt.Sprintf("user %s may not %s: %s", user.Username, r.Permission, r.reason)))
		}
	}
	return problems, nil
}

// forTemplate returns the requirements of making a template.
func forTemplate(permissions []sspv1alpha1.Permission) []requirement {
	var out []requirement
	for _, permission := range permissions {
		out = append(out, requirement{permission, "required to create the template"})
	}
	return out
}
