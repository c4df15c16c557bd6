package domain

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/api/v1alpha1"
)

// Profiles are the compiled profiles of a cluster. The zero value has none: the built-in settings
// apply. It is safe for concurrent use.
type Profiles struct {
	frontend []profile[v1alpha1.FrontendSettings]
	backend  []profile[v1alpha1.BackendSettings]
}

// A profile has settings and the conditions for a VMI to get them.
type profile[S any] struct {
	name          string
	priority      int32
	labels        labels.Selector
	namespaces    labels.Selector
	architectures []v1alpha1.Architecture
	settings      S
}

// CompileProfiles compiles profiles. Invalid ones are left out and reported; the paths of the
// errors begin with kind and name of the profile.
func CompileProfiles(frontend []v1alpha1.FrontendProfile, backend []v1alpha1.BackendProfile) (*Profiles, field.ErrorList) {
	out := &Profiles{}
	var errs field.ErrorList
	for i := range frontend {
		p := &frontend[i]
		found := named(v1alpha1.KindFrontendProfile, p.Name, CheckFrontendProfile(p))
		errs = append(errs, found...)
		if len(found) == 0 {
			settings := p.Spec.FrontendSettings.DeepCopy()
			expand(settings)
			out.frontend = append(out.frontend, compiled(p.Name, p.Spec.Priority, &p.Spec.Match, *settings))
		}
	}
	for i := range backend {
		p := &backend[i]
		found := named(v1alpha1.KindBackendProfile, p.Name, CheckBackendProfile(p))
		errs = append(errs, found...)
		if len(found) == 0 {
			out.backend = append(out.backend, compiled(p.Name, p.Spec.Priority, &p.Spec.Match, p.Spec.BackendSettings))
		}
	}
	slices.SortFunc(out.frontend, byPrecedence)
	slices.SortFunc(out.backend, byPrecedence)
	return out, errs
}

// named adds kind and name of an object to the paths of its errors.
func named(kind, name string, errs field.ErrorList) field.ErrorList {
	for _, err := range errs {
		err.Field = fmt.Sprintf("%s %s: %s", kind, name, err.Field)
	}
	return errs
}

func compiled[S any](name string, priority int32, match *v1alpha1.ProfileMatch, settings S) profile[S] {
	p := profile[S]{name: name, priority: priority, architectures: match.Architectures, settings: settings}
	p.labels, _ = selector(match.Labels)
	p.namespaces, _ = selector(match.Namespaces)
	return p
}

// selector compiles a label selector; a missing one selects everything.
func selector(of *metav1.LabelSelector) (labels.Selector, error) {
	if of == nil {
		return labels.Everything(), nil
	}
	return metav1.LabelSelectorAsSelector(of)
}

// byPrecedence orders profiles by priority, the highest first, and by name.
func byPrecedence[S any](a, b profile[S]) int {
	return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.name, b.name))
}

func (p *profile[S]) matches(vmi *kubevirtv1.VirtualMachineInstance, namespace map[string]string) bool {
	arch := cmp.Or(v1alpha1.Architecture(vmi.Spec.Architecture), v1alpha1.ArchitectureAMD64)
	return p.labels.Matches(labels.Set(vmi.Labels)) && p.namespaces.Matches(labels.Set(namespace)) &&
		(len(p.architectures) == 0 || slices.Contains(p.architectures, arch))
}

// Frontend returns the frontend settings of a VMI, given the labels of its namespace, and the names
// of the profiles that match, strongest first. Built-in settings fill what no profile sets.
func (p *Profiles) Frontend(vmi *kubevirtv1.VirtualMachineInstance, namespace map[string]string) (*v1alpha1.FrontendSettings, []string) {
	return merged(p.frontend, builtinFrontend(), vmi, namespace)
}

// Backend returns the backend settings of a VMI in the same way.
func (p *Profiles) Backend(vmi *kubevirtv1.VirtualMachineInstance, namespace map[string]string) (*v1alpha1.BackendSettings, []string) {
	return merged(p.backend, builtinBackend(), vmi, namespace)
}

// merged fills settings field by field, from the strongest profile to the weakest, and then from
// the built-in settings.
func merged[S any](profiles []profile[S], builtin S, vmi *kubevirtv1.VirtualMachineInstance, namespace map[string]string) (*S, []string) {
	var out S
	var names []string
	to := reflect.ValueOf(&out).Elem()
	for i := range profiles {
		if profiles[i].matches(vmi, namespace) {
			names = append(names, profiles[i].name)
			fill(to, reflect.ValueOf(&profiles[i].settings).Elem())
		}
	}
	fill(to, reflect.ValueOf(&builtin).Elem())
	return &out, names
}

// CheckFrontendProfile returns the errors of a profile.
func CheckFrontendProfile(p *v1alpha1.FrontendProfile) field.ErrorList {
	at := field.NewPath("spec")
	errs := checkPrecedence(&p.Spec.Match, p.Spec.Priority, at)
	return append(errs, checkFrontendSettings(&p.Spec.FrontendSettings, p.Spec.Match.Architectures, at)...)
}

// CheckBackendProfile returns the errors of a profile.
func CheckBackendProfile(p *v1alpha1.BackendProfile) field.ErrorList {
	at := field.NewPath("spec")
	return append(checkPrecedence(&p.Spec.Match, p.Spec.Priority, at), checkBackendSettings(&p.Spec.BackendSettings, at)...)
}

// maxPriority is the limit of the CRD's schema.
const maxPriority = 1_000_000

// checkPrecedence checks which VMIs a profile matches, and its priority.
func checkPrecedence(m *v1alpha1.ProfileMatch, priority int32, at *field.Path) field.ErrorList {
	match := at.Child("match")
	errs := append(checkSelector(m.Labels, match.Child("labels")), checkSelector(m.Namespaces, match.Child("namespaces"))...)
	for i, arch := range m.Architectures {
		errs = append(errs, oneOf(match.Child("architectures").Index(i), arch, allArchitectures...)...)
	}
	if priority < -maxPriority || priority > maxPriority {
		errs = append(errs, field.Invalid(at.Child("priority"), priority, fmt.Sprintf("must be between %d and %d", -maxPriority, maxPriority)))
	}
	return errs
}

func checkSelector(s *metav1.LabelSelector, at *field.Path) field.ErrorList {
	if _, err := selector(s); err != nil {
		return field.ErrorList{field.Forbidden(at, err.Error())}
	}
	return nil
}
