package verdict

import (
	"reflect"

	kubevirtv1 "kubevirt.io/api/core/v1"
)

type request = kubevirtv1.VirtualMachineStateChangeRequest

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

// judged are the tests that the VM is the one that was judged.
func (c *call) judged() []Operation {
	return []Operation{test("/metadata/uid", c.vm.UID), c.testRunStrategy(), c.testRunning()}
}

func (c *call) testRunStrategy() Operation {
	if c.vm.Spec.RunStrategy == nil {
		return test(runStrategyPath, nil)
	}
	return test(runStrategyPath, *c.vm.Spec.RunStrategy)
}

func (c *call) testRunning() Operation {
	if c.vm.Spec.Running == nil {
		return test(runningPath, nil)
	}
	return test(runningPath, *c.vm.Spec.Running)
}

// run changes what the spec says: the machine runs, or it does not. A spec that
// says it with running goes on doing so.
func (c *call) run(always bool) []Operation {
	if c.vm.Spec.Running != nil {
		return append(c.judged(), Operation{Op: "replace", Path: runningPath, Value: always})
	}
	strategy := kubevirtv1.RunStrategyHalted
	if always {
		strategy = kubevirtv1.RunStrategyAlways
	}
	return append(c.judged(), Operation{Op: "add", Path: runStrategyPath, Value: strategy})
}

// ask writes requests for the controller into the status. A stop comes instead
// of what is pending; nothing else does.
func (c *call) ask(requests ...request) ([]Operation, error) {
	stops := len(requests) == 1 && requests[0].Action == kubevirtv1.StopRequest
	if len(c.vm.Status.StateChangeRequests) > 0 && !stops {
		return nil, c.underway()
	}
	// The controller keeps a start of a halted machine that it has seen halted.
	halted := c.strategy == kubevirtv1.RunStrategyHalted && !stops
	patch := append(c.judged(), c.undisturbed())
	if c.bare() {
		status := map[string]any{"stateChangeRequests": requests}
		if halted {
			status["runStrategy"] = c.strategy
		}
		return append(patch, Operation{Op: "add", Path: statusPath, Value: status}), nil
	}
	patch = append(patch, Operation{Op: "add", Path: requestsPath, Value: requests})
	if halted {
		patch = append(patch, Operation{Op: "add", Path: seenPath, Value: c.strategy})
	}
	return append(patch, c.forgetFailure()...), nil
}

// underway is why there are not two requests at a time.
func (c *call) underway() error {
	return c.conflict("unable to complete request: stop/start already underway")
}

// bare reports whether the VM may have no status.
func (c *call) bare() bool {
	return reflect.DeepEqual(c.vm.Status, kubevirtv1.VirtualMachineStatus{})
}

// undisturbed tests that nobody has requested anything meanwhile. Where there
// may be no status yet, whoever writes one must not lose it.
func (c *call) undisturbed() Operation {
	pending := c.vm.Status.StateChangeRequests
	switch {
	case c.bare():
		return test("/metadata/resourceVersion", c.vm.ResourceVersion)
	case len(pending) > 0:
		return test(requestsPath, pending)
	}
	return test(requestsPath, nil)
}

// forgetFailure ends a back-off: somebody who asks by hand does not wait for it.
func (c *call) forgetFailure() []Operation {
	if c.vm.Status.StartFailure == nil {
		return nil
	}
	return []Operation{{Op: "remove", Path: failurePath}}
}

// grace is the change of how long the guest has to end, and the way back.
func (c *call) grace(seconds int64) (change, undo []Operation) {
	uid, before := test("/metadata/uid", c.vmi.UID), c.vmi.Spec.TerminationGracePeriodSeconds
	was, back := test(gracePath, nil), Operation{Op: "remove", Path: gracePath}
	if before != nil {
		was, back = test(gracePath, *before), Operation{Op: "replace", Path: gracePath, Value: *before}
	}
	change = []Operation{uid, was, {Op: "add", Path: gracePath, Value: seconds}}
	return change, []Operation{uid, test(gracePath, seconds), back}
}

// stop asks to end the present instance.
func (c *call) stop() request {
	uid := c.vmi.UID
	return request{Action: kubevirtv1.StopRequest, UID: &uid}
}

// stopAny asks to end whatever instance of the VM there is by then: the
// controller may be making one for a start that it has read.
func (c *call) stopAny() request {
	uid := c.vm.UID
	return request{Action: kubevirtv1.StopRequest, UID: &uid}
}
