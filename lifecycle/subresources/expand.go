package subresources

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/warning"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/lifecycle/subresources/verdict"
	"github.com/virtwright/virtwright/presets"
)

// Snapshots gives the presets in use.
type Snapshots interface {
	// Snapshot returns the newest set of presets; nil before the first is there.
	Snapshot() *presets.Snapshot
}

// Namespaces finds namespaces.
type Namespaces interface {
	// Get returns a namespace by name.
	Get(ctx context.Context, name string) (presets.Namespace, error)
}

// Presets are what machines are expanded with.
type Presets struct {
	Engine     *presets.Engine
	Snapshots  Snapshots
	Namespaces Namespaces
}

// An expander says what presets make of machines, as if they were created now.
type expander struct {
	Presets
	machines   *machines
	authorizer authorizer.UnconditionalAuthorizer
}

// stored answers about a machine of the cluster.
func (e *expander) stored(w http.ResponseWriter, r *http.Request) {
	e.respond(w, r, func(info *apirequest.RequestInfo) ([]byte, error) {
		return e.machines.vm(r.Context(), types.NamespacedName{Namespace: info.Namespace, Name: info.Name})
	})
}

// sent answers about a machine in the body.
func (e *expander) sent(w http.ResponseWriter, r *http.Request) {
	e.respond(w, r, func(info *apirequest.RequestInfo) ([]byte, error) {
		body, err := read(r, maxMachine)
		if err != nil {
			return nil, err
		}
		vm, err := machineOf(body, info.Namespace)
		if err != nil {
			return nil, err
		}
		if err := e.mayName(r.Context(), info.Namespace, vm); err != nil {
			return nil, err
		}
		return json.Marshal(vm)
	})
}

func (e *expander) respond(w http.ResponseWriter, r *http.Request, machine func(*apirequest.RequestInfo) ([]byte, error)) {
	info, err := subject(r)
	if err != nil {
		refuse(w, err)
		return
	}
	raw, err := machine(info)
	if err != nil {
		refuse(w, err)
		return
	}
	out, err := e.expand(r.Context(), info, raw)
	if err != nil {
		refuse(w, err)
		return
	}
	answer(w, out)
}

// expand resolves a machine.
func (e *expander) expand(ctx context.Context, info *apirequest.RequestInfo, raw []byte) (map[string]any, error) {
	snapshot := e.Snapshots.Snapshot()
	if snapshot == nil {
		return nil, apierrors.NewServiceUnavailable("presets are not loaded yet")
	}
	namespace, err := e.Namespaces.Get(ctx, info.Namespace)
	if apierrors.IsNotFound(err) {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, info.Namespace)
	}
	if err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("cannot read the namespace: %w", err))
	}
	result, err := e.Engine.Resolve(ctx, snapshot, presets.Request{Kind: presets.VirtualMachine, Object: raw, Namespace: namespace})
	if refusal, ok := errors.AsType[*presets.Refusal](err); ok {
		return nil, apierrors.NewInvalid(kubevirtv1.VirtualMachineGroupVersionKind.GroupKind(), info.Name, presets.Shorten(refusal.Problems))
	}
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	for _, text := range result.Warnings {
		warning.AddWarning(ctx, "", text)
	}
	return result.Object(), nil
}

// machineOf reads a machine, of JSON or YAML, that is in a namespace or in none.
func machineOf(body []byte, namespace string) (map[string]any, error) {
	if len(body) == 0 {
		return nil, apierrors.NewBadRequest("empty request body")
	}
	var vm map[string]any
	if err := decode(body, &vm); err != nil {
		return nil, err
	}
	version, _ := vm["apiVersion"].(string)
	gv, err := schema.ParseGroupVersion(version)
	if kind := vm["kind"]; err != nil || gv.Group != "kubevirt.io" || kind != string(presets.VirtualMachine) {
		return nil, apierrors.NewBadRequest("Object is not a valid VirtualMachine")
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

// mayName checks that the caller may use every preset that a machine names, as
// admission does: who expands a machine with a preset reads the preset.
func (e *expander) mayName(ctx context.Context, namespace string, vm map[string]any) error {
	user, ok := apirequest.UserFrom(ctx)
	if !ok {
		return apierrors.NewUnauthorized("nobody has vouched for who calls")
	}
	for _, ref := range presets.Named(presets.VirtualMachine, vm) {
		what := authorizer.AttributesRecord{
			User: user, Verb: "use", ResourceRequest: true, Namespace: namespace, Name: ref,
			APIGroup: v1alpha1.GroupName, APIVersion: v1alpha1.GroupVersion.Version, Resource: v1alpha1.ResourceVirtualMachinePresets,
		}
		if name, cluster := strings.CutPrefix(ref, "cluster/"); cluster {
			what.Namespace, what.Name, what.Resource = "", name, v1alpha1.ResourceClusterVirtualMachinePresets
		}
		decision, _, err := e.authorizer.Authorize(ctx, what)
		if err != nil {
			return apierrors.NewInternalError(fmt.Errorf("cannot ask what user %s may do: %w", user.GetName(), err))
		}
		if decision != authorizer.DecisionAllow {
			return apierrors.NewForbidden(verdict.Resource, "", fmt.Errorf("user %s may not use preset %s", user.GetName(), ref))
		}
	}
	return nil
}
