package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const serviceAccountPrefix = "system:serviceaccount:"

// trustedUsers are the users whose updates are left alone.
func trustedUsers(ctx context.Context, c client.Client, o *options) ([]string, error) {
	trusted := []string{
		serviceAccountPrefix + "kube-system:generic-garbage-collector",
		serviceAccountPrefix + "kube-system:namespace-controller",
	}
	if o.mode == modeAddon {
		for _, name := range []string{"kubevirt-apiserver", "kubevirt-controller", "kubevirt-handler", "kubevirt-synchronization-controller"} {
			trusted = append(trusted, serviceAccountPrefix+o.kubevirtNamespace+":"+name)
		}
	}
	review := &authenticationv1.SelfSubjectReview{}
	if err := c.Create(ctx, review); err != nil {
		return nil, fmt.Errorf("cannot ask who the manager is: %w", err)
	}
	// Somebody who runs the manager by hand runs kubectl under the same name,
	// and wants the presets to act.
	if self := review.Status.UserInfo.Username; strings.HasPrefix(self, serviceAccountPrefix) {
		trusted = append(trusted, self)
	}
	trusted = append(trusted, o.trusted...)
	slices.Sort(trusted)
	return slices.Compact(trusted), nil
}
