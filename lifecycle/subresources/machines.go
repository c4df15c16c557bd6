package subresources

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/lifecycle/subresources/verdict"
)

// Resources that are read and patched.
const (
	virtualMachines = "virtualmachines"
	instances       = "virtualmachineinstances"
)

// undoing is how long the way back may take, when the call itself has ended.
const undoing = 5 * time.Second

// machines are those of a cluster, without a cache between.
type machines struct{ client rest.Interface }

// seen is a machine and the instance of its name, which may be nil; or an
// instance alone.
type seen struct {
	vm  *kubevirtv1.VirtualMachine
	vmi *kubevirtv1.VirtualMachineInstance
}

// resource is what errors call that which a call is about.
func (s *seen) resource() schema.GroupResource {
	if s.vm == nil {
		return verdict.InstanceResource
	}
	return verdict.Resource
}

// differs reports whether the object that a patch was refused for has changed.
func (s *seen) differs(before *seen, refused error) bool {
	if of, ok := errors.AsType[*patchError](refused); ok && of.resource == instances {
		return s.vmi == nil || s.vmi.UID != before.vmi.UID || s.vmi.ResourceVersion != before.vmi.ResourceVersion
	}
	return s.vm.UID != before.vm.UID || s.vm.ResourceVersion != before.vm.ResourceVersion
}

// A patchError says which object could not be patched.
type patchError struct {
	resource string
	error
}

// Unwrap returns what the API server said.
func (e *patchError) Unwrap() error { return e.error }

// get returns the JSON of an object.
func (m *machines) get(ctx context.Context, resource string, name types.NamespacedName) ([]byte, error) {
	return m.client.Get().AbsPath("/apis/kubevirt.io/v1").Namespace(name.Namespace).Resource(resource).Name(name.Name).
		SetHeader("Accept", "application/json").Do(ctx).Raw()
}

// vm returns the JSON of a machine. Its errors are for the caller.
func (m *machines) vm(ctx context.Context, name types.NamespacedName) ([]byte, error) {
	raw, err := m.get(ctx, virtualMachines, name)
	switch {
	case apierrors.IsNotFound(err):
		return nil, apierrors.NewNotFound(verdict.Resource, name.Name)
	case err != nil:
		return nil, apierrors.NewInternalError(fmt.Errorf("cannot read the VirtualMachine: %w", err))
	}
	return raw, nil
}

// look reads a machine and its instance. Its errors are for the caller.
func (m *machines) look(ctx context.Context, name types.NamespacedName) (*seen, error) {
	raw, err := m.vm(ctx, name)
	if err != nil {
		return nil, err
	}
	out := &seen{vm: &kubevirtv1.VirtualMachine{}}
	if err := json.Unmarshal(raw, out.vm); err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("cannot understand the VirtualMachine: %w", err))
	}
	raw, err = m.get(ctx, instances, name)
	if apierrors.IsNotFound(err) {
		return out, nil
	}
	out.vmi = &kubevirtv1.VirtualMachineInstance{}
	if err == nil {
		err = json.Unmarshal(raw, out.vmi)
	}
	if err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("cannot read the VirtualMachineInstance: %w", err))
	}
	return out, nil
}

// instance returns the JSON of an instance. Its errors are for the caller.
func (m *machines) instance(ctx context.Context, name types.NamespacedName) ([]byte, error) {
	raw, err := m.get(ctx, instances, name)
	switch {
	case apierrors.IsNotFound(err):
		return nil, apierrors.NewNotFound(verdict.InstanceResource, name.Name)
	case err != nil:
		return nil, apierrors.NewInternalError(fmt.Errorf("cannot read the VirtualMachineInstance: %w", err))
	}
	return raw, nil
}

// lookAtInstance reads an instance alone, whether or not a machine has it. Its
// errors are for the caller.
func (m *machines) lookAtInstance(ctx context.Context, name types.NamespacedName) (*seen, error) {
	raw, err := m.instance(ctx, name)
	if err != nil {
		return nil, err
	}
	out := &seen{vmi: &kubevirtv1.VirtualMachineInstance{}}
	if err := json.Unmarshal(raw, out.vmi); err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("cannot understand the VirtualMachineInstance: %w", err))
	}
	return out, nil
}

// apply carries changes out, all of them or none. Where nobody knows whether the
// last one was made, the first one stays.
func (m *machines) apply(ctx context.Context, name types.NamespacedName, changes *verdict.Changes, dry bool) error {
	if err := m.patch(ctx, target{instances, name, ""}, changes.Instance, dry); err != nil {
		return err
	}
	err := m.patch(ctx, target{virtualMachines, name, ""}, changes.Machine, dry)
	if err == nil {
		err = m.patch(ctx, target{virtualMachines, name, "status"}, changes.Status, dry)
	}
	if _, refused := refusal(err); !refused || dry || len(changes.Undo) == 0 {
		return err
	}
	undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoing)
	defer cancel()
	if failed := m.patch(undo, target{instances, name, ""}, changes.Undo, false); failed != nil {
		logr.FromContextOrDiscard(ctx).Error(failed, "Cannot take a grace period back", "namespace", name.Namespace, "name", name.Name)
	}
	return err
}

// A target is what a patch is for.
type target struct {
	resource    string
	name        types.NamespacedName
	subresource string
}

func (m *machines) patch(ctx context.Context, to target, operations []verdict.Operation, dry bool) error {
	if len(operations) == 0 {
		return nil
	}
	body, err := json.Marshal(operations)
	if err != nil {
		return fmt.Errorf("cannot encode a patch: %w", err)
	}
	request := m.client.Patch(types.JSONPatchType).AbsPath("/apis/kubevirt.io/v1").
		Namespace(to.name.Namespace).Resource(to.resource).Name(to.name.Name).
		SetHeader("Accept", "application/json").Param("fieldManager", "virtwright-subresources").Body(body)
	// A patch that was made would be refused when it is sent again, because of
	// its tests: callers try again, not this client.
	request = request.MaxRetries(0)
	if to.subresource != "" {
		request = request.SubResource(to.subresource)
	}
	if dry {
		request = request.Param("dryRun", metav1.DryRunAll)
	}
	if err := request.Do(ctx).Error(); err != nil {
		return &patchError{to.resource, err}
	}
	return nil
}
