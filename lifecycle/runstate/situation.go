package runstate

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// A Strategy is when a machine shall run.
type Strategy = kubevirtv1.VirtualMachineRunStrategy

// A Request is what somebody asked for by a subresource.
type Request = kubevirtv1.VirtualMachineStateChangeRequest

// A Failure counts instances that ended before they ran.
type Failure = kubevirtv1.VirtualMachineStartFailure

// A Situation is what there is of one VirtualMachine at one moment.
type Situation struct {
	// UID of the VirtualMachine.
	UID types.UID
	// Strategy is the effective one; empty means that running and runStrategy
	// contradict each other.
	Strategy Strategy
	// Before is the strategy under which there was an instance last, or which
	// was last seen to forbid one; empty where there was none yet.
	Before Strategy
	// Deletion of the VirtualMachine.
	Deletion Deletion
	// Requests that are not done yet, the first one first.
	Requests []Request
	Failure  *Failure
	Volumes  Volumes
	// Changes names the fields that have changed since the VMI was created; empty where they were
	// not read.
	Changes string
	// Excluded says that no VMI is created in the namespace, since no webhook serves it.
	Excluded bool
	// Instance has the name of the VirtualMachine; nil for none.
	Instance *Instance
	Now      time.Time
}

// A Deletion is how an object is being deleted.
type Deletion int

// Deletions.
const (
	// NotDeleted is for what stays.
	NotDeleted Deletion = iota
	// WithInstance is for a VirtualMachine that takes its instance with it.
	WithInstance
	// LeavingInstance is for one whose instance lives on.
	LeavingInstance
)

// Volumes is how far the dataVolumeTemplates are.
type Volumes int

// Volumes.
const (
	// Filled is for volumes with which a machine can start.
	Filled Volumes = iota
	// Filling is for those that will be.
	Filling
	// Stuck is for those that will not be without somebody's help.
	Stuck
)

// An Instance is one that has the name of the VirtualMachine.
type Instance struct {
	UID      types.UID
	Whose    Whose
	Deleting bool
	Phase    Phase
	// Ran says that it has been running once.
	Ran bool
}

// Whose says to whom an instance belongs.
type Whose int

// Whose.
const (
	// Own is controlled by the VirtualMachine.
	Own Whose = iota
	// Orphan is controlled by nobody, and was made for a VirtualMachine of this name.
	Orphan
	// Foreign is anybody else's.
	Foreign
)

// A Phase is how far an instance is.
type Phase int

// Phases.
const (
	// Starting is before Running.
	Starting Phase = iota
	// Running is while the guest is there.
	Running
	// Succeeded is after the guest shut down.
	Succeeded
	// Failed is after it crashed, or never came to be.
	Failed
)

// Final reports whether the guest is gone.
func (p Phase) Final() bool { return p == Succeeded || p == Failed }

// active reports whether there is an instance that runs, or is about to.
func (i *Instance) active() bool { return i != nil && !i.Deleting && !i.Phase.Final() }

// own is the instance if it is the VirtualMachine's.
func (s *Situation) own() *Instance {
	if s.Instance != nil && s.Instance.Whose == Own {
		return s.Instance
	}
	return nil
}

// Runs reports whether there is an instance of the VirtualMachine's, however far.
func (s *Situation) Runs() bool { return s.own() != nil }

// head is what the first request asks for; empty for none.
func (s *Situation) head() kubevirtv1.StateChangeRequestAction {
	if len(s.Requests) == 0 {
		return ""
	}
	return s.Requests[0].Action
}

// stops reports whether the first request stops this very instance.
func (s *Situation) stops(i *Instance) bool {
	return s.head() == kubevirtv1.StopRequest && s.means(s.Requests[0], i)
}

// means reports whether a request is about an instance: it names it, or the
// VirtualMachine for whichever there is.
func (s *Situation) means(r Request, i *Instance) bool {
	return i != nil && r.UID != nil && (*r.UID == i.UID || *r.UID == s.UID)
}

// paused reports whether a request asks for a paused start.
func paused(r Request) bool {
	return r.Action == kubevirtv1.StartRequest && r.Data[kubevirtv1.StartRequestDataPausedKey] == kubevirtv1.StartRequestDataPausedTrue
}
