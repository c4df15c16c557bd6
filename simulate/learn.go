package simulate

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/fleet"
	"github.com/virtwright/virtwright/fleet/learn"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/simulate/manifest"
)

// A LearnReport has learned presets, and the VMs that are sparse with them.
type LearnReport struct {
	*learn.Result
	// VMs are in the order of the input. Those with an error are not learned from.
	VMs []LearnedVM
	// Notes name ignored objects.
	Notes []string
	// MoreSaved is how many fields fewer VMs, presets and proposed labels have, together.
	MoreSaved int
}

// A LearnedVM is a VM with and without learned presets.
type LearnedVM struct {
	VM
	// Before and After are its fields that existing presets and the platform do not give, without
	// and with learned presets.
	Before, After int
	// Object is the VM without the fields that presets give.
	Object map[string]any
	// Err is a *Rejection if the cluster would reject the VM.
	Err error
	// stored is the hash of the VM as the cluster stores it: thousands of VMs need much memory.
	stored [sha256.Size]byte
	// givenBy counts the fields that presets give.
	givenBy map[string]int
}

// Learn finds presets for the VMs of the input, and makes the VMs sparse with them. Existing
// presets stay. Each VM is checked: the cluster stores the same object for it as before. Labels are
// proposed only if VMs and presets have fewer fields with all of them.
func Learn(ctx context.Context, objects []manifest.Object, settings Settings, o learn.Options, progress func(done int)) (*LearnReport, error) {
	c, err := NewCluster(ctx, objects, settings)
	if err != nil {
		return nil, err
	}
	out := &LearnReport{Notes: c.Notes}
	var vms []learn.VM
	for x := range InOrder(ctx, slices.Values(c.VMs), c.before) {
		if out.VMs = append(out.VMs, x.LearnedVM); x.Err == nil {
			vms = append(vms, x.from)
		}
		progress(len(out.VMs))
	}
	if o.Taken == nil {
		o.Taken = map[string]bool{}
	}
	o.Read = c.selectorLabels()
	for p := range c.snapshot.All() {
		name, _ := presets.SplitRef(p.Ref)
		o.Taken[name] = true
		o.Below = min(o.Below, int(p.Priority))
	}
	o.Check = func(p v1alpha1.Preset) error {
		raw, err := json.Marshal(p)
		if err != nil {
			return err
		}
		return settings.checkPreset(ctx, raw, p.GetObjectKind().GroupVersionKind().Kind)
	}
	o.Incomplete, o.Example = c.incompleteFields, fleet.WitnessName
	if out.Result, err = learn.Learn(ctx, vms, o); err != nil {
		return nil, err
	}
	if o.Labels && len(out.Proposals) == 0 {
		return out, ctx.Err()
	}
	if err = out.makeSparse(ctx, objects, settings, progress); err != nil || !o.Labels {
		return out, err
	}
	labelled, err := out.labelled(objects, settings)
	if err != nil {
		return nil, err
	}
	o.Labels = false
	with, err := Learn(ctx, labelled, settings, o, func(done int) { progress(2*len(out.VMs) + done) })
	if err != nil {
		return nil, err
	}
	if out.MoreSaved = out.total() - with.total(); out.MoreSaved <= 0 {
		out.Proposals = nil
	}
	return out, nil
}

// incompleteFields returns, for each of the presets, fields that make a VM invalid whose author
// sets nothing else. It enforces the presets.
func (c *Cluster) incompleteFields(ctx context.Context, of, others []v1alpha1.Preset) ([][]provenance.Path, error) {
	compiled := make([]*presets.Compiled, len(of)+len(others))
	for i, p := range slices.Concat(of, others) {
		var problems field.ErrorList
		p.GetSpec().Mode = v1alpha1.ModeEnforce
		if compiled[i], problems = presets.Compile(p); len(problems) > 0 {
			return nil, fmt.Errorf("learned preset %s: %w", presets.RefOf(p), problems.ToAggregate())
		}
	}
	beside := slices.AppendSeq(compiled[len(of):], c.snapshot.All())
	rules := *c.settings.Rules
	rules.Addon = false // alongside KubeVirt, a missing field is often only a warning, but the VM does not start
	fields := fleet.Incomplete(ctx, compiled[:len(of)], beside, fleet.Settings{Rules: &rules})
	out := make([][]provenance.Path, len(of))
	for i, p := range compiled[:len(of)] {
		out[i] = fields[p]
	}
	return out, ctx.Err()
}

// selectorLabels are the labels by which presets select VMs of the cluster.
func (c *Cluster) selectorLabels() map[string]bool {
	out := map[string]bool{}
	for p := range c.snapshot.All() {
		vms, _ := p.Selectors()
		if vms != nil && slices.ContainsFunc(c.VMs, func(m VM) bool { return vms.Matches(labels.Set(m.entry.meta.Labels)) }) {
			terms, _ := vms.Requirements()
			for _, term := range terms {
				out[term.Key()] = true
			}
		}
	}
	return out
}

// total is the number of fields of sparse VMs, and of presets with their conditions and fields.
func (r *LearnReport) total() int {
	out := 0
	for _, p := range r.Presets {
		out += p.Cost()
	}
	for _, x := range r.VMs {
		if x.Err != nil {
			out += x.Before
		} else {
			out += x.After
		}
	}
	return out
}

// labelled returns the objects with the proposed labels. Objects of a cluster have no positions of
// their own, so names tell which VM an object is.
func (r *LearnReport) labelled(objects []manifest.Object, settings Settings) ([]manifest.Object, error) {
	labels := map[string]map[string]string{}
	for _, p := range r.Proposals {
		for _, m := range p.VMs {
			is := nameIn(string(m.Kind), m.Namespace.Name, m.Name, "")
			if labels[is] == nil {
				labels[is] = map[string]string{}
			}
			labels[is][p.Label] = "true"
		}
	}
	out := slices.Clone(objects)
	for i, o := range out {
		if !IsVM(o) {
			continue
		}
		e := entry{Object: o}
		e.readMeta()
		proposed := labels[nameIn(o.Kind, cmp.Or(e.meta.Namespace, settings.Namespace), e.meta.Name, "")]
		if proposed == nil {
			continue
		}
		object, err := e.decode()
		if err != nil {
			return nil, err
		}
		meta, _ := metadataOf(object)
		meta["labels"] = applyMap(e.meta.Labels, nil, proposed)
		if out[i].JSON, err = json.Marshal(object); err != nil {
			return nil, fmt.Errorf("cannot encode %s: %w", e.meta.Name, err)
		}
	}
	return out, nil
}

// makeSparse makes the VMs sparse with the learned presets, and counts what these save.
func (r *LearnReport) makeSparse(ctx context.Context, objects []manifest.Object, settings Settings, progress func(done int)) error {
	made, err := enforced(r.Presets)
	if err != nil {
		return err
	}
	with, err := NewCluster(ctx, slices.Concat(objects, made), settings)
	if err != nil {
		return fmt.Errorf("learned presets are rejected: %w", err)
	}
	i := 0
	for x := range InOrder(ctx, slices.Values(r.VMs), with.after) {
		r.VMs[i] = x
		i++
		progress(len(r.VMs) + i)
	}
	for i, p := range r.Presets {
		r.Presets[i].Saved = 0 // the search counts what existing presets and exclusions prevent
		for _, x := range r.VMs {
			if in := p.Object.GetNamespace(); in == "" || in == x.Namespace {
				r.Presets[i].Saved += x.givenBy[presets.RefOf(p.Object)]
			}
		}
	}
	return ctx.Err()
}

type beforeLearning struct {
	LearnedVM
	from learn.VM
}

func (c *Cluster) before(ctx context.Context, m VM) (out beforeLearning) {
	out.VM = m
	var stored map[string]any
	if out.from, stored, out.Err = c.abridged(ctx, m); out.Err != nil {
		return out
	}
	if out.stored, out.Err = digest(stored); out.Err != nil {
		return out
	}
	fields, err := presets.Fields(m.Kind, out.from.Object)
	out.Before, out.Err = len(fields), err
	return out
}

func digest(object map[string]any) (out [sha256.Size]byte, err error) {
	text, err := json.Marshal(object)
	return sha256.Sum256(text), err
}

// abridged returns a VM without fields that existing presets and the platform give it, and as it
// would be stored.
func (c *Cluster) abridged(ctx context.Context, m VM) (out learn.VM, stored map[string]any, err error) {
	if err := c.duplicate(m); err != nil {
		return out, nil, err
	}
	full, err := c.asNew(m)
	if err != nil {
		return out, nil, err
	}
	if stored, err = c.admitted(ctx, full); err != nil {
		return out, nil, err
	}
	object, err := c.settings.Engine.Abridge(ctx, c.snapshot, c.request(ctx, full))
	if err != nil {
		return out, nil, full.rejection(err)
	}
	out = learn.VM{Kind: m.Kind, Namespace: c.namespace(m.Namespace), Object: object}
	if !unnamed(full.Name) {
		out.Name = full.Name
	}
	return out, stored, nil
}

func (c *Cluster) after(ctx context.Context, x LearnedVM) LearnedVM {
	if x.Err != nil {
		return x
	}
	full, sparse, stored, err := c.sparsify(ctx, x.VM)
	if x.Err = err; err != nil {
		return x
	}
	hash, err := digest(stored)
	if err == nil && hash != x.stored {
		err = fmt.Errorf("%s: learned presets would change %s", x.Where, x.VM)
	}
	if x.Err = err; err != nil {
		return x
	}
	fields, err := presets.Fields(x.Kind, stored) // without keys of elements
	if x.Err = err; err != nil {
		return x
	}
	x.After, x.Object, x.givenBy = len(sparse.Kept), c.asSent(full, sparse.Object), map[string]int{}
	by := make(map[string]string, len(sparse.Given))
	for _, o := range sparse.Given {
		by[o.Path.String()] = o.By.Preset
	}
	for _, leaf := range fields {
		x.givenBy[by[leaf.Path.String()]]++
	}
	return x
}

// enforced returns presets as objects of mode Enforce.
func enforced(of []learn.Preset) (out []manifest.Object, err error) {
	for i, p := range of {
		raw, err := json.Marshal(p.Object)
		if err != nil {
			return nil, fmt.Errorf("cannot encode %s: %w", presets.RefOf(p.Object), err)
		}
		made, err := manifest.Inline(raw, manifest.Position{File: "learned presets", Document: i + 1})
		if err != nil {
			return nil, err
		}
		out = append(out, made...)
	}
	return Enforce(out)
}
