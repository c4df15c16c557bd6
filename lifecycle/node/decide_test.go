package node

import (
	"fmt"
	"testing"
	"time"

	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/lifecycle/node/libvirtd"
)

var (
	claims = []Whose{Nobodys, Ours, Others}
	phases = []kubevirtv1.VirtualMachineInstancePhase{
		kubevirtv1.VmPhaseUnset, kubevirtv1.Pending, kubevirtv1.Scheduling, kubevirtv1.Scheduled, kubevirtv1.Running, kubevirtv1.Succeeded, kubevirtv1.Failed, kubevirtv1.Unknown,
	}
	owners = []Owned{None, Own, Older, Elsewhere, Foreign}
	states = []libvirtd.State{
		libvirtd.Off, libvirtd.Running, libvirtd.Paused, libvirtd.Panicked, libvirtd.Saved, libvirtd.Shutdown, libvirtd.Destroyed, libvirtd.Crashed, libvirtd.NotStarted,
	}
	powers = []v1alpha1.PowerAction{"", v1alpha1.PowerReset, v1alpha1.PowerSoftReboot}
)

// situations are all that there can be.
func situations(yield func(Situation) bool) {
	for _, claim := range claims {
		for _, phase := range phases {
			for _, owner := range owners {
				for _, state := range states {
					for bits := range 1 << 11 {
						is := func(bit int) bool { return bits&(1<<bit) != 0 }
						s := Situation{
							Exists: is(0), Claim: claim, Fits: is(1), Held: is(2), Phase: phase, Deleting: is(3), Asked: is(4), Files: is(5),
							StartsPaused: is(6), Isolated: is(7), Released: is(8), ACPI: is(9), Started: is(10), Domain: owner, State: state, Grace: 30 * time.Second,
						}
						for _, power := range powers {
							s.Power = power
							if !yield(s) {
								return
							}
						}
						s.Late = true
						if !yield(s) {
							return
						}
						s.Late, s.Power, s.Grace = false, "", -time.Second
						if !yield(s) {
							return
						}
					}
				}
			}
		}
	}
}

// What must never be decided, whatever the situation.
func TestInvariants(t *testing.T) {
	tried := 0
	for s := range situations {
		tried++
		if problem := violated(s, Decide(s)); problem != "" {
			t.Fatalf("%s:\n%+v\n%+v", problem, s, Decide(s))
		}
	}
	if tried < 3_000_000 {
		t.Errorf("tried only %d situations", tried)
	}
}

// violated names an invariant that does not hold.
func violated(s Situation, d Decision) string {
	final := s.Phase == kubevirtv1.Succeeded || s.Phase == kubevirtv1.Failed
	ours := s.Exists && s.Claim == Ours
	ends := d.Do == Destroy || d.Do == Undefine
	switch {
	case d.Do != Nothing && d.Do != Claim && d.Do != Clean && d.Do != Release && d.Do != Start && d.Do != Refuse && d.Do != Warn && (s.Domain == None || s.Domain == Elsewhere || s.Domain == Foreign):
		return "touches a domain that is not there, or somebody else's"
	case s.Exists && s.Claim == Others && d.Do != Nothing && d.Do != Warn && (s.Domain != Older || !ends):
		return "touches something of an instance that others have"
	case d.Do == Release && s.Domain == Elsewhere:
		return "lets go of an instance whose guest may run"
	case d.Do == Start && (!ours || s.Deleting || final || s.Phase == kubevirtv1.Running):
		return "starts what shall not run, or has run"
	case d.Do == Start && s.Domain != None && (s.Domain != Own || s.State.Active()):
		return "starts a second domain"
	case d.Do == Start && s.Domain == Own && s.State != libvirtd.Off && s.State != libvirtd.NotStarted:
		return "starts again what has ended"
	case d.Do == Start && s.Domain == Own && s.Started:
		return "starts again what may have run"
	case d.Do == Restore && (!ours || s.Deleting || final || s.Domain != Own || s.State != libvirtd.Saved):
		return "restores what shall not run"
	case d.Do == Undefine && s.Domain == Own && s.State == libvirtd.Saved && s.Exists && s.Claim == Ours && !s.Deleting:
		return "forgets a guest that is saved"
	case d.Do == Claim && (!s.Exists || s.Claim != Nobodys || !s.Fits || s.Deleting || final):
		return "claims what it may not"
	case d.Phase != "" && d.Do != Claim && !ours:
		return "writes the status of what is not ours"
	case d.Phase != "" && final:
		return "changes a final phase"
	case d.Do == Release && (!ours || !s.Deleting || s.Domain == Own || s.Domain == Older || s.Files):
		return "lets go while something is left"
	case ends && s.Domain == Own && ours && !s.Deleting && !final:
		return "ends a guest that shall run"
	case ends && s.Domain == Own && ours && s.Deleting && !final && s.Grace > 0 && (s.State == libvirtd.Running || s.State == libvirtd.Paused):
		return "takes a guest's grace away"
	case d.Do == Undefine && s.State.Active():
		return "forgets a domain that runs"
	case d.Do == Clean && (s.Domain == Own || ours && !s.Deleting):
		return "takes files from under a guest"
	case d.Do == Power && (!ours || s.Deleting || final || s.Power == "" || !s.State.Active()):
		return "resets what does not run"
	case (d.Do == Power) == s.Late && (d.Do == Power || d.Do == Expire):
		return "does what was asked for long ago, or leaves what is asked for now"
	case d.Do == Resume && (s.StartsPaused || s.Released || !s.Isolated):
		return "resumes what somebody paused"
	}
	return ""
}

// act is what the world makes of a decision, at its best.
func act(s Situation, d Decision) (next Situation, exists bool) {
	if d.Phase != "" {
		s.Phase = d.Phase
	}
	switch d.Do {
	case Claim:
		s.Claim, s.Held = Ours, true
	case Start:
		s.Domain, s.State, s.Files, s.Started = Own, libvirtd.Running, true, true
		if s.StartsPaused || s.Isolated {
			s.State = libvirtd.Paused
		}
	case Restore:
		s.State = libvirtd.Running
	case Resume:
		s.State, s.Released = libvirtd.Running, true
	case Ask:
		s.State, s.Asked = libvirtd.Shutdown, true
	case Destroy:
		s.State = libvirtd.Destroyed
	case Undefine:
		s.Domain = None
	case Clean:
		s.Files = false
	case Release:
		s.Held = false
		return s, false
	case Power, Expire:
		s.Power = ""
	case Nothing:
		if d.After > 0 { // the guest has not heard, and time goes by
			s.Asked, s.Grace = false, -time.Second
		}
	}
	return s, true
}

// From everywhere, where things go as they should, the agent gets to where it
// rests in a few steps, and there it is as it shall be.
func TestArrives(t *testing.T) {
	for begin := range situations {
		s, exists := begin, true
		for range steps {
			d := Decide(s)
			if d.Do == Nothing && d.Phase == "" && d.After == 0 || d.Do == Refuse || d.Do == Warn {
				break
			}
			if s, exists = act(s, d); !exists {
				break
			}
		}
		if problem := unfinished(s, exists); problem != "" {
			t.Fatalf("%s:\nfrom %+v\nto   %+v", problem, begin, s)
		}
	}
}

func unfinished(s Situation, exists bool) string {
	final := s.Phase == kubevirtv1.Succeeded || s.Phase == kubevirtv1.Failed
	ours, ownRuns := s.Exists && s.Claim == Ours, s.Domain == Own && s.State.Active()
	switch {
	case !exists:
		return ""
	case s.Domain == Older:
		return "an older domain is left"
	case s.Exists && s.Claim == Others:
	case !s.Exists:
		if s.Domain == Own || s.Files {
			return "something is left of what is not ours"
		}
	case s.Domain == Elsewhere:
	case ours && s.Deleting && (s.Held || s.Files || s.Domain == Own):
		return "an instance that goes is held"
	case ours && !s.Deleting && final && s.Domain == Own && s.State != libvirtd.Saved:
		return "a domain is left of what has ended"
	case ours && !s.Deleting && !final && s.Domain != Foreign && !ownRuns:
		return "a guest does not run that shall"
	case ours && !s.Deleting && ownRuns && s.Phase != kubevirtv1.Running:
		return "a guest runs and nobody knows"
	}
	return ""
}

func TestDecide(t *testing.T) {
	running := Situation{Exists: true, Claim: Ours, Held: true, Phase: kubevirtv1.Running, Domain: Own, State: libvirtd.Running, Files: true, ACPI: true, Grace: time.Minute}
	with := func(change func(*Situation)) Situation {
		s := running
		change(&s)
		return s
	}
	for name, row := range map[string]struct {
		reason string
		in     Situation
		want   string
	}{
		"new":                      {"", Situation{Exists: true, Claim: Nobodys, Fits: true}, "Claim, Scheduled"},
		"new, fits elsewhere":      {"", Situation{Exists: true, Claim: Nobodys}, "nothing"},
		"claimed":                  {"", Situation{Exists: true, Claim: Ours, Phase: kubevirtv1.Scheduled, Domain: None}, "Start"},
		"defined":                  {"the agent was killed in between", Situation{Exists: true, Claim: Ours, Phase: kubevirtv1.Scheduled, Domain: Own, State: libvirtd.Off}, "Start"},
		"could not be started":     {"it is tried again", Situation{Exists: true, Claim: Ours, Phase: kubevirtv1.Scheduled, Domain: Own, State: libvirtd.NotStarted}, "Start"},
		"told to start, and off":   {"libvirtd was restarted before anybody saw how it ended", Situation{Exists: true, Claim: Ours, Phase: kubevirtv1.Scheduled, Domain: Own, State: libvirtd.Off, Started: true}, "nothing, Failed DomainLost"},
		"started":                  {"", with(func(s *Situation) { s.Phase = kubevirtv1.Scheduled }), "nothing, Running"},
		"running":                  {"", running, "nothing"},
		"paused":                   {"is running, by KubeVirt's rule", with(func(s *Situation) { s.State = libvirtd.Paused }), "nothing"},
		"threads placed":           {"", with(func(s *Situation) { s.State, s.Isolated = libvirtd.Paused, true }), "Resume"},
		"paused later":             {"stays paused", with(func(s *Situation) { s.State, s.Isolated, s.Released = libvirtd.Paused, true, true }), "nothing"},
		"reset":                    {"", with(func(s *Situation) { s.Power = v1alpha1.PowerReset }), "Power"},
		"reset, long ago":          {"the agent was away", with(func(s *Situation) { s.Power, s.Late = v1alpha1.PowerReset, true }), "Expire"},
		"the guest shut down":      {"", with(func(s *Situation) { s.State = libvirtd.Shutdown }), "nothing, Succeeded GuestShutdown"},
		"somebody saved the guest": {"it has not ended", with(func(s *Situation) { s.State = libvirtd.Saved }), "Restore"},
		"saved before it was told": {"", with(func(s *Situation) { s.State, s.Phase, s.Started = libvirtd.Saved, kubevirtv1.Scheduled, true }), "Restore"},
		"saved, and deleted":       {"", with(func(s *Situation) { s.State, s.Deleting = libvirtd.Saved, true }), "Undefine, Failed GuestDestroyed"},
		"saved, and has ended":     {"it is kept to be looked at", with(func(s *Situation) { s.State, s.Phase = libvirtd.Saved, kubevirtv1.Failed }), "nothing"},
		"the guest crashed":        {"", with(func(s *Situation) { s.State = libvirtd.Crashed }), "nothing, Failed GuestCrashed"},
		"it panicked and is kept":  {"", with(func(s *Situation) { s.State = libvirtd.Panicked }), "nothing, Failed GuestCrashed"},
		"somebody destroyed it":    {"it could have been asked", with(func(s *Situation) { s.State = libvirtd.Destroyed }), "nothing, Failed GuestDestroyed"},
		"destroyed, no ACPI":       {"it could not be asked", with(func(s *Situation) { s.State, s.ACPI = libvirtd.Destroyed, false }), "nothing, Succeeded GuestDestroyed"},
		"the host was restarted":   {"nobody saw how it ended", with(func(s *Situation) { s.State = libvirtd.Off }), "nothing, Failed DomainLost"},
		"somebody undefined it":    {"", with(func(s *Situation) { s.Domain = None }), "nothing, Failed DomainLost"},
		"the name is taken":        {"", Situation{Exists: true, Claim: Ours, Phase: kubevirtv1.Scheduled, Domain: Foreign, State: libvirtd.Running}, "Refuse"},
		"an older one is there":    {"it goes first", Situation{Exists: true, Claim: Ours, Phase: kubevirtv1.Scheduled, Domain: Older, State: libvirtd.Running}, "Destroy"},
		"an older one, ended":      {"", Situation{Exists: true, Claim: Nobodys, Fits: true, Domain: Older, State: libvirtd.Destroyed}, "Undefine"},
		"deleted":                  {"it is asked", with(func(s *Situation) { s.Deleting = true }), "Ask, again after 10s"},
		"deleted, little grace":    {"", with(func(s *Situation) { s.Deleting, s.Grace = true, 3*time.Second }), "Ask, again after 3s"},
		"deleted, asked":           {"it has its grace", with(func(s *Situation) { s.Deleting, s.Asked = true, true }), "nothing, again after 10s"},
		"deleted, no grace left":   {"", with(func(s *Situation) { s.Deleting, s.Asked, s.Grace = true, true, 0 }), "Destroy"},
		"deleted, shut down":       {"its phase is told before nothing can be known", with(func(s *Situation) { s.Deleting, s.State = true, libvirtd.Shutdown }), "Undefine, Succeeded GuestShutdown"},
		"deleted, forgotten":       {"", with(func(s *Situation) { s.Deleting, s.Domain = true, None }), "Clean"},
		"deleted, nothing left":    {"", with(func(s *Situation) { s.Deleting, s.Domain, s.Files, s.Phase = true, None, false, kubevirtv1.Succeeded }), "Release"},
		"deleted before it ran":    {"", Situation{Exists: true, Claim: Ours, Held: true, Phase: kubevirtv1.Scheduled, Deleting: true, Domain: None}, "Release, Failed NeverRan"},
		"deleted, the name taken":  {"what is not ours stays", Situation{Exists: true, Claim: Ours, Held: true, Phase: kubevirtv1.Scheduled, Deleting: true, Domain: Foreign, State: libvirtd.Running}, "Release, Failed NeverRan"},
		"ended":                    {"its files are kept", with(func(s *Situation) { s.Phase, s.Domain = kubevirtv1.Failed, None }), "nothing"},
		"ended, kept panicked":     {"", with(func(s *Situation) { s.Phase, s.State = kubevirtv1.Failed, libvirtd.Panicked }), "Destroy"},
		"gone":                     {"while the agent was away", Situation{Domain: Older, State: libvirtd.Running}, "Destroy"},
		"another node's, and here": {"this agent may have a wrong name", with(func(s *Situation) { s.Claim = Others }), "Warn"},
		"another node's, files":    {"or share a folder", Situation{Exists: true, Claim: Others, Phase: kubevirtv1.Failed, Deleting: true, Domain: None, Files: true}, "Warn"},
		"another node's, an older": {"that one was ours", Situation{Exists: true, Claim: Others, Phase: kubevirtv1.Running, Domain: Older, State: libvirtd.Running}, "Destroy"},
		"another agent's domain":   {"", Situation{Exists: true, Claim: Ours, Phase: kubevirtv1.Scheduled, Domain: Elsewhere, State: libvirtd.Running}, "Refuse"},
		"deleted, another agent's": {"its guest may run", with(func(s *Situation) { s.Deleting, s.Domain = true, Elsewhere }), "Refuse"},
		"another node's":           {"", Situation{Exists: true, Claim: Others, Phase: kubevirtv1.Running, Domain: None}, "nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			d := Decide(row.in)
			got := string(d.Do)
			if got == "" {
				got = "nothing"
			}
			if d.Phase != "" {
				got += ", " + string(d.Phase)
			}
			if d.Reason != "" {
				got += " " + d.Reason
			}
			if d.After > 0 {
				got += fmt.Sprint(", again after ", d.After)
			}
			if got != row.want {
				t.Errorf("%s: got %q, want %q", row.reason, got, row.want)
			}
		})
	}
}
