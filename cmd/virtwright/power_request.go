package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// subresources is the API that the verbs are part of.
const subresources = kubevirtv1.SubresourceGroupName + "/v1"

// declined is that a cluster understood what it was asked and says no.
type declined struct{ error }

// Unwrap is what the cluster said.
func (d declined) Unwrap() error { return d.error }

// request asks for what the verb says.
func (p *power) request(ctx context.Context, c *clusterClient) error {
	body, err := p.body()
	if err != nil {
		return fmt.Errorf("cannot write the request: %w", err)
	}
	err = c.verbs.Put().AbsPath("/apis", subresources, "namespaces", c.namespace, "virtualmachines", p.name, p.verb).
		SetHeader("Content-Type", "application/json").SetHeader("Accept", "application/json").
		Body(body).Do(ctx).Error()
	if err == nil {
		return nil
	}
	if served(err) {
		return p.refused(c, err)
	}
	// Who has no API for the verb is told what there is instead, if the VM is there.
	vm, read := c.machine(ctx, p.name)
	if apierrors.IsNotFound(read) && !unknownPath(read) {
		return p.refused(c, read)
	}
	return p.notServed(c, vm, err)
}

// served tells whether an error is an answer of the API, and not of a server
// that has no such API, or whose API is not there at the moment.
func served(err error) bool {
	return !unknownPath(err) && !apierrors.IsServiceUnavailable(err)
}

// unknownPath tells that a server does not know the path, in contrast to what
// it leads to.
func unknownPath(err error) bool {
	return apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// refused says what the cluster said, as a refusal where it is one.
func (p *power) refused(c *clusterClient, err error) error {
	said := fmt.Errorf("cannot %s VM %s/%s: %w", p.verb, c.namespace, p.name, err)
	if judged(err) {
		return declined{said}
	}
	return said
}

// judged tells whether a cluster understood the question and says no: asking
// again is no use.
func judged(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	code := status.Status().Code
	return code >= http.StatusBadRequest && code < http.StatusInternalServerError && code != http.StatusTooManyRequests
}

// notServed says that nobody takes requests, and what works all the same. VM is
// nil where it cannot be read.
func (p *power) notServed(c *clusterClient, vm *kubevirtv1.VirtualMachine, err error) error {
	why := "is not served by this cluster: virtwright's chart or KubeVirt installs it"
	if !unknownPath(err) {
		why = "is not available at the moment: kubectl get apiservice v1." + kubevirtv1.SubresourceGroupName + " -o yaml says why"
	}
	hint := p.meanwhile(c.namespace, vm)
	if hint != "" {
		hint = "\nMeanwhile this works, where a lifecycle controller runs:\n  " + hint
	}
	return fmt.Errorf("cannot %s VM %s/%s: %s %s (%w)%s", p.verb, c.namespace, p.name, subresources, why, err, hint)
}

// meanwhile is a command that does about the same without the API, or nothing.
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
