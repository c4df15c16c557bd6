package simulate

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

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/fleet"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/simulate/manifest"
	"github.com/virtwright/virtwright/webhooks"
)

// A Comparison compares the effects of two sets of presets on the same VMs.
type Comparison struct {
	// Before and After are all objects, with the old and with the new presets.
	Before, After []manifest.Object
	Settings      Settings
	// Namespace and Selector select the VMs to compare; empty and nil select all.
	Namespace string
	Selector  labels.Selector
	// Visit, if set, is called in order with each VM that changes.
	Visit func(Compared)
	// ProposedRollout is for the changed presets, after Plan; nil if none needs it.
	ProposedRollout *ProposedRollout
	// Progress, if set, is called after each VM.
	Progress func(done, total int)
	// Notes name objects that are not compared.
	Notes []string
}

// Compared is a VM that changes.
type Compared struct {
	VM
	fleet.Difference
	// Before and After are the stored JSON; nil if the VM is rejected.
	Before, After []byte
}

// Plan compares VMs. A stored VM is compared after a reapply. Other VMs are compared as if they
// were created in order. Stored VMIs never change and are left out.
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
	x.Notes = slices.Concat(x.Notes, before.Notes, x.leaveOut(after), after.Notes, after.Unlabelled(nil))
	slices.Sort(x.Notes)
	x.Notes = slices.Compact(x.Notes)
	plan := fleet.NewPlan(ctx, before.snapshot, after.snapshot)
	plan.CompareNamespaces(before.knownNamespaces(), after.knownNamespaces())
	plan.ComparePolicies(before.bound, after.bound)
	updates := x.Settings.updates()
	// each side validates its own VMs in order
	old, stop := iter.Pull(before.outcomes(ctx))
	defer stop()
	waves := after.waves(plan)
	x.ProposedRollout = after.propose(plan)
	done := 0
	for is := range after.outcomes(ctx) {
		was, _ := old()
		if err := cmp.Or(was.err, is.err, ctx.Err()); err != nil {
			return nil, err
		}
		c := Compared{is.vm, fleet.Compare(was.outcome, is.outcome, updates), was.raw, is.raw}
		plan.Add(c.Namespace+"/"+c.Name, c.isRunning(), c.Difference)
		for _, w := range waves {
			w.add(after, c)
		}
		x.ProposedRollout.add(after, c)
		if x.Visit != nil && !c.Empty() {
			x.Visit(c)
		}
		if done++; x.Progress != nil {
			x.Progress(done, len(after.VMs))
		}
	}
	if x.ProposedRollout != nil {
		slices.Sort(x.ProposedRollout.Percentiles)
	}
	plan.Finish()
	return plan, nil
}

func (x *Comparison) cluster(ctx context.Context, objects []manifest.Object, old bool) (*Cluster, error) {
	c, err := buildCluster(ctx, objects, x.Settings, old)
	if c == nil {
		return nil, err
	}
	problems := []error{err}
	for _, m := range c.VMs {
		problems = append(problems, c.duplicate(m))
		if m.isStored() {
			c.existing.store(m)
		}
	}
	return c, errors.Join(problems...)
}

// leaveOut removes VMs that are not compared, with notes about unexpected ones.
func (x *Comparison) leaveOut(c *Cluster) (notes []string) {
	excluded, inactive, unselected := webhooks.ExcludedNamespaces(managerNamespace), 0, 0
	c.VMs = slices.DeleteFunc(c.VMs, func(m VM) bool {
		switch {
		case m.Kind == presets.VirtualMachineInstance && m.isStored(), m.entry.meta.DeletionTimestamp != nil:
			return true // presets do not act on them
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
		notes = append(notes, fmt.Sprintf("presets are not applied in namespaces %s: ignored %d VMs", strings.Join(excluded, " and "), inactive))
	}
	if unselected > 0 {
		notes = append(notes, fmt.Sprintf("-n and -l do not select %d VMs of -f: ignored", unselected))
	}
	return notes
}

func (c *Cluster) knownNamespaces() map[string]presets.Namespace {
	out := make(map[string]presets.Namespace, len(c.namespaces))
	for name := range c.namespaces {
		out[name] = c.namespace(name)
	}
	return out
}

type vmOutcome struct {
	vm      VM
	outcome fleet.Outcome
	// raw is the stored JSON; nil if the VM is rejected.
	raw []byte
	err error
}

func (c *Cluster) outcomes(ctx context.Context) iter.Seq[vmOutcome] {
	return InOrder(ctx, slices.Values(c.VMs), func(ctx context.Context, m VM) vmOutcome {
		outcome, raw, err := c.outcome(ctx, m)
		return vmOutcome{m, outcome, raw, err}
	})
}

func (c *Cluster) outcome(ctx context.Context, m VM) (fleet.Outcome, []byte, error) {
	var out fleet.Outcome
	raw, warnings, err := c.stored(ctx, m)
	if rejection, ok := errors.AsType[*Rejection](err); ok {
		out.Problems = rejection.Problems
		return out, nil, nil
	}
	if err != nil {
		return out, nil, err
	}
	request := c.request(ctx, m)
	request.Object = raw
	stored, err := presets.ExplainStored(request)
	if err != nil {
		return out, nil, m.rejection(err)
	}
	out.Warnings, out.Exceptions = warnings, stored.Exceptions
	out.Fields = slices.DeleteFunc(stored.Fields, func(o presets.Origin) bool { return m.isServerField(o.Path) })
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

// addLaunched adds the fields that presets give the VMI at the next start of a VM.
func (c *Cluster) addLaunched(ctx context.Context, m VM, raw []byte, out *fleet.Outcome) error {
	if m.Kind != presets.VirtualMachine || !c.snapshot.Launches() {
		return nil
	}
	request := c.request(ctx, m)
	request.Object = raw
	launched, err := c.settings.Engine.ExplainLaunch(ctx, c.snapshot, request)
	if rejection, ok := errors.AsType[*presets.Rejection](err); ok {
		for _, p := range problemsOf(rejection.Problems) {
			out.Warnings = append(out.Warnings, couldNotStart+p.String())
		}
		return nil
	}
	if err != nil {
		return m.rejection(err)
	}
	out.Exceptions = append(out.Exceptions, launched.Exceptions...)
	for _, o := range launched.Fields {
		if o.By.Preset == "" || o.By.Role == provenance.Platform {
			continue
		}
		by, _ := c.snapshot.Lookup(m.Namespace, o.By.Preset)
		o.Launched = by != nil && by.ApplyAt == v1alpha1.ApplyAtLaunch
		out.Launched = append(out.Launched, o)
	}
	return nil
}

// updates returns what changes on running VMIs.
func (s *Settings) updates() fleet.Updates {
	switch {
	case !s.Rules.Addon:
		return fleet.NoUpdates
	case s.Rules.NoLiveUpdate:
		return fleet.StagedUpdates
	}
	return fleet.LiveUpdates
}

// isRunning reports whether the VM has a VMI, according to its status.
func (m VM) isRunning() bool {
	var stored struct {
		Status struct {
			Created bool `json:"created"`
		} `json:"status"`
	}
	return kjson.UnmarshalCaseSensitivePreserveInts(m.JSON, &stored) == nil && stored.Status.Created
}
