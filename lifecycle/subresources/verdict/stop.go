package verdict

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// Stop decides about a stop. The instance of the VM's name may be nil. The
// error is an *apierrors.StatusError.
func Stop(vm *kubevirtv1.VirtualMachine, vmi *kubevirtv1.VirtualMachineInstance, o *kubevirtv1.StopOptions) (*Changes, error) {
	if o.GracePeriod != nil && *o.GracePeriod < 0 {
		return nil, apierrors.NewBadRequest("gracePeriod has to be greater or equal to 0")
	}
	c, err := about(vm, vmi)
	if err != nil {
		return nil, err
	}
	changes, err := c.end(o)
	if err != nil {
		return nil, err
	}
	if o.GracePeriod != nil && c.lives() {
		changes.Instance, changes.Undo = c.grace(*o.GracePeriod)
	}
	return changes, nil
}

// end decides without the grace period.
func (c *call) end(o *kubevirtv1.StopOptions) (*Changes, error) {
	switch c.strategy {
	case kubevirtv1.RunStrategyAlways, kubevirtv1.RunStrategyOnce:
		return &Changes{Machine: c.run(false)}, nil
	case kubevirtv1.RunStrategyWaitAsReceiver:
		return &Changes{}, nil
	case kubevirtv1.RunStrategyManual, kubevirtv1.RunStrategyRerunOnFailure:
		if !c.lives() {
			return c.stopWaiting()
		}
		return c.asking(c.stop())
	case kubevirtv1.RunStrategyHalted:
		if !c.lives() {
			return c.stopWaiting()
		}
		if is := c.vmi.Spec.TerminationGracePeriodSeconds; o.GracePeriod == nil || is != nil && *o.GracePeriod >= *is {
			return nil, c.conflict("Halted only supports manual stop requests with a shorter graceperiod")
		}
		return c.asking(c.stop())
	}
	return nil, apierrors.NewInternalError(errUnknown(c.strategy))
}

// stopWaiting decides for a VM that does not run: there is something to stop
// only where a start waits to be done, for volumes or for the end of a back-off.
func (c *call) stopWaiting() (*Changes, error) {
	for _, pending := range c.vm.Status.StateChangeRequests {
		if pending.Action == kubevirtv1.StartRequest {
			return &Changes{Status: c.withdraw()}, nil
		}
	}
	return nil, c.conflict("VM is not running")
}
