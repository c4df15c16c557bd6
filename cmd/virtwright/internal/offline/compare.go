package offline

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	kjson "sigs.k8s.io/json"

	"github.com/virtwright/virtwright/cmd/virtwright/internal/manifest"
	"github.com/virtwright/virtwright/fleet"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/webhooks"
)

// A Comparison compares what two sets of presets make of the same machines.
type Comparison struct {
	// Before and After are all objects, with the old and with the new presets.
	Before, After []manifest.Object
	Settings      Settings
	// Namespace and Selector choose the machines that are compared; empty and nil choose all.
	Namespace string
	Selector  labels.Selector
	// Visit, if set, is called with each machine that changes, in their order.
	Visit func(Compared)
	// Progress, if set, is called after each machine.
	Progress func(done, total int)
	// Notes tell what was left out.
	Notes []string
}

// Compared is a machine that changes.
type Compared struct {
	Machine
	fleet.Difference
	// Before and After are its JSON as stored; nil where it is refused.
	Before, After []byte
}

// Plan compares. A machine that a cluster has stored is compared after a reapply, others as if
// they were created: each after those before it. Instances that a cluster has stored never change,
// and are left out.
func (x *Comparison) Plan(ctx context.Context) (*fleet.Plan, error) {
	x.Settings.Reapply = true
	before, err := x.cluster(ctx, x.Before, true)
	if err != nil {
		return nil, err
	}
	after, err := x.cluster(ctx, x.After, false)
	if err != nil {
		return nil, err
	}
	x.leaveOut(before)
	x.Notes = slices.Concat(x.Notes, before.Notes, x.leaveOut(after), after.Notes, after.Unlabelled())
	slices.Sort(x.Notes)
	x.Notes = slices.Compact(x.Notes)
	plan := fleet.NewPlan(ctx, before.snapshot, after.snapshot)
	live := x.Settings.Rules.Addon && !x.Settings.Rules.NoLiveUpdate
	// Each side has its own order, because each has its own machines before.
	old, stop := iter.Pull(before.judgedMachines(ctx))
	defer stop()
	done := 0
	for is := range after.judgedMachines(ctx) {
		was, _ := old()
		if err := cmp.Or(was.err, is.err, ctx.Err()); err != nil {
			return nil, err
		}
		c := Compared{is.machine, fleet.Compare(was.outcome, is.outcome, live), was.raw, is.raw}
		plan.Add(c.Namespace+"/"+c.Name, c.isRunning(), c.Difference)
		if x.Visit != nil && !c.Empty() {
			x.Visit(c)
		}
		if done++; x.Progress != nil {
			x.Progress(done, len(after.Machines))
		}
	}
	plan.Finish()
	return plan, nil
}

// cluster sorts the objects of one side. A preset of the old side that is invalid does not act, and
// a note says so.
func (x *Comparison) cluster(ctx context.Context, objects []manifest.Object, old bool) (*Cluster, error) {
	entries, left, err := sorted(objects, true)
	if err != nil {
		return nil, err
	}
	c := newCluster(x.Settings)
	for _, l := range left {
		c.Notes = append(c.Notes, l.String())
	}
	problems := c.fill(ctx, entries)
	for i, err := range problems {
		refusal, ok := errors.AsType[*Refusal](err)
		switch {
		case ok && refusal.Stored:
			c.Notes, problems[i] = append(c.Notes, refusal.inactive()), nil
		case ok && old && entries[i].role != machine:
			c.Notes, problems[i] = append(c.Notes, refusal.leftOut()), nil
		}
	}
	at := map[string]manifest.Position{}
	for _, m := range c.Machines {
		if first, again := at[m.String()]; again && !unnamed(m.Name) {
			problems = append(problems, m.refused([]Problem{existsAlready(first)}))
		}
		at[m.String()] = m.Where
		if m.isStored() {
			c.others.store(m)
		}
	}
	return c, errors.Join(problems...)
}

// leaveOut removes the machines that are not compared, and says which of them a user may expect.
func (x *Comparison) leaveOut(c *Cluster) (notes []string) {
	excluded, inactive, unselected := webhooks.ExcludedNamespaces(managerNamespace), 0, 0
	c.Machines = slices.DeleteFunc(c.Machines, func(m Machine) bool {
		switch {
		case m.Kind == presets.VirtualMachineInstance && m.isStored():
			return true
		case x.Namespace != "" && m.Namespace != x.Namespace, x.Selector != nil && !x.Selector.Matches(labels.Set(m.entry.meta.Labels)):
			unselected++
			return true
		case slices.Contains(excluded, m.Namespace):
			inactive++
			return true
		}
		return false
	})
	if inactive > 0 {
		notes = append(notes, fmt.Sprintf("presets do not act in namespaces %s: left out %d VMs", strings.Join(excluded, " and "), inactive))
	}
	if unselected > 0 {
		notes = append(notes, fmt.Sprintf("-n and -l do not select %d VMs of -f: left out", unselected))
	}
	return notes
}

// A judgedMachine is what the presets of a cluster make of a machine.
type judgedMachine struct {
	machine Machine
	outcome fleet.Outcome
	// raw is its JSON as stored; nil where it is refused.
	raw []byte
	err error
}

// judgedMachines yields what becomes of each machine, in order.
func (c *Cluster) judgedMachines(ctx context.Context) iter.Seq[judgedMachine] {
	return InOrder(ctx, slices.Values(c.Machines), func(ctx context.Context, m Machine) judgedMachine {
		outcome, raw, err := c.outcome(ctx, m)
		return judgedMachine{m, outcome, raw, err}
	})
}

// outcome is what the presets make of a machine, and its JSON as it would be stored.
func (c *Cluster) outcome(ctx context.Context, m Machine) (fleet.Outcome, []byte, error) {
	var out fleet.Outcome
	raw, warnings, err := c.stored(ctx, m)
	if refusal, ok := errors.AsType[*Refusal](err); ok {
		for _, p := range refusal.Problems {
			out.Problems = append(out.Problems, p.String())
		}
		return out, nil, nil
	}
	if err != nil {
		return out, nil, err
	}
	request := c.request(ctx, m)
	request.Object = raw
	stored, err := presets.ExplainStored(request)
	if err != nil {
		return out, nil, m.refusal(err)
	}
	out.Warnings = warnings
	out.Fields = slices.DeleteFunc(stored.Fields, func(o presets.Origin) bool { return m.isOfServer(o.Path) })
	if err := c.addLaunched(ctx, m, raw, &out); err != nil || !m.isStored() {
		return out, raw, err
	}
	object, err := m.decode(raw)
	if err != nil {
		return out, nil, err
	}
	m.withoutReapply(object)
	raw, err = json.Marshal(object)
	return out, raw, err
}

// addLaunched adds the fields that presets give the VMI of a VM at its next start.
func (c *Cluster) addLaunched(ctx context.Context, m Machine, raw []byte, out *fleet.Outcome) error {
	if m.Kind != presets.VirtualMachine || !c.snapshot.Launches() {
		return nil
	}
	request := c.request(ctx, m)
	request.Object = raw
	vmi, err := c.settings.Engine.Launch(ctx, c.snapshot, request)
	if refusal, ok := errors.AsType[*presets.Refusal](err); ok {
		for _, p := range problemsOf(refusal.Problems) {
			out.Warnings = append(out.Warnings, "the VM could not start: "+p.String())
		}
		return nil
	}
	if err != nil {
		return m.refusal(err)
	}
	launched, err := presets.ExplainStored(presets.Request{Kind: presets.VirtualMachineInstance, Object: vmi, Namespace: request.Namespace})
	if err != nil {
		return m.refusal(err)
	}
	at := make(map[string]int, len(out.Fields))
	for i, o := range out.Fields {
		at[o.Path.String()] = i
	}
	for _, o := range launched.Fields {
		switch i, stored := at[o.Path.String()]; {
		case o.By.Preset == "" || o.By.Role == provenance.Platform:
		case stored:
			out.Fields[i] = o
		default:
			out.Fields = append(out.Fields, o)
		}
	}
	return nil
}

// isRunning reports whether the VM has a VMI, as far as its status says.
func (m Machine) isRunning() bool {
	var stored struct {
		Status struct {
			Created bool `json:"created"`
		} `json:"status"`
	}
	return kjson.UnmarshalCaseSensitivePreserveInts(m.JSON, &stored) == nil && stored.Status.Created
}
