package presets

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets/provenance"
)

// An Exception keeps presets away from some VMs of its namespace. It is immutable.
type Exception struct {
	Namespace, Name string
	// Presets are the Refs of presets that do not act.
	Presets []string
	// Until is when the exception ends; zero means never.
	Until time.Time

	vms labels.Selector
}

// EndsSoon is how long before its end users of an exception are warned.
const EndsSoon = 7 * 24 * time.Hour

// CompileException checks an exception and prepares it. Every problem is reported; a nil
// Exception comes with at least one.
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
		name, _ := Bare(ref)
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

// Expired reports whether the exception has ended.
func (e *Exception) Expired(now time.Time) bool { return !e.Until.IsZero() && !now.Before(e.Until) }

// String is its name, and when it ends.
func (e *Exception) String() string {
	if e.Until.IsZero() {
		return "exception " + e.Name
	}
	return "exception " + e.Name + " until " + e.Until.UTC().Format(time.RFC3339)
}

// WithExceptions returns a snapshot of the same presets with these exceptions. The clock decides
// which of them have ended, so there are no exceptions without one.
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

// Missing warns of presets that an exception names and that do not exist.
func (s *Snapshot) Missing(e *Exception) []string {
	var out []string
	for i, ref := range e.Presets {
		if _, ok := s.Lookup(e.Namespace, ref); !ok && !s.broken[NameIn(e.Namespace, ref)] {
			out = append(out, fmt.Sprintf("spec.presets[%d]: preset %q does not exist%s", i, ref, s.meant(e.Namespace, ref)))
		}
	}
	return bounded(out)
}

// exceptionFor returns the exception that keeps a preset from acting; nil without one.
func (q *query) exceptionFor(s *Snapshot, c *Compiled) *Exception {
	if c.legacy {
		return nil
	}
	for _, e := range s.exceptions[q.namespace.Name] {
		if slices.Contains(e.Presets, c.Ref) && !e.Expired(s.now()) && (e.vms == nil || e.vms.Matches(q.labels)) {
			return e
		}
	}
	return nil
}

// except takes out the presets that exceptions keep from acting, and notes which these are. On
// the stored intent of a VM, the exceptions of its record count, and not those of now: so an
// exception that began or ended since then makes a difference to an update.
func (m *matching) except(s *Snapshot, q *query) {
	if q.recorded == nil && len(s.exceptions[q.namespace.Name]) == 0 {
		return
	}
	m.presets = slices.DeleteFunc(m.presets, func(c *Compiled) bool {
		if q.recorded != nil {
			return wasExcepted(q.recorded, c.Ref)
		}
		e := q.exceptionFor(s, c)
		if e == nil {
			return false
		}
		q.eval.left = conditionCost
		if matches, err := q.conditionsHold(c); err == nil && !matches {
			return true
		}
		m.exceptions = addException(m.exceptions, e.Name, c.Ref)
		if !e.Until.IsZero() && e.Until.Sub(s.now()) < EndsSoon {
			m.warnings = append(m.warnings, fmt.Sprintf("exception %s, which keeps preset %s from acting, ends at %s; an update of the VM after that applies the preset",
				e.Name, c.Ref, e.Until.UTC().Format(time.RFC3339)))
		}
		return true
	})
	slices.SortFunc(m.exceptions, func(a, b provenance.Exception) int { return cmp.Compare(a.Name, b.Name) })
}

// wasExcepted reports whether exceptions of a record kept a preset from acting.
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

// ended warns of recorded exceptions that do not keep a preset away any more, which acts now.
func (x *expansion) ended(recorded []provenance.Exception) []string {
	var out []string
	for _, e := range recorded {
		for _, ref := range e.Presets {
			acts := slices.ContainsFunc(x.matching.presets, func(c *Compiled) bool { return c.Ref == ref && c.Mode == v1alpha1.ModeEnforce })
			if acts {
				out = append(out, fmt.Sprintf("exception %s has ended: preset %s acts on this VM again", e.Name, ref))
			}
		}
	}
	return out
}
