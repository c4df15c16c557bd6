package main

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// outgoing is the VMI that the request ends: the one that runs, or the rest of an earlier one.
func (p *power) outgoing(ctx context.Context, c *clusterClient, vm types.NamespacedName) (types.UID, error) {
	vmi, err := c.instance(ctx, vm)
	switch {
	case err != nil:
		return "", p.refused(vm, fmt.Errorf("cannot wait: %w", err))
	case vmi == nil || p.verb == verbStart && !vmi.IsFinal():
		return "", nil
	}
	return vmi.UID, nil
}

// await returns nil when the VM has the state that the verb leads to. It tells each change of its status.
func (p *power) await(ctx context.Context, c *clusterClient, vm types.NamespacedName, before types.UID, tell func(string)) error {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	w := &objectWait{objects: c.vms.Namespace(vm.Namespace), name: vm.Name, shown: "VM " + vm.String(), tell: tell}
	w.reached = func(ctx context.Context, object *unstructured.Unstructured) (bool, error) {
		o := observation{before: before}
		var err error
		if o.vm, err = decoded[kubevirtv1.VirtualMachine](object); err != nil {
			return false, err
		}
		if o.vmi, err = c.instance(ctx, vm); err != nil {
			return false, err
		}
		done := p.reached(o)
		w.news(o.describe(done))
		if why := p.hopeless(o); !done && why != "" {
			return false, unfinished{fmt.Errorf("cannot %s VM %s: %s", p.verb, vm, why)}
		}
		return done, nil
	}
	err := w.until(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		return unfinished{fmt.Errorf("timed out after %s waiting for VM %s to %s: %s", p.timeout, vm, p.verb, w.last)}
	}
	return err
}
