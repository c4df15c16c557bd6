// Package live reads VMs, presets and related objects from a cluster.
package live

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/pager"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/simulate"
	"github.com/virtwright/virtwright/simulate/manifest"
	"github.com/virtwright/virtwright/simulate/policies"
)

const (
	page     = 500
	parallel = 8
)

// A Query selects the objects to read.
type Query struct {
	// All selects all namespaces.
	All bool
	// Namespace of VMs and of named objects; empty for none.
	Namespace string
	// Namespaces are additional namespaces to read presets from.
	Namespaces []string
	// Names selects single VMs, VMIs or presets.
	Names []Name
	// Selector filters VMs and VMIs by label.
	Selector string
	// VMs reads VMs and VMIs even if Names has none.
	VMs bool
	// OnlyVMs leaves out VMIs and profiles.
	OnlyVMs bool
	// ContextOnly marks presets as applied, but not as objects that the user asked for.
	ContextOnly bool
	// Imports reads KubeVirt's presets, instancetypes and preferences, presets and exceptions.
	Imports bool
	// Policies reads ValidatingAdmissionPolicies, MutatingAdmissionPolicies and their bindings, and
	// PresetRollouts.
	Policies bool
	// Addon is true if KubeVirt is installed.
	Addon bool
	// Required are resources that the user must be permitted to read, though others may lack the
	// right. PresetsOptional is true if presets are not.
	Required        []string
	PresetsOptional bool
}

// A Cluster reads objects of one Kubernetes cluster.
type Cluster struct {
	Objects dynamic.Interface
	// Mapper resolves the kinds of policy parameters.
	Mapper meta.RESTMapper
	// Name of the cluster in the positions of its objects.
	Name string
}

type request struct {
	kind
	namespace, name, selector string
	objectName                string
	contextOnly               bool
	withOwned                 bool
	// isUnread is set if the user may not, and need not, read it.
	isUnread bool
}

// Read returns the objects, ordered by kind, namespace and name. Kinds that the cluster does not
// serve have no objects. A note lists optional kinds that the user may not read, with the error of
// the first. The error joins the errors of all requests.
func (c *Cluster) Read(ctx context.Context, q Query) (objects []manifest.Object, notes []string, err error) {
	requests := q.requests()
	if q.Policies {
		for _, k := range q.rules() {
			requests = append(requests, request{kind: k, contextOnly: true})
		}
	}
	for i, r := range requests {
		if slices.Contains(q.Required, r.Resource) {
			requests[i].unread = ""
		}
	}
	objects, notes, err = c.readAll(ctx, requests)
	isUnreadPreset := func(r request) bool { return r.isUnread && r.isPreset() }
	if q.PresetsOptional && slices.ContainsFunc(requests, isUnreadPreset) { // the others alone would mislead
		objects = slices.DeleteFunc(objects, simulate.IsPreset)
	}
	return objects, notes, err
}

// rules returns the kinds of policies to read, and PresetRollouts except for an import.
// MutatingAdmissionPolicies are not evaluated: notes name them, except in a plan, and only an
// import needs their bindings.
func (q Query) rules() []kind {
	out := slices.Clone(rules)
	if !q.OnlyVMs {
		out = append(out, mutatingRules)
	}
	if q.Imports {
		return append(out, mutatingBindings)
	}
	return append(out, rollouts)
}

func (c *Cluster) readAll(ctx context.Context, requests []request) (objects []manifest.Object, notes []string, err error) {
	found, problems := make([][]manifest.Object, len(requests)), make([]error, len(requests))
	var group errgroup.Group
	group.SetLimit(parallel)
	for i, r := range requests {
		group.Go(func() error {
			found[i], problems[i] = c.read(ctx, r)
			return nil
		})
	}
	_ = group.Wait() // problems has the errors
	var unread []string
	var because error
	for i, r := range requests {
		if r.name == "" && apierrors.IsForbidden(problems[i]) && !c.serves(r.GroupVersionResource) {
			problems[i] = nil // API servers check permissions before they look for the resource
		}
		if r.unread != "" && apierrors.IsForbidden(problems[i]) {
			because = cmp.Or(because, problems[i])
			unread = append(unread, r.unread)
			requests[i].isUnread, problems[i] = true, nil
		}
	}
	if len(unread) > 0 {
		notes = append(notes, strings.Join(slices.Compact(unread), ", ")+" are unknown: "+because.Error())
	}
	return slices.Concat(found...), notes, errors.Join(problems...)
}

// serves reports whether the cluster serves a resource, as far as is known.
func (c *Cluster) serves(resource schema.GroupVersionResource) bool {
	if c.Mapper == nil {
		return true
	}
	_, err := c.Mapper.KindFor(resource)
	return !meta.IsNoMatchError(err)
}

func (q Query) requests() []request {
	var out []request
	list := func(r request) {
		if r.namespaced {
			r.namespace = q.Namespace
		}
		out = append(out, r)
	}
	everywhere := slices.Clone(q.Namespaces)
	if q.Namespace != "" && !slices.Contains(everywhere, q.Namespace) {
		everywhere = append(everywhere, q.Namespace)
	}
	for _, n := range q.Names {
		r := request{kind: n.kind, name: n.name, withOwned: true}
		if n.kind.isVM() {
			r.selector = q.Selector
		}
		list(r)
	}
	if q.VMs {
		list(request{kind: vms, selector: q.Selector})
	}
	if q.VMs && !q.OnlyVMs {
		list(request{kind: vmis, selector: q.Selector})
	}
	for _, k := range q.contextKinds() {
		if q.All || !k.namespaced {
			list(request{kind: k, contextOnly: q.ContextOnly})
			continue
		}
		for _, namespace := range everywhere {
			out = append(out, request{kind: k, namespace: namespace, contextOnly: q.ContextOnly})
		}
	}
	if q.All {
		return append(out, request{kind: namespaces})
	}
	for _, name := range everywhere {
		out = append(out, request{kind: namespaces, name: name})
	}
	return out
}

// optional returns a kind of presets that the user need not be permitted to read.
func optional(k kind) kind {
	k.unread = "the existing presets for VMs"
	return k
}

// If the user names presets, only those are read.
func (q Query) contextKinds() []kind {
	if q.Imports {
		return append(slices.Clone(alongside), standalone[0], optional(local), optional(wide), exceptions)
	}
	out := slices.Clone(standalone)
	if q.Addon {
		out = slices.Clone(alongside)
	}
	out = append(out, exceptions)
	if q.OnlyVMs {
		out = slices.DeleteFunc(out, func(k kind) bool { return k.isProfile() })
	}
	if slices.ContainsFunc(q.Names, func(n Name) bool { return !n.kind.isVM() }) {
		return out
	}
	if q.PresetsOptional {
		for i := range out {
			out[i].unread = cmp.Or(out[i].unread, "instancetypes and preferences")
		}
		return append([]kind{optional(local), optional(wide)}, out...)
	}
	return append([]kind{local, wide}, out...)
}

func (c *Cluster) read(ctx context.Context, r request) ([]manifest.Object, error) {
	var client dynamic.ResourceInterface = c.Objects.Resource(r.GroupVersionResource)
	if r.namespace != "" {
		client = c.Objects.Resource(r.GroupVersionResource).Namespace(r.namespace)
	}
	if r.name != "" {
		object, err := client.Get(ctx, r.name, metav1.GetOptions{})
		if r.Resource == namespaces.Resource && apierrors.IsNotFound(err) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("cannot read %s %s: %w", r.Resource, r.name, err)
		}
		return c.append(nil, r, object)
	}
	var out []manifest.Object
	pages := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return client.List(ctx, options)
	})
	pages.PageSize = page
	options := metav1.ListOptions{LabelSelector: r.selector}
	if r.objectName != "" {
		options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, r.objectName).String()
	}
	err := pages.EachListItem(ctx, options, func(object runtime.Object) (err error) {
		if item, ok := object.(*unstructured.Unstructured); ok {
			out, err = c.append(out, r, item)
		}
		return err
	})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if apierrors.IsForbidden(err) && r.Resource == wide.Resource {
		return nil, fmt.Errorf("cannot list %s: %w: ask for a ClusterRoleBinding to the ClusterRole virtwright-presets-view", r.Resource, err)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot list %s: %w", r.Resource, err)
	}
	return out, nil
}

// append adds an object, unless it is a VMI that its VM represents.
func (c *Cluster) append(to []manifest.Object, r request, object *unstructured.Unstructured) ([]manifest.Object, error) {
	if owner := metav1.GetControllerOfNoCopy(object); r.Resource == vmis.Resource && !r.withOwned && owner != nil && owner.Kind == "VirtualMachine" {
		return to, nil
	}
	object.SetManagedFields(nil)
	raw, err := object.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("cannot read %s %s: %w", r.Resource, object.GetName(), err)
	}
	return append(to, manifest.Object{
		Where: manifest.Position{File: "cluster " + c.Name}, APIVersion: object.GetAPIVersion(), Kind: object.GetKind(), JSON: raw,
		Context: r.contextOnly,
	}), nil
}

// Parameters reads the parameter objects that bindings reference. References without a namespace
// are read from the given namespaces, or from all if none are given. Kinds that the cluster does
// not serve have no objects. Notes list what the user may not read.
func (c *Cluster) Parameters(ctx context.Context, of []policies.Reference, namespaces []string) (objects []manifest.Object, notes []string, err error) {
	var requests []request
	for _, ref := range of {
		mapping, err := c.Mapper.RESTMapping(ref.Kind.GroupKind(), ref.Kind.Version)
		if meta.IsNoMatchError(err) {
			text := fmt.Sprintf("ValidatingAdmissionPolicy %s has parameters of the kind %s of %s, which the cluster does not serve: until it does, the API server rejects all objects that the policy matches, unless its failurePolicy is Ignore",
				ref.Policy, ref.Kind.Kind, ref.Kind.GroupVersion())
			if !slices.Contains(notes, text) {
				notes = append(notes, text)
			}
			continue
		}
		if err != nil {
			return nil, nil, fmt.Errorf("cannot find the kind %s of a ValidatingAdmissionPolicy's parameters: %w", ref.Kind.Kind, err)
		}
		in := namespaces
		switch {
		case mapping.Scope.Name() == meta.RESTScopeNameRoot, len(namespaces) == 0 && ref.Namespace == "":
			in = []string{metav1.NamespaceAll}
		case ref.Namespace != "":
			in = []string{ref.Namespace}
		}
		for _, namespace := range in {
			requests = append(requests, request{
				kind:      kind{GroupVersionResource: mapping.Resource, unread: "parameters of ValidatingAdmissionPolicy " + ref.Policy},
				namespace: namespace, objectName: ref.Name, selector: ref.Selector, contextOnly: true,
			})
		}
	}
	objects, unread, err := c.readAll(ctx, requests)
	return objects, append(notes, unread...), err
}

type kind struct {
	schema.GroupVersionResource
	namespaced bool
	// names are the types that a user may write, shortest first.
	names []string
	// unread is what a note says is unknown if the user may not read the kind; if it is empty, that
	// is an error.
	unread string
}

var (
	kubevirt     = schema.GroupVersion{Group: "kubevirt.io", Version: "v1"}
	instancetype = schema.GroupVersion{Group: "instancetype.kubevirt.io", Version: "v1beta1"}

	vms   = named("virtualmachine", "vm", kubevirt, true)
	vmis  = named("virtualmachineinstance", "vmi", kubevirt, true)
	local = named("virtualmachinepreset", "vmpreset", v1alpha1.GroupVersion, true)
	wide  = named("clustervirtualmachinepreset", "cvmpreset", v1alpha1.GroupVersion, false)

	types = []kind{vms, vmis, local, wide}

	namespaces = kind{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}, unread: "the labels of namespaces"}

	exceptions = kind{GroupVersionResource: v1alpha1.GroupVersion.WithResource(v1alpha1.ResourcePresetExceptions), namespaced: true, unread: "PresetExceptions"}

	rollouts = kind{GroupVersionResource: v1alpha1.GroupVersion.WithResource(v1alpha1.ResourcePresetRollouts), unread: "PresetRollouts"}

	rules = []kind{
		{GroupVersionResource: admissionregistrationv1.SchemeGroupVersion.WithResource("validatingadmissionpolicies"), unread: "ValidatingAdmissionPolicies"},
		{GroupVersionResource: admissionregistrationv1.SchemeGroupVersion.WithResource("validatingadmissionpolicybindings"), unread: "bindings of ValidatingAdmissionPolicies"},
	}
	mutatingRules    = kind{GroupVersionResource: admissionregistrationv1.SchemeGroupVersion.WithResource("mutatingadmissionpolicies"), unread: "MutatingAdmissionPolicies"}
	mutatingBindings = kind{GroupVersionResource: admissionregistrationv1.SchemeGroupVersion.WithResource("mutatingadmissionpolicybindings"), unread: "bindings of MutatingAdmissionPolicies"}

	// standalone kinds are applied only in clusters without KubeVirt.
	standalone = []kind{
		{GroupVersionResource: kubevirt.WithResource("virtualmachineinstancepresets"), namespaced: true, unread: "VirtualMachineInstancePresets"},
		{GroupVersionResource: v1alpha1.GroupVersion.WithResource("frontendprofiles"), unread: "FrontendProfiles"},
		{GroupVersionResource: v1alpha1.GroupVersion.WithResource("backendprofiles"), unread: "BackendProfiles"},
	}
	// alongside kinds are applied only in clusters with KubeVirt.
	alongside = []kind{
		{GroupVersionResource: instancetype.WithResource("virtualmachineinstancetypes"), namespaced: true},
		{GroupVersionResource: instancetype.WithResource("virtualmachineclusterinstancetypes")},
		{GroupVersionResource: instancetype.WithResource("virtualmachinepreferences"), namespaced: true},
		{GroupVersionResource: instancetype.WithResource("virtualmachineclusterpreferences")},
	}
)

func named(singular, short string, in schema.GroupVersion, namespaced bool) kind {
	return kind{GroupVersionResource: in.WithResource(singular + "s"), namespaced: namespaced, names: []string{short, short + "s", singular}}
}

func (k kind) isVM() bool { return k.Resource == vms.Resource || k.Resource == vmis.Resource }

func (k kind) isPreset() bool { return k.Resource == local.Resource || k.Resource == wide.Resource }

func (k kind) isProfile() bool {
	return k.Resource == "frontendprofiles" || k.Resource == "backendprofiles"
}
