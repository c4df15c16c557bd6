package presets

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets/condition"
	"github.com/virtwright/virtwright/presets/provenance"
)

// An Exception keeps presets from acting on some VMs of its namespace. It is immutable.
type Exception struct {
	Namespace, Name string
	Presets         []string  // Refs of presets that do not act
	Until           time.Time // zero means never
	vms             labels.Selector
}

// ExceptionWarningPeriod is how long before the end of an exception its users are warned.
const ExceptionWarningPeriod = 7 * 24 * time.Hour

// CompileException checks an exception and prepares it. It returns nil only with problems.
func CompileException(e *v1alpha1.PresetException) (*Exception, field.ErrorList) {
	var errs field.ErrorList
	at := field.NewPath("spec")
	out := &Exception{Namespace: e.Namespace, Name: e.Name, Presets: e.Spec.Presets, vms: selector(&e.Spec.VMSelector, at.Child("vmSelector"), &errs)}
	if e.Spec.Until != nil {
		out.Until = e.Spec.Until.Time
	}
	if len(e.Spec.Presets) == 0 {
		errs = append(errs, field.Required(at.Child("presets"), "name the presets that do not act: NAME, or cluster/NAME"))
	}
	for i, ref := range e.Spec.Presets {
		name, _ := SplitRef(ref)
		for _, reason := range validation.IsDNS1123Subdomain(name) {
			errs = append(errs, field.Invalid(at.Child("presets").Index(i), ref, "must be NAME or cluster/NAME: "+reason))
		}
	}
	if e.Spec.Reason == "" {
		errs = append(errs, field.Required(at.Child("reason"), "say why the VMs may deviate"))
	}
	if len(errs) > 0 {
		return nil, errs
	}
	return out, nil
}

// VMs returns the selector of VMs; nil selects all of the namespace.
func (e *Exception) VMs() labels.Selector { return e.vms }

// Exceptions yields the exceptions, by namespace and name.
func (s *Snapshot) Exceptions() iter.Seq[*Exception] {
	return func(yield func(*Exception) bool) {
		for _, namespace := range slices.Sorted(maps.Keys(s.exceptions)) {
			for _, e := range s.exceptions[namespace] {
				if !yield(e) {
					return
				}
			}
		}
	}
}

// Expired reports whether the exception has ended.
func (e *Exception) Expired(now time.Time) bool { return !e.Until.IsZero() && !now.Before(e.Until) }

// String returns its name and its end.
func (e *Exception) String() string {
	if e.Until.IsZero() {
		return "exception " + e.Name
	}
	return "exception " + e.Name + " until " + e.Until.UTC().Format(time.RFC3339)
}

// WithExceptions returns a snapshot of the same presets with these exceptions; now ends them.
func (s *Snapshot) WithExceptions(exceptions []*Exception, now func() time.Time) *Snapshot {
	out := *s
	out.exceptions, out.now = map[string][]*Exception{}, now
	for _, e := range exceptions {
		out.exceptions[e.Namespace] = append(out.exceptions[e.Namespace], e)
	}
	for _, all := range out.exceptions {
		slices.SortFunc(all, func(a, b *Exception) int { return cmp.Compare(a.Name, b.Name) })
	}
	return &out
}

// MissingPresets warns about presets that spec.presets of an exception or a rollout names, and that
// do not exist or are invalid.
func (s *Snapshot) MissingPresets(namespace string, refs []string) []string {
	var out []string
	for i, ref := range refs {
		switch _, ok := s.Lookup(namespace, ref); {
		case ok:
		case s.broken[ParseRef(namespace, ref)]:
			out = append(out, fmt.Sprintf("spec.presets[%d]: preset %q is invalid: see its status", i, ref))
		default:
			out = append(out, fmt.Sprintf("spec.presets[%d]: preset %q does not exist%s", i, ref, s.suggestion(namespace, ref)))
		}
	}
	return limitWarnings(out)
}

// exceptionFor returns the exception that keeps a preset from acting on a VM, or nil. Of several,
// it is the one that ends last: the end of another one has no effect.
func (q *query) exceptionFor(s *Snapshot, c *Compiled) *Exception {
	var out *Exception
	if c.legacy {
		return nil
	}
	for _, e := range s.exceptions[q.namespace.Name] {
		keeps := slices.Contains(e.Presets, c.Ref) && !e.Expired(s.now()) && (e.vms == nil || e.vms.Matches(q.labels))
		if keeps && (out == nil || e.outlasts(out)) {
			out = e
		}
	}
	return out
}

func (e *Exception) outlasts(other *Exception) bool {
	return !other.Until.IsZero() && (e.Until.IsZero() || e.Until.After(other.Until))
}

// applyExceptions removes the presets that exceptions keep from acting, and records them. Recorded
// exceptions of a stored VM replace the current ones, so that an update sees which began or ended.
func (m *matchResult) applyExceptions(s *Snapshot, q *query) {
	if q.recordedExceptions == nil && len(s.exceptions[q.namespace.Name]) == 0 {
		return
	}
	m.presets = slices.DeleteFunc(m.presets, func(c *Compiled) bool {
		if q.recordedExceptions != nil && !slices.Contains(q.reapplied, c.Ref) {
			return wasExcepted(q.recordedExceptions, c.Ref)
		}
		e := q.exceptionFor(s, c)
		if e == nil {
			return false
		}
		q.eval.Budget = condition.MaxCost
		if matches, err := q.conditionsHold(c); err == nil && !matches {
			return true
		}
		m.exceptions = addException(m.exceptions, e.Name, c.Ref)
		if !e.Until.IsZero() && e.Until.Sub(s.now()) < ExceptionWarningPeriod {
			m.warnings = append(m.warnings, fmt.Sprintf("exception %s, which keeps preset %s from acting, ends at %s; an update of the VM after that applies the preset",
				e.Name, c.Ref, e.Until.UTC().Format(time.RFC3339)))
		}
		return true
	})
	slices.SortFunc(m.exceptions, func(a, b provenance.Exception) int { return cmp.Compare(a.Name, b.Name) })
}

func wasExcepted(recorded []provenance.Exception, ref string) bool {
	return slices.ContainsFunc(recorded, func(e provenance.Exception) bool { return slices.Contains(e.Presets, ref) })
}

func addException(all []provenance.Exception, name, ref string) []provenance.Exception {
	i := slices.IndexFunc(all, func(e provenance.Exception) bool { return e.Name == name })
	if i < 0 {
		return append(all, provenance.Exception{Name: name, Presets: []string{ref}})
	}
	all[i].Presets = append(all[i].Presets, ref)
	slices.Sort(all[i].Presets)
	return all
}

func (x *expansion) ended(recorded []provenance.Exception) []string {
	var out []string
	for _, e := range recorded {
		for _, ref := range e.Presets {
			if slices.ContainsFunc(x.match.presets, func(c *Compiled) bool { return c.Ref == ref && c.Mode == v1alpha1.ModeEnforce }) {
				out = append(out, fmt.Sprintf("exception %s has ended: preset %s acts on this VM again", e.Name, ref))
			}
		}
	}
	return out
}
