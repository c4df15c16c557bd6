package webhooks

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	sspv1alpha1 "github.com/virtwright/virtwright/api/ssp/v1alpha1"
)

// refusals are problems for what a user may not do and would have to be allowed
// to. They are the same whether there is what he asks about or not.
func refusals(ctx context.Context, authority Authority, user authenticationv1.UserInfo, needs []sspv1alpha1.Need) (field.ErrorList, error) {
	if authority == nil {
		return nil, nil
	}
	var problems field.ErrorList
	for _, n := range needs {
		switch may, err := authority.Allowed(ctx, user, n.What); {
		case err != nil:
			return nil, err
		case !may:
			problems = append(problems, field.Forbidden(n.Path, fmt.Sprintf("user %s may not %s, which making a template takes", user.Username, n)))
		}
	}
	return problems, nil
}

// asked are needs of who asks by an annotation, under whose path all problems lie.
func asked(at *field.Path, namespace, vm string, format sspv1alpha1.Format) []sspv1alpha1.Need {
	needs := append(sspv1alpha1.Needs(namespace, namespace, vm, format), sspv1alpha1.AskNeed(namespace))
	for i := range needs {
		needs[i].Path = at
	}
	return needs
}
