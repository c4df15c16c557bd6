package simulate

import (
	"context"
	"errors"
	"fmt"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"k8s.io/apimachinery/pkg/util/jsonmergepatch"

	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/simulate/manifest"
)

// creates reports whether the case creates its VM, and does not update one.
func (c *Case) creates() bool { return c.Before == nil && !c.Reapply }

// A createdVM is the VM that a case updates.
type createdVM struct {
	VM
	stored []byte
}

// created creates the VM that a case updates; nil if the case creates its VM.
func (r *SuiteRun) created(ctx context.Context, in suiteInput) (*createdVM, error) {
	one := in.result.Case
	if one.creates() {
		return nil, nil
	}
	c, err := r.beforeCase(ctx, in)
	if err != nil {
		return nil, fmt.Errorf("before: %w", err)
	}
	step := &one.Step
	if one.Before != nil && one.Before.vm.JSON != nil {
		step = one.Before
	}
	m, err := c.caseVM(step)
	if err != nil {
		return nil, err
	}
	v, err := c.created(ctx, m)
	if err != nil {
		return nil, fmt.Errorf("before: the VM is not created: %w", err)
	}
	return &createdVM{m, v.stored}, nil
}

// beforeCase returns the cluster in which the VM is created. Its objects replace those of the case.
func (r *SuiteRun) beforeCase(ctx context.Context, in suiteInput) (*Cluster, error) {
	s, one, shared := in.result.Suite, in.result.Case, in.shared()
	before := one.Before
	if before == nil || len(before.Objects) == 0 {
		c, err := r.forCase(ctx, shared, in.result, one.CurrentModes)
		if err == nil && before != nil {
			c = c.at(before.Now)
		}
		return c, err
	}
	own, err := s.inline(one.Objects, one.CurrentModes)
	older, wrong := s.inline(before.Objects, one.CurrentModes)
	if err := errors.Join(err, wrong); err != nil {
		return nil, err
	}
	objects := Replace(withObjects(shared.objects, own), older, "")
	c, err := r.cluster(ctx, s, objects)
	if err != nil {
		return nil, err
	}
	return c.at(one.Now).at(before.Now), nil
}

// at returns the cluster at a time; the empty time changes nothing.
func (c *Cluster) at(now string) *Cluster {
	when, err := time.Parse(time.RFC3339, now)
	if c == nil || err != nil { // reported before
		return c
	}
	all := make([]*presets.Exception, 0, len(c.exceptions))
	for _, e := range c.exceptions {
		all = append(all, e.Exception)
	}
	c.snapshot = c.snapshot.WithExceptions(all, func() time.Time { return when })
	c.webhooks = c.server()
	return c
}

func (c *Cluster) caseVM(step *Step) (VM, error) {
	entries, _, err := sorted([]manifest.Object{step.vm}, rejectNamed)
	if err != nil {
		return VM{}, err
	}
	m, err := c.newVM(entries[0])
	if err == nil && m.isStored() {
		err = fmt.Errorf("%s: metadata.resourceVersion: Forbidden: a case creates its VM: remove the field", m)
	}
	return m, err
}

// updated returns the update that kubectl apply makes of a manifest, or the request of a reapply.
// If the case has both manifests, a reapply comes with the update.
func (b *createdVM) updated(m VM, one *Case) (VM, error) {
	if b.String() != m.String() {
		return m, fmt.Errorf("before: the VM is %s, but the case updates %s", b, m)
	}
	sent, old := m.JSON, b.stored
	m.old, m.JSON = old, old
	if !one.Reapply || one.Before != nil && one.Before.vm.JSON != nil {
		patch, err := jsonmergepatch.CreateThreeWayJSONMergePatch(b.JSON, sent, old)
		if err != nil {
			return m, fmt.Errorf("cannot update %s: %w", m, err)
		}
		if m.JSON, err = jsonpatch.MergePatch(old, patch); err != nil {
			return m, fmt.Errorf("cannot update %s: %w", m, err)
		}
	}
	if !one.Reapply {
		return m, nil
	}
	var err error
	m.JSON, err = m.reapplied(m.JSON)
	return m, err
}
