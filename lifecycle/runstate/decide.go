package runstate

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// A Decision is what to do now. At most one of Create, Adopt, Delete and
// Strategy is set.
type Decision struct {
	// Create makes the instance.
	Create bool
	// Paused says that the guest is not to run at once.
	Paused bool
	// Adopt makes the VirtualMachine the owner of the orphan of this UID.
	Adopt types.UID
	// Delete is the UID of the instance to delete.
	Delete types.UID
	// Strategy is what the spec shall say; empty leaves it.
	Strategy Strategy
	// Requests and Failure are what status shall have.
	Requests []Request
	Failure  *Failure
	// First says that status must be written before anything is deleted: it has
	// what nobody could know afterwards.
	First bool
	// After is when to look again without being told; zero means never.
	After time.Duration
	// Waits says for what a start waits; empty where none does.
	Waits string
}

// Acts reports whether something but status changes.
func (d Decision) Acts() bool {
	return d.Create || d.Adopt != "" || d.Delete != "" || d.Strategy != ""
}

// Reasons why a start waits.
const (
	WaitsForBackOff  = "BackOff"
	WaitsForVolumes  = "Volumes"
	WaitsForInstance = "Instance"
	// WaitsInExcludedNamespace is for a start that never comes in this namespace.
	WaitsInExcludedNamespace = "ExcludedNamespace"
)

// Decide says what to do about a situation. Whatever it says may be done twice.
func Decide(s Situation) Decision {
	d := Decision{Requests: slices.Clone(s.Requests), Failure: s.Failure}
	i := s.own()
	switch {
	case s.Deletion == LeavingInstance:
		return d
	case s.Deletion == WithInstance:
		if i != nil && !i.Deleting {
			d.Delete = i.UID
		}
		return d
	case s.Instance != nil && s.Instance.Whose == Orphan && !s.Instance.Deleting:
		d.Adopt = s.Instance.UID // the rest once it is ours
		return d
	}
	s.forget(&d)
	s.Requests = d.Requests
	s.count(&d)
	switch {
	case i == nil:
		s.absent(&d)
	case !i.Deleting:
		s.present(i, &d)
	}
	return d
}

// Undone is a decision of which the action could not be carried out: what asked
// for it goes on asking.
func Undone(s Situation, d Decision) Decision {
	d.Requests = s.Requests
	return d
}

// forget takes away requests that are done with, and starts that a machine
// which is halted since has no use for.
func (s *Situation) forget(d *Decision) {
	i := s.own()
	s.halt(d)
	for len(d.Requests) > 0 {
		switch r := d.Requests[0]; {
		case r.Action == kubevirtv1.StopRequest && !s.means(r, i):
		case r.Action == kubevirtv1.StartRequest && i.active():
		case r.Action != kubevirtv1.StopRequest && r.Action != kubevirtv1.StartRequest:
		default:
			return
		}
		d.Requests = d.Requests[1:]
	}
}

// halt drops starts from before the machine was halted. One that came since is a
// paused start, which is the only one that is requested of a halted machine.
func (s *Situation) halt(d *Decision) {
	if s.Strategy != kubevirtv1.RunStrategyHalted {
		return
	}
	since := s.Before == "" || s.Before == kubevirtv1.RunStrategyHalted
	d.Requests = slices.DeleteFunc(d.Requests, func(r Request) bool {
		return r.Action == kubevirtv1.StartRequest && (!since || !paused(r))
	})
}

// Wanted reports whether there shall be an instance where there is none, now or
// once it can be made.
func Wanted(s Situation) bool {
	d := Decision{Requests: slices.Clone(s.Requests)}
	s.forget(&d)
	s.Requests = d.Requests
	return s.wanted()
}

// restarts reports whether instances that end are made again.
func (s *Situation) restarts() bool {
	return s.Strategy == kubevirtv1.RunStrategyAlways || s.Strategy == kubevirtv1.RunStrategyRerunOnFailure
}

// count counts instances that ended before they ran, each once.
func (s *Situation) count(d *Decision) {
	i := s.own()
	switch {
	case !s.restarts() && s.Strategy != kubevirtv1.RunStrategyOnce, i != nil && i.Ran:
		d.Failure = nil
	case i != nil && i.Phase.Final() && !i.Deleting && (s.Failure == nil || s.Failure.LastFailedVMIUID != i.UID):
		d.Failure = failed(s.Failure, i.UID, s.Now)
	}
}

// absent decides where there is no instance of the machine's.
func (s *Situation) absent(d *Decision) {
	if !s.wanted() {
		return
	}
	switch left := s.backOff(); {
	case s.Excluded:
		d.Waits = WaitsInExcludedNamespace
	case s.Instance != nil: // of somebody else, or going
		d.Waits = WaitsForInstance
	case s.Strategy == kubevirtv1.RunStrategyHalted:
		d.Strategy = kubevirtv1.RunStrategyAlways // for the paused start that somebody asked for
	case left > 0 && s.restarts():
		d.Waits, d.After = WaitsForBackOff, left
	case s.Volumes != Filled:
		d.Waits = WaitsForVolumes
	default:
		d.Create = true
		if s.head() == kubevirtv1.StartRequest {
			d.Paused = paused(s.Requests[0])
			d.Requests = d.Requests[1:]
		}
	}
}

// wanted reports whether there shall be an instance where there is none.
func (s *Situation) wanted() bool {
	switch s.Strategy {
	case kubevirtv1.RunStrategyAlways, kubevirtv1.RunStrategyWaitAsReceiver:
		return true
	case kubevirtv1.RunStrategyRerunOnFailure, kubevirtv1.RunStrategyOnce:
		return s.head() == kubevirtv1.StartRequest || s.Before != s.Strategy
	case kubevirtv1.RunStrategyManual:
		return s.head() == kubevirtv1.StartRequest
	case kubevirtv1.RunStrategyHalted: // of which halt left paused starts only
		return s.head() == kubevirtv1.StartRequest
	}
	return false
}

// present decides about an instance of the machine's that nobody deletes yet.
func (s *Situation) present(i *Instance, d *Decision) {
	again := i.Phase.Final() && s.head() == kubevirtv1.StartRequest && !s.restarts() && contradiction(*s) == nil
	switch {
	case s.Strategy == kubevirtv1.RunStrategyHalted, s.stops(i), again:
		d.Delete, d.First = i.UID, i.Phase.Final()
	case i.Phase.Final() && s.restarts():
		d.Delete, d.First = i.UID, true
		if s.Strategy == kubevirtv1.RunStrategyRerunOnFailure && i.Phase == Failed && s.head() != kubevirtv1.StartRequest {
			d.Requests = append(d.Requests, Request{Action: kubevirtv1.StartRequest})
		}
	}
}
