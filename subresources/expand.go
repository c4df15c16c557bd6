package subresources

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	kjson "sigs.k8s.io/json"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/warning"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/tree"
	"github.com/virtwright/virtwright/subresources/decide"
)

// snapshots returns the newest set of presets; nil before the first one is loaded.
type snapshots interface{ Snapshot() *presets.Snapshot }

type namespaces interface {
	Get(ctx context.Context, name string) (presets.Namespace, error)
}

// namespaceOf returns the namespace of an object. Its errors are for the caller.
func namespaceOf(ctx context.Context, all namespaces, object types.NamespacedName) (presets.Namespace, error) {
	namespace, err := all.Get(ctx, object.Namespace)
	switch {
	case apierrors.IsNotFound(err):
		return namespace, apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, object.Namespace)
	case err != nil:
		return namespace, apierrors.NewInternalError(fmt.Errorf("cannot read the namespace: %w", err))
	}
	return namespace, nil
}

// Presets expand VMs.
type Presets struct {
	Engine     *presets.Engine
	Snapshots  snapshots
	Namespaces namespaces
}

// An expander shows VMs with the fields that presets and the platform set.
type expander struct {
	Presets
	cluster    *cluster
	authorizer authorizer.UnconditionalAuthorizer
}

// stored answers with the stored VM, on which presets have acted. A change of a preset reaches it
// by a reapply.
func (e *expander) stored(w http.ResponseWriter, r *http.Request) {
	name, err := subject(r)
	var raw []byte
	if err == nil {
		raw, err = e.cluster.get(r.Context(), vms, name)
	}
	if err != nil {
		reject(w, err)
		return
	}
	write(w, http.StatusOK, raw)
}

// sent answers with the VM of the body, expanded as if it were created now.
func (e *expander) sent(w http.ResponseWriter, r *http.Request) {
	expanded, err := e.expandSent(r)
	if err != nil {
		reject(w, err)
		return
	}
	answer(w, expanded)
}

func (e *expander) expandSent(r *http.Request) (map[string]any, error) {
	name, err := subject(r)
	if err != nil {
		return nil, err
	}
	body, err := read(r, maxVM)
	if err != nil {
		return nil, err
	}
	vm, err := decodeVM(body, name.Namespace)
	if err != nil {
		return nil, err
	}
	meta := tree.AsObject(vm["metadata"])
	name.Name = cmp.Or(tree.AsText(meta["name"]), tree.AsText(meta["generateName"]))
	checked := maps.Clone(vm)
	delete(checked, "status") // it does not matter, and may be that of a newer KubeVirt
	shape := presets.CheckSchema(presets.VirtualMachine, checked)
	if problems := slices.Concat(shape.Unknown, shape.Mistyped); len(problems) > 0 {
		return nil, invalid(name.Name, problems)
	}
	if err := e.checkUse(r.Context(), name.Namespace, vm); err != nil {
		return nil, err
	}
	raw, err := json.Marshal(vm)
	if err != nil {
		return nil, err
	}
	return e.expand(r.Context(), name, raw)
}

func (e *expander) expand(ctx context.Context, name types.NamespacedName, raw []byte) (map[string]any, error) {
	snapshot := e.Snapshots.Snapshot()
	if snapshot == nil {
		return nil, apierrors.NewServiceUnavailable("presets are not loaded yet")
	}
	namespace, err := namespaceOf(ctx, e.Namespaces, name)
	if err != nil {
		return nil, err
	}
	result, err := e.Engine.Resolve(ctx, snapshot, presets.Request{Kind: presets.VirtualMachine, Object: raw, Namespace: namespace})
	if rejection, ok := errors.AsType[*presets.Rejection](err); ok {
		return nil, invalid(name.Name, rejection.Problems)
	}
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	for _, text := range result.Warnings {
		warning.AddWarning(ctx, "", text)
	}
	return result.Object(), nil
}

func invalid(name string, problems field.ErrorList) error {
	return apierrors.NewInvalid(kubevirtv1.VirtualMachineGroupVersionKind.GroupKind(), name, presets.LimitErrors(problems))
}

// decodeVM decodes a VM in JSON or YAML, which must be in the namespace or in none.
func decodeVM(body []byte, namespace string) (map[string]any, error) {
	if len(body) == 0 {
		return nil, apierrors.NewBadRequest("empty request body")
	}
	var vm map[string]any
	if err := decode(kjson.UnmarshalCaseSensitivePreserveInts, body, &vm); err != nil {
		return nil, err
	}
	version, _ := vm["apiVersion"].(string)
	gv, err := schema.ParseGroupVersion(version)
	if kind := vm["kind"]; err != nil || gv.Group != kubevirtv1.GroupVersion.Group || kind != string(presets.VirtualMachine) {
		return nil, apierrors.NewBadRequest("Object is not a valid VirtualMachine")
	}
	if !slices.Contains(kubevirtv1.ApiSupportedWebhookVersions, gv.Version) {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("apiVersion %q is not supported: use %s", version, kubevirtv1.GroupVersion))
	}
	if vm["metadata"] == nil {
		vm["metadata"] = map[string]any{}
	}
	meta, ok := vm["metadata"].(map[string]any)
	if !ok {
		return nil, apierrors.NewBadRequest("Object is not a valid VirtualMachine")
	}
	if of, given := meta["namespace"]; given && of != "" && of != namespace {
		return nil, apierrors.NewBadRequest("VM namespace must be empty or " + namespace)
	}
	meta["namespace"] = namespace
	return vm, nil
}

// checkUse checks that the caller may use every preset that a VM names, as admission does: an
// expanded VM shows the presets.
func (e *expander) checkUse(ctx context.Context, namespace string, vm map[string]any) error {
	user, ok := apirequest.UserFrom(ctx)
	if !ok {
		return apierrors.NewUnauthorized("the caller is not authenticated")
	}
	for _, named := range presets.NamedPresets(presets.VirtualMachine, vm) {
		ref := named.Ref
		what := authorizer.AttributesRecord{
			User: user, Verb: "use", ResourceRequest: true, Namespace: namespace, Name: ref,
			APIGroup: v1alpha1.GroupName, APIVersion: v1alpha1.GroupVersion.Version, Resource: v1alpha1.ResourceVirtualMachinePresets,
		}
		if name, cluster := strings.CutPrefix(ref, "cluster/"); cluster {
			what.Namespace, what.Name, what.Resource = "", name, v1alpha1.ResourceClusterVirtualMachinePresets
		}
		decision, _, err := e.authorizer.Authorize(ctx, what)
		if err != nil {
			return apierrors.NewInternalError(fmt.Errorf("cannot review the permissions of user %s: %w", user.GetName(), err))
		}
		if decision != authorizer.DecisionAllow {
			return apierrors.NewForbidden(decide.VMResource, "", fmt.Errorf("user %s may not use preset %s", user.GetName(), ref))
		}
	}
	return nil
}
