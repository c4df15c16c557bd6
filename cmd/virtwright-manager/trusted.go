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

// trustedUsers are the users whose updates are left alone, where the manager runs
// as one.
func trustedUsers(self string, o *options) []string {
	trusted := []string{
		serviceAccountPrefix + "kube-system:generic-garbage-collector",
		serviceAccountPrefix + "kube-system:namespace-controller",
	}
	if o.mode == modeAddon {
		for _, name := range []string{"kubevirt-apiserver", "kubevirt-controller", "kubevirt-handler", "kubevirt-synchronization-controller"} {
			trusted = append(trusted, serviceAccountPrefix+o.kubevirtNamespace+":"+name)
		}
	}
	// Somebody who runs the manager by hand runs kubectl under the same name,
	// and wants the presets to act.
	if strings.HasPrefix(self, serviceAccountPrefix) {
		trusted = append(trusted, self)
	}
	if o.nodeAgent != "" {
		trusted = append(trusted, o.nodeAgent) // whom a policy of its own binds
	}
	trusted = append(trusted, o.trusted...)
	slices.Sort(trusted)
	return slices.Compact(trusted)
}

// whoami is the user that the manager runs as.
func whoami(ctx context.Context, c client.Client) (string, error) {
	review := &authenticationv1.SelfSubjectReview{}
	if err := c.Create(ctx, review); err != nil {
		return "", fmt.Errorf("cannot ask who the manager is: %w", err)
	}
	return review.Status.UserInfo.Username, nil
}

// mayLaunch is nil when the manager may make the instances of VirtualMachines.
func mayLaunch(self string, o *options) error {
	if !slices.Contains(trustedUsers(self, o), self) {
		return fmt.Errorf("the manager runs as %s, who is not trusted to set owner references, so no VirtualMachine can be started: "+
			"run it as a service account, or give --trusted-user=%s", self, self)
	}
	return nil
}
