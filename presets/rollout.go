package presets

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/presets/vmschema"
)

// A Rollout brings changes of presets to VMs in waves: VMs that it has not reached have the stable
// revision of its presets.
type Rollout struct {
	Name string
	// Stable has the stable revision of each preset whose change is rolled out, by Ref; nil for a
	// preset that did not exist.
	Stable map[string]*Compiled

	waves    []rolloutWave
	names    []string // of waves
	position rolloutPosition
	target   string
	aborted  bool
}

type rolloutWave struct{ vms, namespaces labels.Selector }

// A rolloutPosition is the last step that a rollout has reached. The zero value is before the first
// one.
type rolloutPosition struct {
	wave    int // 1 is the first
	percent uint64
}

// NewRollout compiles a rollout. Position is that of its status.
func NewRollout(r *v1alpha1.PresetRollout) (*Rollout, *field.Error) {
	out := &Rollout{Name: r.Name, target: r.Status.Target, aborted: r.Status.Aborted}
	for i := range r.Spec.Waves {
		w, at := &r.Spec.Waves[i], field.NewPath("spec", "waves").Index(i)
		vms, err := selectorOf(at.Child("vms"), w.VMs)
		if err != nil {
			return nil, err
		}
		namespaces, err := selectorOf(at.Child("namespaces"), w.Namespaces)
		if err != nil {
			return nil, err
		}
		out.waves, out.names = append(out.waves, rolloutWave{vms, namespaces}), append(out.names, w.Name)
		if w.Name == r.Status.Wave {
			out.position = rolloutPosition{i + 1, percentOf(r.Status.Step)}
		}
	}
	return out, nil
}

// percentOf reads a percentage; 0 if there is none.
func percentOf(text string) uint64 {
	out, err := strconv.ParseUint(strings.TrimSuffix(text, "%"), 10, 8)
	if err != nil {
		return 0
	}
	return out
}

func selectorOf(at *field.Path, s *metav1.LabelSelector) (labels.Selector, *field.Error) {
	var problems field.ErrorList
	out := selector(s, at, &problems)
	switch {
	case len(problems) > 0:
		return nil, problems[0]
	case out == nil:
		return labels.Everything(), nil
	}
	return out, nil
}

// Reached reports whether a VM belongs to the steps that were reached. A VM whose name is not known
// yet belongs to the last step of its wave.
func (r *Rollout) Reached(namespace Namespace, vm *metav1.ObjectMeta) bool {
	wave := 1 + r.Wave(namespace, vm)
	if wave != r.position.wave {
		return 0 < wave && wave < r.position.wave
	}
	return Percentile(namespace.Name, vm.Name) < r.position.percent
}

// Wave returns the index of the wave of a VM in the spec; -1 if no wave selects it.
func (r *Rollout) Wave(namespace Namespace, vm *metav1.ObjectMeta) int {
	return slices.IndexFunc(r.waves, func(w rolloutWave) bool {
		return w.vms.Matches(labels.Set(vm.Labels)) && w.namespaces.Matches(labels.Set(namespace.Labels))
	})
}

// Concerns returns a function that reports whether a rollout may change a stored VM: the stable or
// the current revision of a preset acts on VMs and selects it. Selecting are the labels by which
// presets select the VM.
func (s *Snapshot) Concerns(r *Rollout) func(namespace Namespace, vm *metav1.ObjectMeta, selecting map[string]string) bool {
	var revisions []*Compiled
	for ref, stable := range r.Stable {
		current, _ := s.Lookup("", ref)
		for _, c := range []*Compiled{stable, current} {
			if c != nil && c.Mode == v1alpha1.ModeEnforce && c.ApplyAt != v1alpha1.ApplyAtLaunch {
				revisions = append(revisions, c)
			}
		}
	}
	return func(namespace Namespace, vm *metav1.ObjectMeta, selecting map[string]string) bool {
		return slices.ContainsFunc(revisions, func(c *Compiled) bool {
			return matches(c.labels, selecting) && matches(c.namespaces, namespace.Labels) &&
				(!c.Explicit || strings.Contains(vm.Annotations[v1alpha1.AnnotationPresets], c.Ref))
		})
	}
}

// SelectingLabels are the labels by which presets select a stored VM: those of its author, for the
// VM and its template. Record says which ones presets have set; nil if they have set none.
func SelectingLabels(vm, template map[string]string, record *provenance.Record) map[string]string {
	if record == nil {
		return labels.Merge(vm, template)
	}
	root := map[string]any{} // into which labels can always be set
	_ = unstructured.SetNestedStringMap(root, vm, "metadata", "labels")
	_ = unstructured.SetNestedStringMap(root, template, "spec", "template", "metadata", "labels")
	keepUserIntent(root, record)
	return matchLabels(vmschema.Value(root, provenance.Of("metadata", "labels")), vmschema.Value(root, vmschema.TemplateLabels))
}

// isKeptOut reports whether a VM is kept out of every rollout by an annotation.
func isKeptOut(namespace Namespace, vm *metav1.ObjectMeta) bool {
	return vm.Annotations[v1alpha1.AnnotationRollout] == v1alpha1.RolloutHold || namespace.Annotations[v1alpha1.AnnotationRollout] == v1alpha1.RolloutHold
}

// IsLeftOut reports whether rollouts do not update a stored VM: it is held, or another object owns
// it, whose template decides.
func IsLeftOut(namespace Namespace, vm *metav1.ObjectMeta) bool {
	return isKeptOut(namespace, vm) || metav1.GetControllerOfNoCopy(vm) != nil
}

// Percentile returns a number from 0 to 99 that follows from the namespace and the name of a VM; 99
// without a name. A step of a wave reaches the VMs with a lower number.
func Percentile(namespace, name string) uint64 {
	if name == "" {
		return 99
	}
	sum := fnv.New64a()
	sum.Write([]byte(namespace + "/" + name))
	mixed := sum.Sum64()
	mixed ^= mixed >> 32 // the last bytes of a name barely change the high bits
	return mixed % 100
}

// Taken reports that an older rollout has a preset of a rollout; nil if none has. A rollout without
// a creation time is the youngest.
func Taken(by iter.Seq[*v1alpha1.PresetRollout], from *v1alpha1.PresetRollout) *field.Error {
	oldest, taken := from, ""
	for r := range by {
		shared := slices.IndexFunc(r.Spec.Presets, func(ref string) bool { return slices.Contains(from.Spec.Presets, ref) })
		if r.Name != from.Name && shared >= 0 && isOlder(r, oldest) {
			oldest, taken = r, r.Spec.Presets[shared]
		}
	}
	if oldest == from {
		return nil
	}
	return field.Forbidden(field.NewPath("spec", "presets"), fmt.Sprintf("PresetRollout %s has preset %s, too: leave it out of one of them", oldest.Name, taken))
}

func isOlder(r, than *v1alpha1.PresetRollout) bool {
	if r.CreationTimestamp.IsZero() || than.CreationTimestamp.IsZero() {
		return than.CreationTimestamp.IsZero()
	}
	return cmp.Or(r.CreationTimestamp.Compare(than.CreationTimestamp.Time), cmp.Compare(r.Name, than.Name)) < 0
}

// IsOf reports whether the revisions of a status are those of a preset with a UID. A status without
// UIDs is older than they are.
func IsOf(p v1alpha1.RolloutPreset, uid types.UID) bool {
	if p.UID == "" && p.Target != 0 {
		return uid != ""
	}
	return p.UID == uid
}

// Withdraw makes it a rollout that has reached no VM.
func (r *Rollout) Withdraw() { r.position = rolloutPosition{} }

// Is reports whether this is a rollout in the state of a status.
func (r *Rollout) Is(status *v1alpha1.PresetRolloutStatus) bool {
	at := rolloutPosition{wave: 1 + slices.Index(r.names, status.Wave)}
	if at.wave > 0 { // otherwise the wave was removed
		at.percent = percentOf(status.Step)
	}
	return r.target == status.Target && r.aborted == status.Aborted && r.position == at
}

// WithRollouts returns a snapshot of the same presets that gives each VM the revision that rollouts
// want. Each preset is in one rollout at most.
func (s *Snapshot) WithRollouts(rollouts []*Rollout) *Snapshot {
	out := *s
	out.rollouts, out.variants = rollouts, &sync.Map{}
	for _, r := range rollouts {
		for _, c := range r.Stable {
			out.launches = out.launches || c != nil && c.launching()
		}
	}
	return &out
}

// Rollout returns a rollout that holds presets back; nil if it does not.
func (s *Snapshot) Rollout(name string) *Rollout {
	i := slices.IndexFunc(s.rollouts, func(r *Rollout) bool { return r.Name == name })
	if i < 0 {
		return nil
	}
	return s.rollouts[i]
}

// For returns the snapshot that applies to the object of a request.
func (s *Snapshot) For(req Request) *Snapshot {
	if len(s.rollouts) == 0 {
		return s
	}
	var vm metav1.PartialObjectMetadata // of the VM that it is for; the engine reports errors
	switch {
	case len(req.Owner) > 0:
		_ = kjson.UnmarshalCaseSensitivePreserveInts(req.Owner, &vm)
	case req.Decoded != nil:
		is := unstructured.Unstructured{Object: req.Decoded}
		vm.Name, vm.Labels, vm.Annotations = is.GetName(), is.GetLabels(), is.GetAnnotations()
	default:
		_ = kjson.UnmarshalCaseSensitivePreserveInts(req.Object, &vm)
	}
	return s.forVM(req.Namespace, &vm.ObjectMeta)
}

func (s *Snapshot) forVM(namespace Namespace, vm *metav1.ObjectMeta) *Snapshot {
	if len(s.rollouts) == 0 {
		return s
	}
	isHeld := isKeptOut(namespace, vm)
	var key strings.Builder
	var held []*Rollout
	for _, r := range s.rollouts {
		if isHeld || r.aborted || !r.Reached(namespace, vm) {
			held = append(held, r)
			key.WriteString(r.Name + " ")
		}
	}
	if known, ok := s.variants.Load(key.String()); ok {
		return known.(*Snapshot)
	}
	out, _ := s.variants.LoadOrStore(key.String(), s.without(held))
	return out.(*Snapshot)
}

// without returns a snapshot in which rollouts hold their presets back.
func (s *Snapshot) without(held []*Rollout) *Snapshot {
	stable := map[string]*Compiled{}
	var current []heldPreset
	for _, r := range held {
		maps.Copy(stable, r.Stable)
		for _, ref := range slices.Sorted(maps.Keys(r.Stable)) {
			if c, exists := s.Lookup("", ref); exists {
				current = append(current, heldPreset{c, r.Name})
			}
		}
	}
	isHeld := func(ref string) bool {
		_, is := stable[ref]
		return is
	}
	all := slices.DeleteFunc(slices.Clone(s.all), func(c *Compiled) bool { return isHeld(c.Ref) })
	for _, c := range stable {
		if c != nil {
			all = append(all, c)
		}
	}
	broken := slices.DeleteFunc(slices.Collect(maps.Keys(s.broken)), func(n PresetName) bool { return isHeld(n.Ref) })
	out := NewSnapshot(all, broken)
	out.exceptions, out.now, out.stamps, out.held = s.exceptions, s.now, map[string]bool{}, current
	for _, r := range s.rollouts {
		out.stamps[r.Stamp()] = r.aborted || !slices.Contains(held, r)
	}
	return out
}
