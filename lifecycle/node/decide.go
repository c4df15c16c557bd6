package node

import (
	"time"

	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/lifecycle/node/libvirtd"
)

// Whose says which agent has claimed an instance.
type Whose string

// Claims of instances.
const (
	Nobodys Whose = "Nobodys"
	Ours    Whose = "Ours"
	Others  Whose = "Others"
)

// Owned says whose the domain is that has an instance's name.
type Owned string

// Owners of domains.
const (
	// None is no domain.
	None Owned = "None"
	// Own is the domain of this very instance.
	Own Owned = "Own"
	// Older is one of an instance that had the name before.
	Older Owned = "Older"
	// Elsewhere is the domain of this very instance, and the agent of a node of
	// another name has made it. It is never touched: nodes that share a host, or
	// an agent that was given a wrong name, must not end each other's guests.
	Elsewhere Owned = "Elsewhere"
	// Foreign is one that no agent has made, or one that the agent of another
	// node has made of another instance. It is never touched.
	Foreign Owned = "Foreign"
)

// A Situation is all that matters of an instance of a name, its domain and its
// files.
type Situation struct {
	// Exists says that there is an instance, or the rest is about one that is
	// gone.
	Exists bool
	Claim  Whose
	// Fits says that the instance may run here, and that this host is ready.
	Fits bool
	// Held says that our finalizer is on it.
	Held     bool
	Phase    kubevirtv1.VirtualMachineInstancePhase
	Deleting bool
	// Grace is what is left of the time that the guest of an instance that is
	// being deleted has to shut down.
	Grace time.Duration
	// Asked says that the guest was told lately to shut down.
	Asked bool
	// Power is what was asked for of the running guest and not done yet.
	Power v1alpha1.PowerAction
	// Late says that it was asked for so long ago that it is not wanted now.
	Late bool
	// StartsPaused says that the guest must not run until somebody resumes it.
	StartsPaused bool
	// Isolated says that the guest starts paused until its threads are placed,
	// and Released that it was let go since.
	Isolated, Released bool
	// ACPI says that the guest could be asked to shut down.
	ACPI bool

	Domain Owned
	State  libvirtd.State
	// Started says that the domain was told to start, so that its guest may have
	// run though libvirt does not know of it.
	Started bool
	// Files says that something was made for the instance.
	Files bool
}

// An Action is something that is done to a domain, its files or its instance.
type Action string

// Actions.
const (
	// Nothing is to be done.
	Nothing Action = ""
	// Claim takes the instance.
	Claim Action = "Claim"
	// Start makes files and domain, and starts it.
	Start Action = "Start"
	// Restore has a guest go on that libvirt has saved.
	Restore Action = "Restore"
	// Resume lets a guest run that was started paused.
	Resume Action = "Resume"
	// Ask tells the guest to shut down.
	Ask Action = "Ask"
	// Destroy ends the domain by force.
	Destroy Action = "Destroy"
	// Undefine forgets the domain.
	Undefine Action = "Undefine"
	// Clean removes what was made for the instance.
	Clean Action = "Clean"
	// Release takes the finalizer off.
	Release Action = "Release"
	// Power does to the running guest what was asked for.
	Power Action = "Power"
	// Expire notes as done what was asked for too long ago.
	Expire Action = "Expire"
	// Refuse leaves things as they are: the name is taken.
	Refuse Action = "Refuse"
	// Warn says that there is something here of an instance that others have.
	Warn Action = "Warn"
)

// Reasons why an instance ended, as status.reason and the condition Ready have
// them.
const (
	// ReasonShutdown is a guest that shut down.
	ReasonShutdown = "GuestShutdown"
	// ReasonCrashed is a guest, or its emulator, that crashed.
	ReasonCrashed = "GuestCrashed"
	// ReasonDestroyed is a guest that was ended by force.
	ReasonDestroyed = "GuestDestroyed"
	// ReasonLost is a domain that is gone, or that does not run any more, and
	// nobody saw why: the node was restarted, or somebody else removed it.
	ReasonLost = "DomainLost"
	// ReasonNeverRan is an instance that was deleted before it ran.
	ReasonNeverRan = "NeverRan"
)

// A Decision is what to do now, one thing, and what the instance's phase shall
// be. Whatever it says may be done twice.
type Decision struct {
	Do Action
	// Phase and Reason are what status shall say; an empty phase leaves it.
	Phase  kubevirtv1.VirtualMachineInstancePhase
	Reason string
	// After is when to look again without being told; zero means never.
	After time.Duration
}

// waits says whether what was decided, where it went wrong, is left alone for a
// while. Ends of guests are not.
func (d *Decision) waits() bool { return d.Do == Start || d.Do == Restore || d.Do == Power }

// again is how long a guest that was told to shut down, and does not, is left
// alone before it is told again: one that is booting does not hear.
const again = 10 * time.Second

// Decide says what to do about a situation.
func Decide(s Situation) Decision {
	switch {
	case s.Domain == Older:
		return s.takeDown()
	case !s.Exists:
		return s.vanish()
	case s.Claim == Others:
		return s.warn()
	case s.Claim == Nobodys:
		return s.unclaimed()
	case s.Deleting:
		return s.end()
	case s.final():
		return s.rest()
	}
	return s.run()
}

func (s *Situation) final() bool {
	return s.Phase == kubevirtv1.Succeeded || s.Phase == kubevirtv1.Failed
}

// takeDown ends a domain and forgets it.
func (s *Situation) takeDown() Decision {
	if s.State.Active() {
		return Decision{Do: Destroy}
	}
	return Decision{Do: Undefine}
}

// warn leaves what others have as it is, and says so where some of it is here.
func (s *Situation) warn() Decision {
	if s.Domain == Own || s.Domain == Elsewhere || s.Files {
		return Decision{Do: Warn}
	}
	return Decision{}
}

// vanish leaves nothing of an instance that is gone, or that ends unclaimed.
func (s *Situation) vanish() Decision {
	switch {
	case s.Domain == Own:
		return s.takeDown()
	case s.Files:
		return Decision{Do: Clean}
	}
	return Decision{}
}

// unclaimed claims what nobody runs.
func (s *Situation) unclaimed() Decision {
	fresh := s.Phase == kubevirtv1.VmPhaseUnset || s.Phase == kubevirtv1.Pending
	switch {
	case s.Deleting || s.final():
		return s.vanish()
	case fresh && s.Fits:
		return Decision{Do: Claim, Phase: kubevirtv1.Scheduled}
	}
	return Decision{}
}

// end ends an instance that is being deleted: its guest is asked, has its
// grace, and is then ended by force.
func (s *Situation) end() Decision {
	switch {
	case s.Domain == Elsewhere:
		return Decision{Do: Refuse}
	case s.Domain == Own && !s.State.Active():
		d := s.outcome()
		d.Do = Undefine
		return d
	case s.Domain == Own && (s.Grace <= 0 || s.State == libvirtd.Panicked || s.final()):
		return Decision{Do: Destroy}
	case s.Domain == Own && !s.Asked:
		return Decision{Do: Ask, After: min(s.Grace, again)}
	case s.Domain == Own:
		return Decision{After: min(s.Grace, again)}
	case s.Files:
		return Decision{Do: Clean}
	case s.Held:
		return s.release()
	}
	return Decision{}
}

// release lets an instance go of which nothing is left.
func (s *Situation) release() Decision {
	d := Decision{Do: Release}
	switch {
	case s.final():
	case s.Phase == kubevirtv1.Running:
		d.Phase, d.Reason = kubevirtv1.Failed, ReasonLost
	default:
		d.Phase, d.Reason = kubevirtv1.Failed, ReasonNeverRan
	}
	return d
}

// rest keeps no domain of an instance that has ended, unless a guest is saved
// in it. Its files stay, to be looked at, until it is deleted.
func (s *Situation) rest() Decision {
	if s.Domain == Own && s.State != libvirtd.Saved {
		return s.takeDown()
	}
	return Decision{}
}

// run has the guest run, and follows it.
func (s *Situation) run() Decision {
	switch {
	case s.Domain == Foreign, s.Domain == Elsewhere:
		return Decision{Do: Refuse}
	case s.Domain == Own && s.State.Active() && s.State != libvirtd.Panicked:
		return s.follow()
	case s.Domain == Own && s.State == libvirtd.Saved:
		return Decision{Do: Restore}
	case s.Domain == Own && s.ended():
		return s.outcome()
	case s.ran():
		return Decision{Phase: kubevirtv1.Failed, Reason: ReasonLost}
	}
	return Decision{Do: Start}
}

// ran says whether the guest may have run before.
func (s *Situation) ran() bool {
	return s.Phase == kubevirtv1.Running || s.Domain == Own && s.Started
}

// ended says whether libvirt knows that the domain ran and how it ended.
func (s *Situation) ended() bool {
	return s.State != libvirtd.Off && s.State != libvirtd.NotStarted
}

// follow does what is to be done about a guest that runs.
func (s *Situation) follow() Decision {
	d := Decision{}
	if s.Phase != kubevirtv1.Running {
		d.Phase = kubevirtv1.Running
	}
	switch {
	case s.State == libvirtd.Paused && s.Isolated && !s.Released && !s.StartsPaused:
		d.Do = Resume
	case s.Power != "" && s.Late:
		d.Do = Expire
	case s.Power != "":
		d.Do = Power
	}
	return d
}

// outcome is how an instance ended whose domain does not run any more, by
// KubeVirt's rules. Final phases never change.
func (s *Situation) outcome() Decision {
	d := Decision{Phase: kubevirtv1.Failed}
	switch s.State {
	case libvirtd.Shutdown:
		d.Phase, d.Reason = kubevirtv1.Succeeded, ReasonShutdown
	case libvirtd.Destroyed, libvirtd.Saved:
		d.Reason = ReasonDestroyed
		if !s.ACPI {
			d.Phase = kubevirtv1.Succeeded // it could not be asked
		}
	case libvirtd.Crashed, libvirtd.Panicked:
		d.Reason = ReasonCrashed
	default:
		if d.Reason = ReasonNeverRan; s.ran() {
			d.Reason = ReasonLost
		}
	}
	if s.final() {
		return Decision{}
	}
	return d
}
