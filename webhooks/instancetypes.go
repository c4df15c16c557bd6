package webhooks

import (
	"context"
	"errors"
	"fmt"

	"github.com/virtwright/virtwright/presets"
)

// Instancetypes finds instancetypes and preferences.
type Instancetypes interface {
	// Spec returns the spec of what a VM of a namespace names, as decoded JSON; nil where it does not exist.
	Spec(ctx context.Context, namespace string, m presets.Matcher) (map[string]any, error)
}

// finder reads each instancetype and preference once for a request. It is nil where there are none.
func finder(ctx context.Context, in Instancetypes, namespace string) presets.InstancetypeFinder {
	if in == nil {
		return nil
	}
	type answer struct {
		spec map[string]any
		err  error
	}
	known := map[presets.Matcher]answer{}
	return func(m presets.Matcher) (map[string]any, error) {
		a, read := known[m]
		if !read {
			a.spec, a.err = in.Spec(ctx, namespace, m)
			known[m] = a
		}
		return a.spec, a.err
	}
}

// confirmExpansion checks overrides and forbid rules on the VM as its instancetype and its
// preference expand it. Controllers that are trusted may update what users created.
func (c *candidate) confirmExpansion(ctx context.Context) error {
	snapshot := c.Snapshots.Snapshot()
	spec, _ := c.object["spec"].(map[string]any)
	if c.Instancetypes == nil || snapshot == nil || c.Kind != presets.VirtualMachine || c.trusted && c.old != nil ||
		spec["instancetype"] == nil && spec["preference"] == nil {
		return nil
	}
	namespace, err := c.Namespaces.Get(ctx, c.req.Namespace)
	if err != nil {
		return fmt.Errorf("cannot read namespace %s: %w", c.req.Namespace, err)
	}
	request := presets.Request{Kind: c.Kind, Object: c.req.Object.Raw, Namespace: namespace, Instancetypes: finder(ctx, c.Instancetypes, c.req.Namespace)}
	if c.old != nil {
		request.OldObject = c.req.OldObject.Raw
	}
	err = c.Engine.VerifyExpansion(ctx, snapshot, request)
	if refusal, ok := errors.AsType[*presets.Refusal](err); ok {
		c.problems = append(c.problems, refusal.Problems...)
		return nil
	}
	if _, ok := errors.AsType[*presets.Malformed](err); ok {
		return nil // read has refused it
	}
	return err
}
