package verdict

import (
	"slices"

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
		return c.endRequested()
	case kubevirtv1.RunStrategyHalted:
		if c.lives() && !c.shortens(o.GracePeriod) {
			return nil, c.conflict("Halted only supports manual stop requests with a shorter graceperiod")
		}
		return c.endRequested()
	}
	return nil, apierrors.NewInternalError(errUnknown(c.strategy))
}

// shortens reports whether a grace period is shorter than the instance's.
func (c *call) shortens(grace *int64) bool {
	is := c.vmi.Spec.TerminationGracePeriodSeconds
	return grace != nil && (is == nil || *grace < *is)
}

// endRequested asks to end what runs, or is about to: there may be no instance,
// or one that has ended, while a start waits for volumes or for the end of a
// back-off.
func (c *call) endRequested() (*Changes, error) {
	switch {
	case c.startsOrStopsAny():
		return c.asking(c.stopAny())
	case c.lives(), c.revives():
		return c.asking(c.stop())
	}
	return nil, c.conflict("VM is not running")
}

// startsOrStopsAny reports whether a start is pending, or a stop of whatever
// instance there is.
func (c *call) startsOrStopsAny() bool {
	return slices.ContainsFunc(c.vm.Status.StateChangeRequests, func(r request) bool {
		return r.Action == kubevirtv1.StartRequest || r.Action == kubevirtv1.StopRequest && r.UID != nil && *r.UID == c.vm.UID
	})
}
