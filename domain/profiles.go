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

// Profiles are the profiles of a cluster, ready to be asked. The zero value
// has none: what is built in decides everything. It is safe for concurrent
// use.
type Profiles struct {
	frontend []profile[v1alpha1.FrontendSettings]
	backend  []profile[v1alpha1.BackendSettings]
}

// A profile is settings and whom they are for.
type profile[S any] struct {
	name          string
	priority      int32
	labels        labels.Selector
	namespaces    labels.Selector
	architectures []v1alpha1.Architecture
	settings      S
}

// CompileProfiles makes profiles ready to be asked. Profiles that cannot be
// right are left out, and the errors say why; paths begin with the kind and
// name of the profile.
func CompileProfiles(frontend []v1alpha1.FrontendProfile, backend []v1alpha1.BackendProfile) (*Profiles, field.ErrorList) {
	out := &Profiles{}
	var errs field.ErrorList
	for i := range frontend {
		p := &frontend[i]
		found := named(v1alpha1.KindFrontendProfile, p.Name, CheckFrontendProfile(p))
		errs = append(errs, found...)
		if len(found) == 0 {
			settings := p.Spec.FrontendSettings.DeepCopy()
			spellOut(settings)
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

// named puts kind and name of an object before the paths of its errors.
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

// selector is that of an object; one that is not there selects everything.
func selector(of *metav1.LabelSelector) (labels.Selector, error) {
	if of == nil {
		return labels.Everything(), nil
	}
	return metav1.LabelSelectorAsSelector(of)
}

// byPrecedence puts the stronger one first.
func byPrecedence[S any](a, b profile[S]) int {
	return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.name, b.name))
}

// matches says whether a profile is for an instance.
func (p *profile[S]) matches(vmi *kubevirtv1.VirtualMachineInstance, namespace map[string]string) bool {
	arch := cmp.Or(v1alpha1.Architecture(vmi.Spec.Architecture), v1alpha1.ArchitectureAMD64)
	return p.labels.Matches(labels.Set(vmi.Labels)) && p.namespaces.Matches(labels.Set(namespace)) &&
		(len(p.architectures) == 0 || slices.Contains(p.architectures, arch))
}

// Frontend is what the profiles and what is built in decide for the guest of
// an instance, given the labels of its namespace, and the names of the
// profiles that had a part, strongest first.
func (p *Profiles) Frontend(vmi *kubevirtv1.VirtualMachineInstance, namespace map[string]string) (*v1alpha1.FrontendSettings, []string) {
	return settle(p.frontend, builtinFrontend(), vmi, namespace)
}

// Backend is the same for the host's side.
func (p *Profiles) Backend(vmi *kubevirtv1.VirtualMachineInstance, namespace map[string]string) (*v1alpha1.BackendSettings, []string) {
	return settle(p.backend, builtinBackend(), vmi, namespace)
}

// settle fills settings field by field: from the strongest profile to the
// weakest, at last from what is built in.
func settle[S any](profiles []profile[S], builtin S, vmi *kubevirtv1.VirtualMachineInstance, namespace map[string]string) (*S, []string) {
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

// CheckFrontendProfile says what is wrong with a profile, with the paths of
// its fields.
func CheckFrontendProfile(p *v1alpha1.FrontendProfile) field.ErrorList {
	at := field.NewPath("spec")
	errs := checkMatch(&p.Spec.Match, at.Child("match"))
	errs = append(errs, checkPriority(p.Spec.Priority, at.Child("priority"))...)
	return append(errs, CheckFrontendSettings(&p.Spec.FrontendSettings, p.Spec.Match.Architectures, at)...)
}

// CheckBackendProfile is the same for the host's side.
func CheckBackendProfile(p *v1alpha1.BackendProfile) field.ErrorList {
	at := field.NewPath("spec")
	errs := checkMatch(&p.Spec.Match, at.Child("match"))
	errs = append(errs, checkPriority(p.Spec.Priority, at.Child("priority"))...)
	return append(errs, CheckBackendSettings(&p.Spec.BackendSettings, at)...)
}

func checkMatch(m *v1alpha1.ProfileMatch, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	errs = append(errs, checkSelector(m.Labels, at.Child("labels"))...)
	errs = append(errs, checkSelector(m.Namespaces, at.Child("namespaces"))...)
	for i, arch := range m.Architectures {
		if _, err := architectureOf(string(arch)); err != nil || arch == "" {
			errs = append(errs, field.NotSupported(at.Child("architectures").Index(i), arch,
				[]v1alpha1.Architecture{v1alpha1.ArchitectureAMD64, v1alpha1.ArchitectureARM64, v1alpha1.ArchitectureS390X}))
		}
	}
	return errs
}

func checkSelector(s *metav1.LabelSelector, at *field.Path) field.ErrorList {
	if _, err := selector(s); err != nil {
		return field.ErrorList{field.Forbidden(at, err.Error())}
	}
	return nil
}

// maxPriority bounds priorities, as the schema of the kinds does.
const maxPriority = 1_000_000

func checkPriority(priority int32, at *field.Path) field.ErrorList {
	if priority < -maxPriority || priority > maxPriority {
		return field.ErrorList{field.Invalid(at, priority, fmt.Sprintf("must be between %d and %d", -maxPriority, maxPriority))}
	}
	return nil
}
