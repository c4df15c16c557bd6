package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// subresources is the API of the verbs.
const subresources = kubevirtv1.SubresourceGroupName + "/v1"

// declined is a refusal by a cluster.
type declined struct{ error }

// Unwrap returns the answer of the cluster.
func (d declined) Unwrap() error { return d.error }

// request sends the verb to a VM.
func (p *power) request(ctx context.Context, c *clusterClient, vm types.NamespacedName) error {
	body, err := p.body()
	if err != nil {
		return fmt.Errorf("cannot write the request: %w", err)
	}
	err = c.verbs.Put().AbsPath("/apis", subresources, "namespaces", vm.Namespace, p.resource(), vm.Name, p.verb).
		SetHeader("Content-Type", "application/json").SetHeader("Accept", "application/json").
		Body(body).Do(ctx).Error()
	switch {
	case err == nil:
		return nil
	case !unknownPath(err) && !apierrors.IsServiceUnavailable(err):
		return p.refused(vm, err)
	case p.kind() == "VMI":
		return p.notServed(vm, nil, err)
	}
	stored, read := c.machine(ctx, vm)
	if apierrors.IsNotFound(read) && !unknownPath(read) {
		return p.refused(vm, read)
	}
	return p.notServed(vm, stored, err)
}

// unknownPath reports whether a server does not serve the path. An object that does not exist is another error.
func unknownPath(err error) bool {
	return apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// refused returns an answer of the cluster, as declined if it is a refusal.
func (p *power) refused(vm types.NamespacedName, err error) error {
	said := fmt.Errorf("cannot %s %s %s: %w", p.verb, p.kind(), vm, err)
	if judged(err) {
		return declined{said}
	}
	return said
}

// judged reports whether a cluster refused a request, so that a retry is no use.
func judged(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	code := status.Status().Code
	return code >= http.StatusBadRequest && code < http.StatusInternalServerError && code != http.StatusTooManyRequests
}

// notServed says why the API is missing, and what works without it. Stored is nil if the VM cannot be read.
func (p *power) notServed(vm types.NamespacedName, stored *kubevirtv1.VirtualMachine, err error) error {
	why := "is not served by this cluster: virtwright's chart or KubeVirt installs it"
	if !unknownPath(err) {
		why = "is not available at the moment: kubectl get apiservice v1." + kubevirtv1.SubresourceGroupName + " -o yaml says why"
	}
	hint := p.meanwhile(vm.Namespace, stored)
	if hint != "" {
		hint = "\nMeanwhile this works, where a lifecycle controller runs:\n  " + hint
	}
	return fmt.Errorf("cannot %s %s %s: %s %s (%w)%s", p.verb, p.kind(), vm, subresources, why, err, hint)
}

// meanwhile is a command that does about the same without the API, empty if none does.
func (p *power) meanwhile(namespace string, vm *kubevirtv1.VirtualMachine) string {
	if vm == nil {
		return ""
	}
	strategy, err := vm.RunStrategy()
	if err != nil {
		return ""
	}
	to := map[string]kubevirtv1.VirtualMachineRunStrategy{verbStart: kubevirtv1.RunStrategyAlways, verbStop: kubevirtv1.RunStrategyHalted}[p.verb]
	switch {
	case p.verb == verbRestart && strategy == kubevirtv1.RunStrategyAlways:
		return fmt.Sprintf("kubectl delete vmi %s -n %s", vm.Name, namespace)
	case p.verb == verbRestart, strategy == to:
		return ""
	}
	field := fmt.Sprintf(`"runStrategy":%q`, to)
	if vm.Spec.RunStrategy == nil && vm.Spec.Running != nil {
		field = fmt.Sprintf(`"running":%t`, to == kubevirtv1.RunStrategyAlways)
	}
	return fmt.Sprintf("kubectl patch vm %s -n %s --type merge -p '{\"spec\":{%s}}'", vm.Name, namespace, field)
}
