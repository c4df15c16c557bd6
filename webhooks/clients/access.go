package clients

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// AccessReviewer asks API servers what users may do.
type AccessReviewer struct {
	Client client.Client
}

// Allowed creates a SubjectAccessReview.
func (a *AccessReviewer) Allowed(ctx context.Context, user authenticationv1.UserInfo, action authorizationv1.ResourceAttributes) (bool, error) {
	extra := make(map[string]authorizationv1.ExtraValue, len(user.Extra))
	for key, values := range user.Extra {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra, ResourceAttributes: &action,
	}}
	if err := a.Client.Create(ctx, review); err != nil {
		return false, fmt.Errorf("cannot ask what user %s may do: %w", user.Username, err)
	}
	return review.Status.Allowed && !review.Status.Denied, nil
}
