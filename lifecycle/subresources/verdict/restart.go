package verdict

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// forced is the grace period of a restart by force: one second, because none at
// all would leave the runtime no time to end the guest.
const forced = 1

// Restart decides about a restart. The instance of the VM's name may be nil.
// The error is an *apierrors.StatusError.
func Restart(vm *kubevirtv1.VirtualMachine, vmi *kubevirtv1.VirtualMachineInstance, o *kubevirtv1.RestartOptions) (*Changes, error) {
	if err := sensible(o); err != nil {
		return nil, err
	}
	c, err := about(vm, vmi)
	if err != nil {
		return nil, err
	}
	if err := c.restartable(); err != nil {
		return nil, err
	}
	if c.vmi == nil {
		return nil, c.conflict("VM is not running: Halted")
	}
	changes, err := c.asking(c.stop(), request{Action: kubevirtv1.StartRequest})
	if err != nil {
		return nil, err
	}
	if o.GracePeriodSeconds != nil && c.lives() {
		changes.Instance, changes.Undo = c.grace(forced)
	}
	return changes, nil
}

// sensible checks options alone.
func sensible(o *kubevirtv1.RestartOptions) error {
	switch grace := o.GracePeriodSeconds; {
	case grace != nil && *grace > 0:
		return apierrors.NewBadRequest("For force restart, only gracePeriod=0 is supported for now")
	case grace != nil && *grace < 0:
		return apierrors.NewBadRequest("gracePeriod has to be greater or equal to 0")
	}
	return nil
}

// restartable is nil for a VM that a restart is for, running or not.
func (c *call) restartable() error {
	if c.has(kubevirtv1.VirtualMachineConditionType(kubevirtv1.VirtualMachineInstanceVolumesChange)) {
		return c.conflict(recovery)
	}
	switch c.strategy {
	case kubevirtv1.RunStrategyHalted, kubevirtv1.RunStrategyOnce:
		return c.conflict("RunStategy %s does not support manual restart requests", c.strategy) // KubeVirt's spelling
	case kubevirtv1.RunStrategyAlways, kubevirtv1.RunStrategyManual, kubevirtv1.RunStrategyRerunOnFailure, kubevirtv1.RunStrategyWaitAsReceiver:
		return nil
	}
	return apierrors.NewInternalError(errUnknown(c.strategy))
}
