package decide

import (
	"reflect"

	"k8s.io/apimachinery/pkg/types"

	kubevirtv1 "kubevirt.io/api/core/v1"
)

type stateChange = kubevirtv1.VirtualMachineStateChangeRequest

const (
	runStrategyPath = "/spec/runStrategy"
	runningPath     = "/spec/running"
	statusPath      = "/status"
	requestsPath    = "/status/stateChangeRequests"
	seenPath        = "/status/runStrategy"
	failurePath     = "/status/startFailure"
	gracePath       = "/spec/terminationGracePeriodSeconds"
)

func test(path string, value any) Operation { return Operation{Op: "test", Path: path, Value: value} }

func testField[T any](path string, value *T) Operation {
	if value == nil {
		return test(path, nil)
	}
	return test(path, *value)
}

func (c *call) sameVM() []Operation {
	return []Operation{test("/metadata/uid", c.vm.UID), testField(runStrategyPath, c.vm.Spec.RunStrategy), testField(runningPath, c.vm.Spec.Running)}
}

// run changes the run strategy or, if the spec uses it, running.
func (c *call) run(always bool) []Operation {
	if c.vm.Spec.Running != nil {
		return append(c.sameVM(), Operation{Op: "replace", Path: runningPath, Value: always})
	}
	strategy := kubevirtv1.RunStrategyHalted
	if always {
		strategy = kubevirtv1.RunStrategyAlways
	}
	return append(c.sameVM(), Operation{Op: "add", Path: runStrategyPath, Value: strategy})
}

// request adds requests for the controller to the status. Only a stop replaces pending requests.
func (c *call) request(requests ...stateChange) ([]Operation, error) {
	stops := len(requests) == 1 && requests[0].Action == kubevirtv1.StopRequest
	if len(c.vm.Status.StateChangeRequests) > 0 && !stops {
		return nil, c.underway()
	}
	// Status records the run strategy with some requests. The controller keeps the start of a
	// halted VM only if status says Halted. After a stop of any VMI it starts no first VMI by
	// itself, because status has the strategy already.
	seen := c.strategy == kubevirtv1.RunStrategyHalted
	if stops {
		seen = *requests[0].UID == c.vm.UID
	}
	patch := append(c.sameVM(), c.samePending())
	if c.hasNoStatus() {
		status := map[string]any{"stateChangeRequests": requests}
		if seen {
			status["runStrategy"] = c.strategy
		}
		return append(patch, Operation{Op: "add", Path: statusPath, Value: status}), nil
	}
	patch = append(patch, Operation{Op: "add", Path: requestsPath, Value: requests})
	if seen {
		patch = append(patch, Operation{Op: "add", Path: seenPath, Value: c.strategy})
	}
	return append(patch, c.clearFailure()...), nil
}

func (c *call) underway() error {
	return c.conflict("unable to complete request: stop/start already underway")
}

func (c *call) hasNoStatus() bool {
	return reflect.DeepEqual(c.vm.Status, kubevirtv1.VirtualMachineStatus{})
}

// samePending tests that the pending requests are unchanged. Without a status, it tests the
// resource version, so that a concurrent status is not lost.
func (c *call) samePending() Operation {
	pending := c.vm.Status.StateChangeRequests
	switch {
	case c.hasNoStatus():
		return test("/metadata/resourceVersion", c.vm.ResourceVersion)
	case len(pending) > 0:
		return test(requestsPath, pending)
	}
	return test(requestsPath, nil)
}

// clearFailure ends a back-off, because a manual start does not wait for it.
func (c *call) clearFailure() []Operation {
	if c.vm.Status.StartFailure == nil {
		return nil
	}
	return []Operation{{Op: "remove", Path: failurePath}}
}

// grace sets the grace period of the VMI, and undoes that.
func (c *call) grace(seconds int64) (change, undo []Operation) {
	uid, before := test("/metadata/uid", c.vmi.UID), c.vmi.Spec.TerminationGracePeriodSeconds
	restore := Operation{Op: "remove", Path: gracePath}
	if before != nil {
		restore = Operation{Op: "replace", Path: gracePath, Value: *before}
	}
	change = []Operation{uid, testField(gracePath, before), {Op: "add", Path: gracePath, Value: seconds}}
	return change, []Operation{uid, test(gracePath, seconds), restore}
}

// stopOf requests to stop the VMI with a UID or, with the UID of the VM, any VMI of it.
func stopOf(uid *types.UID) stateChange {
	return stateChange{Action: kubevirtv1.StopRequest, UID: uid}
}
