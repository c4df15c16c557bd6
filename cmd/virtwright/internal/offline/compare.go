package offline

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"slices"
	"sync"

	kjson "sigs.k8s.io/json"

	"github.com/virtwright/virtwright/cmd/virtwright/internal/manifest"
	"github.com/virtwright/virtwright/fleet"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/provenance"
)

// A Comparison compares what two sets of presets make of the same machines.
type Comparison struct {
	// Before and After are all objects, with the old and with the new presets.
	Before, After []manifest.Object
	Settings      Settings
	// Visit, if set, is called with each machine that changes, in no order, one at a time.
	Visit func(Compared)
	// Progress, if set, is called after each machine, one at a time.
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
// they were created. Instances that a cluster has stored never change, and are left out.
func (x *Comparison) Plan(ctx context.Context) (*fleet.Plan, error) {
	x.Settings.Reapply = true
	before, err := x.workers(ctx, x.Before)
	if err != nil {
		return nil, err
	}
	after, err := x.workers(ctx, x.After)
	if err != nil {
		return nil, err
	}
	plan := fleet.NewPlan(ctx, before[0].snapshot, after[0].snapshot)
	x.Notes = slices.Concat(after[0].Notes, after[0].Unlabelled())
	total, done := 0, 0
	for _, c := range after {
		total += len(c.Machines)
	}
	var mu sync.Mutex
	var wait sync.WaitGroup
	problems := make([]error, len(after))
	for i := range after {
		wait.Go(func() {
			problems[i] = x.compare(ctx, before[i], after[i], func(m Machine, c *Compared) {
				mu.Lock()
				defer mu.Unlock()
				done++
				plan.Add(m.Namespace+"/"+m.Name, m.isRunning(), c.Difference)
				if x.Visit != nil && !c.Empty() {
					x.Visit(*c)
				}
				if x.Progress != nil {
					x.Progress(done, total)
				}
			})
		})
	}
	wait.Wait()
	plan.Finish()
	return plan, errors.Join(problems...)
}

// workers returns one cluster for each core, with all presets and a part of the machines.
func (x *Comparison) workers(ctx context.Context, objects []manifest.Object) ([]*Cluster, error) {
	parts := make([][]manifest.Object, runtime.GOMAXPROCS(0))
	next := 0
	for _, o := range objects {
		_, role := identify(o, x.Settings.Namespace)
		switch {
		case role != machine:
			for i := range parts {
				parts[i] = append(parts[i], o)
			}
		default:
			parts[next%len(parts)] = append(parts[next%len(parts)], o)
			next++
		}
	}
	out := make([]*Cluster, 0, len(parts))
	for i := range parts {
		c, err := NewCluster(ctx, parts[i], x.Settings)
		if err != nil {
			return nil, err
		}
		c.Machines = slices.DeleteFunc(c.Machines, func(m Machine) bool {
			return m.Kind == presets.VirtualMachineInstance && m.isStored()
		})
		out = append(out, c)
	}
	return out, nil
}

// compare compares the machines of two clusters, which have the same ones in the same order.
func (x *Comparison) compare(ctx context.Context, before, after *Cluster, add func(Machine, *Compared)) error {
	live := x.Settings.Rules.Addon && !x.Settings.Rules.NoLiveUpdate
	for i, m := range after.Machines {
		was, old, err := before.outcome(ctx, before.Machines[i])
		if err != nil {
			return err
		}
		is, now, err := after.outcome(ctx, m)
		if err != nil {
			return err
		}
		add(m, &Compared{m, fleet.Compare(was, is, live), old, now})
	}
	return nil
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
