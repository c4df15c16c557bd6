package verdict

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// Start decides about a start. The instance of the VM's name may be nil. The
// error is an *apierrors.StatusError.
func Start(vm *kubevirtv1.VirtualMachine, vmi *kubevirtv1.VirtualMachineInstance, o *kubevirtv1.StartOptions) (*Changes, error) {
	c, err := about(vm, vmi)
	if err != nil {
		return nil, err
	}
	switch {
	case c.taken:
		return nil, c.conflict("a VirtualMachineInstance of this name belongs to something else")
	case c.lives() && c.vmi.Status.Phase != kubevirtv1.VmPhaseUnset && c.vmi.Status.Phase != kubevirtv1.Unknown:
		return nil, c.conflict("VM is already running")
	case c.has(kubevirtv1.VirtualMachineManualRecoveryRequired):
		return nil, c.conflict(recovery)
	}
	begin := request{Action: kubevirtv1.StartRequest}
	if o.Paused {
		begin.Data = map[string]string{kubevirtv1.StartRequestDataPausedKey: kubevirtv1.StartRequestDataPausedTrue}
	}
	return c.start(begin)
}

// start decides for a VM that does not run.
func (c *call) start(begin request) (*Changes, error) {
	switch c.strategy {
	case kubevirtv1.RunStrategyHalted:
		return c.startHalted(begin)
	case kubevirtv1.RunStrategyRerunOnFailure, kubevirtv1.RunStrategyManual:
		return c.startRequested(begin)
	case kubevirtv1.RunStrategyAlways, kubevirtv1.RunStrategyOnce:
		return nil, c.conflict("%s does not support manual start requests", c.strategy)
	case kubevirtv1.RunStrategyWaitAsReceiver:
		return &Changes{}, nil
	}
	return nil, apierrors.NewInternalError(errUnknown(c.strategy))
}

// startHalted lets a machine run: at once by its spec, paused by a request, and
// not one beside the other.
func (c *call) startHalted(begin request) (*Changes, error) {
	switch {
	case begin.Data != nil:
		return c.asking(begin)
	case len(c.vm.Status.StateChangeRequests) > 0:
		return nil, c.underway()
	}
	return &Changes{Machine: append(c.run(true), c.undisturbed())}, nil
}

// startRequested asks for a start.
func (c *call) startRequested(begin request) (*Changes, error) {
	switch {
	case c.revives():
		return nil, c.conflict("RerunOnFailure does not support starting VM from failed state")
	case c.ended():
		return c.asking(c.stop(), begin)
	case begin.Data == nil && c.backsOff():
		return &Changes{Status: append(append(c.judged(), c.undisturbed()), c.forgetFailure()...)}, nil
	}
	return c.asking(begin)
}

// revives reports whether the controller is about to make an instance that
// failed anew.
func (c *call) revives() bool {
	return c.strategy == kubevirtv1.RunStrategyRerunOnFailure && c.ended() && c.vmi.Status.Phase == kubevirtv1.Failed
}

// backsOff reports whether the one thing that is pending is the controller's own
// start, which waits for the end of a back-off.
func (c *call) backsOff() bool {
	pending := c.vm.Status.StateChangeRequests
	return c.strategy == kubevirtv1.RunStrategyRerunOnFailure && c.vmi == nil && c.vm.Status.StartFailure != nil &&
		len(pending) == 1 && pending[0].Action == kubevirtv1.StartRequest && len(pending[0].Data) == 0
}

// asking are the changes that only write requests.
func (c *call) asking(requests ...request) (*Changes, error) {
	status, err := c.ask(requests...)
	if err != nil {
		return nil, err
	}
	return &Changes{Status: status}, nil
}

type errUnknown kubevirtv1.VirtualMachineRunStrategy

// Error names the strategy.
func (e errUnknown) Error() string { return "unknown runstrategy: " + string(e) }
