package simulate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/fleet"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/tree"
	"github.com/virtwright/virtwright/validation/protection"
	"github.com/virtwright/virtwright/webhooks/conversion"
)

// Sparsify returns a VM without the fields that presets and the platform give it anyway. A stored
// VM is treated as a new one with its desired state. The error is a *Rejection if the cluster would
// reject the VM.
func (c *Cluster) Sparsify(ctx context.Context, m VM) (*presets.Sparse, error) {
	full, out, _, err := c.sparsify(ctx, m)
	if err != nil {
		return nil, err
	}
	out.Object = c.asSent(full, out.Object)
	return out, nil
}

// sparsify returns a VM as a new one, without the fields that it need not have, and as it would be
// stored.
func (c *Cluster) sparsify(ctx context.Context, m VM) (full VM, out *presets.Sparse, stored map[string]any, err error) {
	if err = c.duplicate(m); err != nil {
		return full, nil, nil, err
	}
	if full, err = c.asNew(m); err != nil {
		return full, nil, nil, err
	}
	out, expanded, err := c.settings.Engine.Sparsify(ctx, c.snapshot, c.request(ctx, full))
	if err != nil {
		if _, rejected := c.admitted(ctx, full); rejected != nil { // it has all problems
			return full, nil, nil, rejected
		}
		return full, nil, nil, full.rejection(err)
	}
	sparse, err := c.withObject(full, out.Object)
	if err != nil {
		return full, nil, nil, err
	}
	got, err := c.admitted(ctx, sparse)
	if err == nil && expanded != nil && tree.Equal(expanded, got) {
		return full, out, got, nil
	}
	stored, rejected := c.admitted(ctx, full)
	switch {
	case rejected != nil:
		return full, nil, nil, rejected
	case err == nil && !tree.Equal(stored, got): // the engine alone does not see this
		err = errors.New("its sparse manifest expands to something else")
	}
	if err != nil {
		return full, nil, nil, fmt.Errorf("%s: cannot be made sparse: %w", m.Where, err)
	}
	return full, out, stored, nil
}

// asNew returns a VM as it is created, without what API servers and controllers write.
func (c *Cluster) asNew(m VM) (VM, error) {
	if m.version == conversion.V1Alpha2 {
		return VM{}, fmt.Errorf("%s: %s of version %s: use %s", m.Where, m, m.version, conversion.V1)
	}
	object, err := m.entry.asNew(m.Namespace)
	if err != nil {
		return VM{}, err
	}
	meta, annotations := metadataOf(object)
	for _, path := range protection.ReservedFields(m.Kind, object) {
		if path[0] == "metadata" {
			delete(annotations, path[len(path)-1])
		}
	}
	delete(annotations, v1alpha1.AnnotationProvenance) // a create with a record restores the VM
	delete(object, "status")
	// Programs write null.
	unstructured.RemoveNestedField(object, "spec", "template", "metadata", "creationTimestamp")
	volumes, _, _ := unstructured.NestedFieldNoCopy(object, "spec", "dataVolumeTemplates")
	for _, v := range tree.AsList(volumes) {
		unstructured.RemoveNestedField(tree.AsObject(v), "metadata", "creationTimestamp")
	}
	if finalizers, _ := meta["finalizers"].([]any); m.isStored() {
		delete(meta, "ownerReferences")
		delete(annotations, v1alpha1.AnnotationRolloutWaited)
		delete(annotations, v1alpha1.AnnotationReapply) // it asked for something that was done
		finalizers = slices.DeleteFunc(finalizers, func(name any) bool {
			return name == kubevirtv1.VirtualMachineControllerFinalizer || name == kubevirtv1.VirtualMachineInstanceFinalizer
		})
		if meta["finalizers"] = finalizers; len(finalizers) == 0 {
			delete(meta, "finalizers")
		}
	}
	if len(annotations) == 0 {
		delete(meta, "annotations")
	}
	return c.withObject(m, object)
}

// withObject returns a VM of the same name with another content.
func (c *Cluster) withObject(m VM, object map[string]any) (VM, error) {
	raw, err := json.Marshal(object)
	if err != nil {
		return VM{}, fmt.Errorf("%s: cannot encode %s: %w", m.Where, m, err)
	}
	e := &entry{Object: m.entry.Object, role: m.entry.role}
	e.JSON = raw
	if e.read = e.setMeta(object) == nil; !e.read {
		e.readMeta()
	}
	out, err := c.newVM(e)
	out.noNamespace, out.version = m.noNamespace, m.version
	return out, err
}

// admitted returns a VM as the cluster would store it, without its record.
func (c *Cluster) admitted(ctx context.Context, m VM) (map[string]any, error) {
	object, err := c.asStored(ctx, m)
	return fleet.WithoutRecord(object), err
}

// asStored returns a VM as the cluster would store it. Other VMs of the input do not matter.
func (c *Cluster) asStored(ctx context.Context, m VM) (map[string]any, error) {
	v := m.entry.verdict()
	ctx, t := inTurn(ctx, m)
	err := c.admit(ctx, m, &v)
	c.existing.forget(t)
	if err != nil {
		return nil, err
	}
	if len(v.Problems) > 0 {
		return nil, m.rejected(v.Problems)
	}
	return v.object, nil
}
