package standin

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

var noon = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// an instance of node n in a phase that it entered at noon, with the finalizer
// unless nobody claimed it.
func an(node string, phase kubevirtv1.VirtualMachineInstancePhase) *kubevirtv1.VirtualMachineInstance {
	vmi := &kubevirtv1.VirtualMachineInstance{}
	vmi.Status.NodeName, vmi.Status.Phase = node, phase
	if node != "" {
		vmi.Finalizers = []string{Finalizer}
	}
	return vmi
}

func deleted(vmi *kubevirtv1.VirtualMachineInstance) *kubevirtv1.VirtualMachineInstance {
	vmi.DeletionTimestamp = &metav1.Time{Time: noon}
	return vmi
}

// told is a plan in short.
func told(in *kubevirtv1.VirtualMachineInstance, p plan) string {
	wait := ""
	if p.after > 0 {
		wait = "; again after " + p.after.String()
	}
	if p.write == nil {
		return "nothing" + wait
	}
	ready := "unknown"
	if c := condition(p.write, kubevirtv1.VirtualMachineInstanceReady); c != nil {
		ready = fmt.Sprint(c.Status, " ", c.Reason)
	}
	text := fmt.Sprintf("%q on %q, held %t, ready %s", p.write.Status.Phase, p.write.Status.NodeName, len(p.write.Finalizers) > 0, ready)
	if p.write.Status.Phase != in.Status.Phase && len(p.write.Status.PhaseTransitionTimestamps) != len(in.Status.PhaseTransitionTimestamps)+1 {
		text += ", transition not noted"
	}
	return text + wait
}

func TestDecide(t *testing.T) {
	const n = DefaultNode
	patient := Delays{Pending: time.Second, Scheduling: 2 * time.Second, Scheduled: 3 * time.Second, Life: 4 * time.Second, Shutdown: 5 * time.Second}
	tests := map[string]struct {
		reason    string
		vmi       *kubevirtv1.VirtualMachineInstance
		behaviour Behaviour
		delays    Delays
		after     time.Duration
		want      string
	}{
		"new":                      {"nobody runs it: claimed", an("", ""), Run, patient, 0, `"Pending" on "standin", held true, ready False GuestNotRunning`},
		"pending, of nobody":       {"a webhook may have set the phase", an("", "Pending"), Run, patient, 0, `"Pending" on "standin", held true, ready False GuestNotRunning`},
		"another's":                {"is another's", an("other", "Pending"), Run, Delays{}, 0, `nothing`},
		"another's, deleted":       {"is another's to end", deleted(an("other", "Running")), Run, Delays{}, 0, `nothing`},
		"another's, final":         {"the finalizer is another's too", an("other", "Failed"), Run, Delays{}, 0, `nothing`},
		"unclaimed, deleted":       {"goes without us", deleted(an("", "Pending")), Run, Delays{}, 0, `nothing`},
		"pending":                  {"lasts", an(n, "Pending"), Run, patient, 0, `nothing; again after 1s`},
		"pending, over":            {"", an(n, "Pending"), Run, patient, time.Second, `"Scheduling" on "standin", held true, ready unknown`},
		"scheduling, half":         {"", an(n, "Scheduling"), Run, patient, 500 * time.Millisecond, `nothing; again after 1.5s`},
		"scheduling, over":         {"", an(n, "Scheduling"), Run, patient, time.Hour, `"Scheduled" on "standin", held true, ready unknown`},
		"scheduled, over":          {"", an(n, "Scheduled"), Run, patient, 3 * time.Second, `"Running" on "standin", held true, ready True `},
		"running":                  {"for good", an(n, "Running"), Run, patient, time.Hour, `nothing`},
		"zero delays":              {"take no time", an(n, "Pending"), Run, Delays{}, 0, `"Scheduling" on "standin", held true, ready unknown`},
		"crash early":              {"where it would run", an(n, "Scheduled"), CrashEarly, Delays{}, 0, `"Failed" on "standin", held true, ready False PodNotExists`},
		"crash early, still early": {"", an(n, "Scheduling"), CrashEarly, Delays{}, 0, `"Scheduled" on "standin", held true, ready unknown`},
		"crash, alive":             {"", an(n, "Running"), Crash, patient, time.Second, `nothing; again after 3s`},
		"crash":                    {"", an(n, "Running"), Crash, patient, 4 * time.Second, `"Failed" on "standin", held true, ready False PodNotExists`},
		"shutdown":                 {"", an(n, "Running"), Shutdown, patient, 4 * time.Second, `"Succeeded" on "standin", held true, ready False PodNotExists`},
		"unschedulable":            {"without a node", an("", ""), Unschedulable, Delays{}, 0, `"Scheduling" on "", held false, ready False GuestNotRunning`},
		"claimed, unschedulable":   {"too late to tell", an(n, "Scheduling"), Unschedulable, Delays{}, 0, `"Scheduled" on "standin", held true, ready unknown`},
		"deleted, asked":           {"says so and waits", deleted(an(n, "Running")), Run, patient, 0, `"Running" on "standin", held true, ready False PodTerminating; again after 5s`},
		"deleted, over":            {"the guest shut down", deleted(an(n, "Running")), Run, patient, 5 * time.Second, `"Succeeded" on "standin", held true, ready False PodNotExists`},
		"deleted, at once":         {"", deleted(an(n, "Running")), Run, Delays{}, 0, `"Succeeded" on "standin", held true, ready False PodNotExists`},
		"deleted, hangs":           {"it has its grace", deleted(an(n, "Running")), Hang, Delays{}, 10 * time.Second, `"Running" on "standin", held true, ready False PodTerminating; again after 20s`},
		"deleted, hung":            {"it had its grace", deleted(an(n, "Running")), Hang, Delays{}, 30 * time.Second, `"Failed" on "standin", held true, ready False PodNotExists`},
		"deleted, too slow":        {"longer than its grace", deleted(an(n, "Running")), Run, Delays{Shutdown: time.Hour}, 30 * time.Second, `"Failed" on "standin", held true, ready False PodNotExists`},
		"deleted, early":           {"no guest to ask", deleted(an(n, "Scheduling")), Run, patient, 0, `"Failed" on "standin", held true, ready False PodNotExists`},
		"failed":                   {"nothing left to hold", an(n, "Failed"), Run, patient, 0, `"Failed" on "standin", held false, ready unknown`},
		"succeeded, deleted":       {"", deleted(an(n, "Succeeded")), Hang, patient, 0, `"Succeeded" on "standin", held false, ready unknown`},
		"not of this world":        {"a phase that is no node's", an(n, "WaitingForSync"), Run, Delays{}, 0, `nothing`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			o := Options{Delays: test.delays}
			o.complete()
			before := test.vmi.DeepCopy()
			got := told(test.vmi, o.decide(seen{vmi: test.vmi, behaviour: test.behaviour, since: noon, now: noon.Add(test.after)}))
			if got != test.want {
				t.Errorf("%s: got %s, want %s", test.reason, got, test.want)
			}
			if diff := cmp.Diff(before, test.vmi); diff != "" {
				t.Errorf("changed what it saw:\n%s", diff)
			}
		})
	}
}

// From wherever an instance is, and however it behaves, it gets to where it
// stays, once time goes by; deleted, it is let go of.
func TestEverythingEnds(t *testing.T) {
	phases := []kubevirtv1.VirtualMachineInstancePhase{"", "Pending", "Scheduling", "Scheduled", "Running", "Succeeded", "Failed"}
	o := Options{Delays: Delays{1, 1, 1, 1, 1}}
	o.complete()
	for _, phase := range phases {
		for _, node := range []string{"", o.Node} {
			for _, b := range Behaviours() {
				vmi := an(node, phase)
				live := settle(t, &o, vmi, b)
				gone := settle(t, &o, deleted(vmi), b)
				if len(gone.Finalizers) > 0 {
					t.Errorf("%q, %s: deleted, it is held in phase %s", phase, b, gone.Status.Phase)
				}
				rest := []kubevirtv1.VirtualMachineInstancePhase{"Running", "Succeeded", "Failed"}
				if b == Unschedulable && node == "" {
					rest = append(rest, "Scheduling")
				}
				if !slices.Contains(rest, live.Status.Phase) {
					t.Errorf("%q, %s: stays in phase %q", phase, b, live.Status.Phase)
				}
			}
		}
	}
}

// settle does what is decided until that is nothing.
func settle(t *testing.T, o *Options, vmi *kubevirtv1.VirtualMachineInstance, b Behaviour) *kubevirtv1.VirtualMachineInstance {
	t.Helper()
	for range 10 {
		p := o.decide(seen{vmi: vmi, behaviour: b, since: noon, now: noon.Add(time.Hour)})
		if p.write == nil {
			if p.after > 0 {
				t.Errorf("waits for %s after an hour", p.after)
			}
			return vmi
		}
		vmi = p.write
	}
	t.Fatalf("does not settle: %q, %s", vmi.Status.Phase, b)
	return nil
}
