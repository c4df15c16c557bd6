package webhooks

import (
	"context"
	"fmt"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Verbs that virtwright asks for beyond those of Kubernetes' own.
const (
	// VerbEscalate lets somebody write presets that reach beyond the VM.
	VerbEscalate = "escalate"
	// VerbUse lets somebody name a preset that acts only where it is named.
	VerbUse = "use"
)

// Authority says what users may do.
type Authority interface {
	// Allowed reports whether a user may do something.
	Allowed(ctx context.Context, user authenticationv1.UserInfo, what authorizationv1.ResourceAttributes) (bool, error)
}

// ReviewedAuthority asks API servers what users may do.
type ReviewedAuthority struct {
	Client client.Client
}

var _ Authority = (*ReviewedAuthority)(nil)

// Allowed creates a SubjectAccessReview.
func (a *ReviewedAuthority) Allowed(ctx context.Context, user authenticationv1.UserInfo, what authorizationv1.ResourceAttributes) (bool, error) {
	extra := make(map[string]authorizationv1.ExtraValue, len(user.Extra))
	for key, values := range user.Extra {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra, ResourceAttributes: &what,
	}}
	if err := a.Client.Create(ctx, review); err != nil {
		return false, fmt.Errorf("cannot ask what user %s may do: %w", user.Username, err)
	}
	return review.Status.Allowed && !review.Status.Denied, nil
}

// describe says what somebody may not do.
func describe(what authorizationv1.ResourceAttributes) string {
	resource := what.Resource
	if what.Group != "" {
		resource += "." + what.Group
	}
	if what.Name != "" {
		resource += " " + what.Name
	}
	if what.Namespace == "" {
		return fmt.Sprintf("%s %s in all namespaces", what.Verb, resource)
	}
	return fmt.Sprintf("%s %s in namespace %s", what.Verb, resource, what.Namespace)
}

// listed joins the first few of a list.
func listed(items []string) string {
	const most = 5
	if len(items) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(items[:most], ", "), len(items)-most)
	}
	return strings.Join(items, ", ")
}
