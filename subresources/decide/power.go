package decide

import (
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// Start decides a start. The VMI may be nil. The error is an *apierrors.StatusError.
func Start(vm *kubevirtv1.VirtualMachine, vmi *kubevirtv1.VirtualMachineInstance, o *kubevirtv1.StartOptions) (*Changes, error) {
	c, err := newCall(vm, vmi)
	if err != nil {
		return nil, err
	}
	switch {
	case c.taken:
		return nil, c.conflict("a VirtualMachineInstance of this name has another owner")
	case c.runs() && c.vmi.Status.Phase != kubevirtv1.VmPhaseUnset && c.vmi.Status.Phase != kubevirtv1.Unknown:
		return nil, c.conflict("VM is already running")
	case c.has(kubevirtv1.VirtualMachineManualRecoveryRequired):
		return nil, c.conflict(recovery)
	}
	begin := stateChange{Action: kubevirtv1.StartRequest}
	if o.Paused {
		begin.Data = map[string]string{kubevirtv1.StartRequestDataPausedKey: kubevirtv1.StartRequestDataPausedTrue}
	}
	return c.start(begin)
}

func (c *call) start(begin stateChange) (*Changes, error) {
	switch c.strategy {
	case kubevirtv1.RunStrategyHalted:
		return c.startHalted(begin)
	case kubevirtv1.RunStrategyRerunOnFailure, kubevirtv1.RunStrategyManual:
		return c.startRequested(begin)
	case kubevirtv1.RunStrategyAlways, kubevirtv1.RunStrategyOnce, kubevirtv1.RunStrategyWaitAsReceiver:
		return nil, c.conflict("%s does not support manual start requests", c.strategy)
	}
	return nil, c.unknownStrategy()
}

// startHalted starts a VM by its spec or, paused, by a request, but not by both.
func (c *call) startHalted(begin stateChange) (*Changes, error) {
	switch {
	case begin.Data != nil:
		return c.requesting(begin)
	case len(c.vm.Status.StateChangeRequests) > 0:
		return nil, c.underway()
	}
	return &Changes{VM: append(c.run(true), c.samePending())}, nil
}

func (c *call) startRequested(begin stateChange) (*Changes, error) {
	switch {
	case c.willRerun():
		return nil, c.conflict("RerunOnFailure does not support starting VM from failed state")
	case c.ended():
		return c.requesting(stopOf(&c.vmi.UID), begin)
	case begin.Data == nil && c.backsOff():
		return &Changes{VMStatus: append(append(c.sameVM(), c.samePending()), c.clearFailure()...)}, nil
	}
	return c.requesting(begin)
}

// willRerun reports whether the controller is about to replace a failed VMI.
func (c *call) willRerun() bool {
	return c.strategy == kubevirtv1.RunStrategyRerunOnFailure && c.ended() && c.vmi.Status.Phase == kubevirtv1.Failed
}

// backsOff reports whether the only pending request is the controller's own start after a back-off.
func (c *call) backsOff() bool {
	pending := c.vm.Status.StateChangeRequests
	return c.strategy == kubevirtv1.RunStrategyRerunOnFailure && c.vmi == nil && c.vm.Status.StartFailure != nil &&
		len(pending) == 1 && pending[0].Action == kubevirtv1.StartRequest && len(pending[0].Data) == 0
}

// requesting returns changes that only add requests.
func (c *call) requesting(requests ...stateChange) (*Changes, error) {
	status, err := c.request(requests...)
	if err != nil {
		return nil, err
	}
	return &Changes{VMStatus: status}, nil
}

func (c *call) unknownStrategy() error {
	return apierrors.NewInternalError(fmt.Errorf("unknown runstrategy: %s", c.strategy))
}

// Stop decides a stop. The VMI may be nil. The error is an *apierrors.StatusError.
func Stop(vm *kubevirtv1.VirtualMachine, vmi *kubevirtv1.VirtualMachineInstance, o *kubevirtv1.StopOptions) (*Changes, error) {
	if o.GracePeriod != nil && *o.GracePeriod < 0 {
		return nil, apierrors.NewBadRequest("gracePeriod has to be greater or equal to 0")
	}
	c, err := newCall(vm, vmi)
	if err != nil {
		return nil, err
	}
	changes, err := c.end(o)
	if err != nil {
		return nil, err
	}
	if o.GracePeriod != nil && c.runs() {
		changes.VMI, changes.UndoVMI = c.grace(*o.GracePeriod)
	}
	return changes, nil
}

// end decides a stop without the grace period.
func (c *call) end(o *kubevirtv1.StopOptions) (*Changes, error) {
	switch c.strategy {
	case kubevirtv1.RunStrategyAlways, kubevirtv1.RunStrategyOnce:
		return &Changes{VM: c.run(false)}, nil
	case kubevirtv1.RunStrategyWaitAsReceiver:
		return &Changes{}, nil
	case kubevirtv1.RunStrategyManual, kubevirtv1.RunStrategyRerunOnFailure:
		return c.endRequested()
	case kubevirtv1.RunStrategyHalted:
		if c.runs() && !c.shortens(o.GracePeriod) {
			return nil, c.conflict("Halted only supports manual stop requests with a shorter graceperiod")
		}
		return c.endRequested()
	}
	return nil, c.unknownStrategy()
}

func (c *call) shortens(grace *int64) bool {
	is := c.vmi.Spec.TerminationGracePeriodSeconds
	return grace != nil && (is == nil || *grace < *is)
}

// endRequested requests a stop of a VMI that runs or is about to: a start may still wait for
// volumes or for the end of a back-off.
func (c *call) endRequested() (*Changes, error) {
	switch {
	case c.startsOrStopsAny():
		return c.requesting(stopOf(&c.vm.UID)) // the controller may be creating a VMI for a pending start
	case c.runs(), c.willRerun():
		return c.requesting(stopOf(&c.vmi.UID))
	}
	return nil, c.conflict("VM is not running")
}

// startsOrStopsAny reports whether a start, or a stop of any VMI, is pending.
func (c *call) startsOrStopsAny() bool {
	return slices.ContainsFunc(c.vm.Status.StateChangeRequests, func(r stateChange) bool {
		return r.Action == kubevirtv1.StartRequest || r.Action == kubevirtv1.StopRequest && r.UID != nil && *r.UID == c.vm.UID
	})
}

// forced is the grace period of a forced restart in seconds. With 0 the container runtime could not
// end the guest.
const forced = 1

// Restart decides a restart. The VMI may be nil. The error is an *apierrors.StatusError.
func Restart(vm *kubevirtv1.VirtualMachine, vmi *kubevirtv1.VirtualMachineInstance, o *kubevirtv1.RestartOptions) (*Changes, error) {
	switch grace := o.GracePeriodSeconds; {
	case grace != nil && *grace > 0:
		return nil, apierrors.NewBadRequest("For force restart, only gracePeriod=0 is supported for now")
	case grace != nil && *grace < 0:
		return nil, apierrors.NewBadRequest("gracePeriod has to be greater or equal to 0")
	}
	c, err := newCall(vm, vmi)
	if err != nil {
		return nil, err
	}
	if err := c.restartable(); err != nil {
		return nil, err
	}
	changes, err := c.requesting(stopOf(&c.vmi.UID), stateChange{Action: kubevirtv1.StartRequest})
	if err != nil {
		return nil, err
	}
	if o.GracePeriodSeconds != nil && c.runs() {
		changes.VMI, changes.UndoVMI = c.grace(forced)
	}
	return changes, nil
}

// restartable checks whether the run strategy, conditions and the VMI allow a restart.
func (c *call) restartable() error {
	if c.has(kubevirtv1.VirtualMachineConditionType(kubevirtv1.VirtualMachineInstanceVolumesChange)) {
		return c.conflict(recovery)
	}
	switch c.strategy {
	case kubevirtv1.RunStrategyHalted, kubevirtv1.RunStrategyOnce:
		return c.conflict("RunStategy %s does not support manual restart requests", c.strategy) // KubeVirt's spelling
	case kubevirtv1.RunStrategyAlways, kubevirtv1.RunStrategyManual, kubevirtv1.RunStrategyRerunOnFailure, kubevirtv1.RunStrategyWaitAsReceiver:
		if c.vmi == nil {
			return c.conflict("VM is not running: Halted")
		}
		return nil
	}
	return c.unknownStrategy()
}
