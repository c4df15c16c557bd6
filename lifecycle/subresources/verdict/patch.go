package verdict

import (
	"reflect"

	kubevirtv1 "kubevirt.io/api/core/v1"
)

type request = kubevirtv1.VirtualMachineStateChangeRequest

const (
	runStrategyPath = "/spec/runStrategy"
	runningPath     = "/spec/running"
	requestsPath    = "/status/stateChangeRequests"
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
		return nil, c.conflict("unable to complete request: stop/start already underway")
	}
	if reflect.DeepEqual(c.vm.Status, kubevirtv1.VirtualMachineStatus{}) {
		// There may be no status to add to; whoever writes one now must not lose it.
		return append(c.judged(), test("/metadata/resourceVersion", c.vm.ResourceVersion),
			Operation{Op: "add", Path: "/status", Value: map[string]any{"stateChangeRequests": requests}}), nil
	}
	patch := append(c.judged(), c.testRequests(), Operation{Op: "add", Path: requestsPath, Value: requests})
	return append(patch, c.forgetFailure()...), nil
}

// withdraw takes back what is pending.
func (c *call) withdraw() []Operation {
	patch := append(c.judged(), c.testRequests(), Operation{Op: "remove", Path: requestsPath})
	return append(patch, c.forgetFailure()...)
}

func (c *call) testRequests() Operation {
	if pending := c.vm.Status.StateChangeRequests; len(pending) > 0 {
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
