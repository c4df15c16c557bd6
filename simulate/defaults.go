package simulate

import (
	"context"
	"errors"
	"maps"

	corev1 "k8s.io/api/core/v1"
	kjson "sigs.k8s.io/json"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/domain"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/simulate/manifest"
)

// fill adds entries. It returns an error or nil for each of them.
func (c *Cluster) fill(ctx context.Context, entries []*entry) []error {
	p, rules := c.readers(ctx)
	c.settings.Memory.forget()
	problems := make([]error, len(entries))
	for i, e := range entries {
		problems[i] = c.take(e, p, rules)
	}
	c.Notes = append(c.Notes, p.notes...)
	c.Presets, c.selecting, c.exceptions, c.rollouts = len(p.compiled), p.selecting, p.exceptions, p.rollouts
	known := c.preset || c.settings.Live
	c.snapshot = p.withExceptions(presets.NewSnapshot(p.compiled, p.broken), known)
	for i, e := range entries {
		switch {
		case e.Kind != v1alpha1.KindPresetRollout || problems[i] != nil:
		case known:
			warnOfRollout(ctx, e, c.snapshot)
		default:
			warnOfRollout(ctx, e, nil)
		}
	}
	c.Notes = append(c.Notes, c.heldBack()...)
	c.profiles, _ = domain.CompileProfiles(p.frontend, p.backend) // each was validated when it was read
	rules.bind(c, entries)
	c.webhooks = c.server()
	return problems
}

func (c *Cluster) readers(ctx context.Context) (*presetReader, *policyReader) {
	p := &presetReader{ctx: ctx, rules: c.settings.Rules, seen: map[string]manifest.Position{}, legacy: c.standalone(), memory: c.settings.Memory}
	return p, &policyReader{}
}

func (c *Cluster) take(e *entry, p *presetReader, rules *policyReader) error {
	if e.param {
		if err := rules.parameter(e); err != nil {
			return err
		}
	}
	switch e.role {
	case parameter:
		return nil
	case vmOrVMI:
		m, err := c.newVM(e)
		if err == nil {
			c.VMs = append(c.VMs, m)
		}
		return err
	case mutatingPolicy:
		rules.readMutating(e)
		return nil
	case preset, legacyPreset:
		c.preset = true
	}
	if err := e.place(c.settings.Namespace); err != nil {
		return err
	}
	problems := e.metadataProblems()
	if len(problems) == 0 {
		return c.read(e, p, rules)
	}
	if e.read { // what another cluster says of the object completes the list
		other := newCluster(c.settings)
		p, rules = other.readers(p.ctx)
		if rejection, ok := errors.AsType[*Rejection](other.read(e, p, rules)); ok {
			problems = append(problems, rejection.Problems...)
		}
	}
	e.ignored = false
	return e.rejected(problems)
}

func (c *Cluster) read(e *entry, p *presetReader, rules *policyReader) error {
	if e.role == namespace {
		return c.readNamespace(e, p.seen)
	}
	if first, again := p.seen[e.ref()]; again {
		return e.rejected([]Problem{duplicateName(e.meta.Name, first)})
	}
	p.seen[e.ref()] = e.Where
	switch e.role {
	case policy:
		return rules.read(e)
	case instancetype:
		return c.instancetypes.add(e)
	default:
		return p.read(e)
	}
}

// readNamespace accepts copies with the same labels, which many sets of manifests have.
func (c *Cluster) readNamespace(e *entry, seen map[string]manifest.Position) error {
	if first, again := seen[e.ref()]; again && !maps.Equal(c.namespaces[e.meta.Name].Labels, e.meta.Labels) {
		return e.rejected([]Problem{duplicateName(e.meta.Name, first)})
	}
	seen[e.ref()] = e.Where
	object := &corev1.Namespace{}
	_ = kjson.UnmarshalCaseSensitivePreserveInts(e.JSON, object) // labels are read in any case
	object.ObjectMeta = e.meta.ObjectMeta
	c.namespaces[e.meta.Name] = object
	return nil
}
