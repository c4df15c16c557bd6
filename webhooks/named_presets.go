package webhooks

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	sspv1alpha1 "github.com/virtwright/virtwright/api/ssp/v1alpha1"
	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/provenance"
)

// checkNamedPresets rejects presets that the author names but that do not exist or that the author
// may not use. What a controller names for an object that it owns, its author was asked for.
func (c *candidate) checkNamedPresets(ctx context.Context) error {
	snapshot := c.Snapshots.Snapshot()
	if c.Authorizer == nil || c.trusted || snapshot == nil || c.controller && isCopy(c.object) {
		return nil
	}
	n := naming{now: presets.NamedPresets(c.Kind, c.object), before: presets.NamedPresets(c.Kind, c.old)}
	if len(n.now) == 0 {
		return nil
	}
	restored := isRestored(c.Kind, c.Guard, c.req) // which brings back only names
	reapplied := !restored && slices.ContainsFunc([]string{v1alpha1.AnnotationReapply, v1alpha1.AnnotationRolledOut}, func(key string) bool {
		return annotation(c.old, key) != annotation(c.object, key)
	})
	n.usesAnew = func(string) bool { return reapplied }
	if !reapplied && c.old != nil && !restored {
		var err error
		if n.usesAnew, err = c.givesAnew(ctx, snapshot, n.now); err != nil {
			return err
		}
	}
	problems, err := n.check(ctx, c.Authorizer, snapshot, c.req)
	c.problems = append(c.problems, problems...)
	return err
}

// givesAnew returns a function that reports whether a preset gives an object, or the instance that
// it would run, values of a revision that gave it nothing before.
func (c *candidate) givesAnew(ctx context.Context, snapshot *presets.Snapshot, named []presets.NamedPreset) (func(ref string) bool, error) {
	before, after := recordOf(c.old), recordOf(c.object)
	had, has := before.Sources, after.Sources
	// An end of an exception is not the act of a controller that updates a VM, as for a hotplug.
	excepted := func(ref string) bool {
		return c.controller && slices.ContainsFunc(before.Exceptions, func(e provenance.Exception) bool { return slices.Contains(e.Presets, ref) })
	}
	acts := func(ref string) bool { // at launch, without a trace in the record of a VM
		p, exists := snapshot.Lookup(c.req.Namespace, ref)
		return exists && p.ApplyAt == v1alpha1.ApplyAtLaunch && c.Kind == presets.VirtualMachine
	}
	var unlaunchable error
	if slices.ContainsFunc(named, func(n presets.NamedPreset) bool { return acts(n.Ref) }) {
		request, err := c.engineRequest(ctx)
		if err != nil {
			return nil, err
		}
		launched, err := c.Engine.LaunchSources(ctx, snapshot, request)
		request.Object = request.OldObject
		launchedBefore, errBefore := c.Engine.LaunchSources(ctx, snapshot, request)
		if had, has = slices.Concat(had, launchedBefore), slices.Concat(has, launched); errBefore == nil {
			unlaunchable = err
		}
	}
	return func(ref string) bool {
		return !excepted(ref) && (unlaunchable != nil && acts(ref) || gives(ref, had, has)) // what it would give may be unknown
	}, nil
}

// gives reports whether sources have values of a revision of a preset that those before lack.
func gives(ref string, before, after []provenance.Source) bool {
	return slices.ContainsFunc(after, func(s provenance.Source) bool {
		return s.Preset == ref && !s.Role.IsRule() && !slices.ContainsFunc(before, func(o provenance.Source) bool {
			isSame := o.Hash == s.Hash || o.Hash == "" && o.Generation == s.Generation
			return o.Preset == ref && !o.Role.IsRule() && isSame
		})
	})
}

// recordOf returns the record of an object without its fields; an empty one for a record that
// cannot be read, which admission rejects or replaces.
func recordOf(object map[string]any) *provenance.Record {
	text, _ := annotation(object, v1alpha1.AnnotationProvenance).(string)
	record, err := provenance.DecodeSources(text)
	if err != nil {
		return provenance.New()
	}
	return record
}

// A naming is what annotations of an object name, and named before.
type naming struct {
	root        *field.Path // of the object
	now, before []presets.NamedPreset
	// usesAnew reports whether a preset that was named before requires the permission again.
	usesAnew func(ref string) bool
}

// check returns a problem for each preset that does not exist, or that the user may not use.
func (n naming) check(ctx context.Context, a authorizer, snapshot *presets.Snapshot, req Request) (problems field.ErrorList, err error) {
	for _, named := range n.now {
		isNew := !slices.Contains(n.before, named)
		if !isNew && !n.usesAnew(named.Ref) {
			continue
		}
		if _, exists := snapshot.Lookup(req.Namespace, named.Ref); !exists {
			if isNew {
				problems = append(problems, field.NotFound(named.Field(n.root), named.Ref))
			}
			continue
		}
		problem, err := mayUse(ctx, a, req, named.Ref, named.Field(n.root))
		if err != nil {
			return nil, err
		}
		if problem != nil {
			problems = append(problems, problem)
		}
	}
	return problems, nil
}

// mayUse returns a problem if the requesting user may not use a preset that is named at a field.
func mayUse(ctx context.Context, a authorizer, req Request, ref string, at *field.Path) (*field.Error, error) {
	action := presetAction(verbUse, req.Namespace, ref)
	may, err := a.Allowed(ctx, req.UserInfo, action)
	if may || err != nil {
		return nil, err
	}
	return field.Forbidden(at, fmt.Sprintf("user %s may not use preset %s: requires permission to %s",
		req.UserInfo.Username, ref, sspv1alpha1.Permission{Attributes: action})), nil
}
