// Package presetrevision keeps earlier revisions of presets as ControllerRevisions, so that a VM
// can receive the changes of one preset.
//
// A revision is the preset in one generation. It is in the preset's namespace, or for a cluster
// preset in the manager's, and belongs to the preset: it is collected with it.
package presetrevision

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/lifecycle/presetcache"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/provenance"
)

// nameOf returns the name of the revision of a preset with a UID.
func nameOf(uid types.UID, generation int64) string {
	return "preset-" + string(uid) + "-" + strconv.FormatInt(generation, 10)
}

// newRevision returns the revision of a preset as it is. Namespace is the manager's.
func newRevision(p v1alpha1.Preset, namespace string) (*appsv1.ControllerRevision, error) {
	kind := v1alpha1.KindVirtualMachinePreset
	if p.GetNamespace() == "" {
		kind = v1alpha1.KindClusterVirtualMachinePreset
	}
	gvk := v1alpha1.GroupVersion.WithKind(kind)
	meta := map[string]any{"name": p.GetName(), "generation": p.GetGeneration()}
	if p.GetNamespace() != "" {
		meta["namespace"] = p.GetNamespace()
	}
	raw, err := json.Marshal(map[string]any{
		"apiVersion": gvk.GroupVersion().String(), "kind": gvk.Kind, "metadata": meta, "spec": p.GetSpec(),
	})
	if err != nil {
		return nil, fmt.Errorf("cannot write a revision of preset %s: %w", presets.RefOf(p), err)
	}
	owner := *metav1.NewControllerRef(p, gvk)
	owner.BlockOwnerDeletion = nil // some clusters ask for a permission to set it
	return &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Name: nameOf(p.GetUID(), p.GetGeneration()), Namespace: cmp.Or(p.GetNamespace(), namespace),
			Labels:          map[string]string{v1alpha1.LabelPresetUID: string(p.GetUID())},
			OwnerReferences: []metav1.OwnerReference{owner},
		},
		Data: runtime.RawExtension{Raw: raw}, Revision: p.GetGeneration(),
	}, nil
}

// presetOf returns the preset that a revision has.
func presetOf(r *appsv1.ControllerRevision) (v1alpha1.Preset, error) {
	var out v1alpha1.Preset = &v1alpha1.ClusterVirtualMachinePreset{}
	if owner := metav1.GetControllerOf(r); owner == nil || owner.Kind != v1alpha1.KindClusterVirtualMachinePreset {
		out = &v1alpha1.VirtualMachinePreset{}
	}
	if err := json.Unmarshal(r.Data.Raw, out); err != nil {
		return nil, fmt.Errorf("cannot read ControllerRevision %s/%s: %w", r.Namespace, r.Name, err)
	}
	return out, nil
}

// list returns the revisions of a preset, oldest first. Namespace is the manager's.
func list(ctx context.Context, reader client.Reader, p client.Object, namespace string) ([]appsv1.ControllerRevision, error) {
	var found appsv1.ControllerRevisionList
	err := reader.List(ctx, &found, client.InNamespace(cmp.Or(p.GetNamespace(), namespace)),
		client.MatchingLabels{v1alpha1.LabelPresetUID: string(p.GetUID())})
	if err != nil {
		return nil, fmt.Errorf("cannot list the revisions of preset %s: %w", p.GetName(), err)
	}
	owned := slices.DeleteFunc(found.Items, func(r appsv1.ControllerRevision) bool { return !metav1.IsControlledBy(&r, p) })
	slices.SortFunc(owned, func(a, b appsv1.ControllerRevision) int { return cmp.Compare(a.Revision, b.Revision) })
	return owned, nil
}

// A Finder finds the revisions that records name.
type Finder struct {
	Presets *presetcache.Cache
	// Live reads from the API server: only a reapply of some presets asks for a revision.
	Live      client.Reader
	Namespace string // the manager's
}

// Find returns the preset of a source, as the record of a VM names it; nil if it is not kept.
func (f *Finder) Find(ctx context.Context, name presets.PresetName, s provenance.Source) (*presets.Compiled, error) {
	verdict, exists := f.Presets.Verdict(presetcache.KeyOf(name))
	if !exists {
		return nil, nil
	}
	p, err := read(ctx, f.Live, cmp.Or(name.Namespace, f.Namespace), verdict.UID, s.Generation)
	if p == nil || err != nil || presets.RefOf(p) != name.Ref || p.GetNamespace() != name.Namespace {
		return nil, err
	}
	compiled, problems := presets.Compile(p)
	if len(problems) > 0 || s.Hash != "" && compiled.Hash() != s.Hash {
		return nil, nil // of another version of virtwright
	}
	return compiled, nil
}

// OfCluster returns a function that finds a generation of the cluster preset with a UID; it returns
// nil if that is not kept. Namespace is the manager's.
func OfCluster(live client.Reader, namespace string) func(context.Context, types.UID, int64) (*presets.Compiled, error) {
	return func(ctx context.Context, uid types.UID, generation int64) (*presets.Compiled, error) {
		p, err := read(ctx, live, namespace, uid, generation)
		if p == nil || err != nil || p.GetNamespace() != "" {
			return nil, err
		}
		compiled, problems := presets.Compile(p)
		if len(problems) > 0 {
			return nil, nil // of another version of virtwright
		}
		return compiled, nil
	}
}

// read returns a generation of the preset with a UID; nil if it is not kept.
func read(ctx context.Context, live client.Reader, namespace string, uid types.UID, generation int64) (v1alpha1.Preset, error) {
	var r appsv1.ControllerRevision
	if err := live.Get(ctx, types.NamespacedName{Namespace: namespace, Name: nameOf(uid, generation)}, &r); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	p, err := presetOf(&r)
	if err != nil || !isOf(&r, uid) || p.GetGeneration() != generation {
		return nil, err
	}
	return p, nil
}

func isOf(r *appsv1.ControllerRevision, uid types.UID) bool {
	owner := metav1.GetControllerOf(r)
	return owner != nil && owner.UID == uid
}
