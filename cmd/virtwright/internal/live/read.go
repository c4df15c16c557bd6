// Package live reads VMs, presets and what else they depend on from a cluster.
package live

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/pager"

	"github.com/virtwright/virtwright/cmd/virtwright/internal/manifest"
)

const (
	// page is how many objects one request lists.
	page = 500
	// parallel is how many requests are sent at the same time.
	parallel = 8
)

// A Query says what to read.
type Query struct {
	// All reads all namespaces.
	All bool
	// Namespace is that of VMs and of what Names name; empty for none.
	Namespace string
	// Namespaces are those whose presets are read, too.
	Namespaces []string
	// Names restrict VMs and VMIs, or presets, to those named.
	Names []Name
	// Selector of VMs and VMIs by label.
	Selector string
	// VMs says that VMs and VMIs are read even if Names has none.
	VMs bool
	// OnlyVMs leaves out VMIs and profiles.
	OnlyVMs bool
	// Surroundings says that presets are not asked for themselves: they only act.
	Surroundings bool
	// Addon says that KubeVirt is installed.
	Addon bool
}

// A Cluster is what is read.
type Cluster struct {
	Objects dynamic.Interface
	// Name stands in the position of each object.
	Name string
}

// request is one list or one object.
type request struct {
	kind
	namespace, name, selector string
	// context says that the objects only act.
	context bool
	// owned says that also VMIs that a VM controls are read.
	owned bool
}

// Read returns the objects, in the order of kinds, namespaces and names. A kind that the cluster does
// not have has no objects. A note says if namespaces or profiles may not be read. The error joins those of all
// requests.
func (c *Cluster) Read(ctx context.Context, q Query) (objects []manifest.Object, notes []string, err error) {
	requests := q.requests()
	found, problems := make([][]manifest.Object, len(requests)), make([]error, len(requests))
	var group errgroup.Group
	group.SetLimit(parallel)
	for i, r := range requests {
		group.Go(func() error {
			found[i], problems[i] = c.read(ctx, r)
			return nil
		})
	}
	_ = group.Wait() // each error is in problems
	for i, r := range requests {
		if r.unread != "" && apierrors.IsForbidden(problems[i]) {
			notes, problems[i] = append(notes, r.unread+": "+problems[i].Error()), nil
		}
	}
	return slices.Concat(found...), notes, errors.Join(problems...)
}

// requests are what is asked for.
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
		r := request{kind: n.kind, name: n.name, owned: true}
		if n.IsVM() {
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
	for _, k := range q.acting() {
		if q.All || !k.namespaced {
			list(request{kind: k, context: q.Surroundings})
			continue
		}
		for _, namespace := range everywhere {
			out = append(out, request{kind: k, namespace: namespace, context: q.Surroundings})
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

// acting are the kinds whose objects are all read. Presets that are named are the only ones.
func (q Query) acting() []kind {
	out := slices.Clone(standalone)
	if q.Addon {
		out = slices.Clone(alongside)
	}
	out = append(out, exceptions)
	if q.OnlyVMs {
		out = slices.DeleteFunc(out, func(k kind) bool { return k.isProfile() })
	}
	if slices.ContainsFunc(q.Names, func(n Name) bool { return !n.IsVM() }) {
		return out
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
	err := pages.EachListItem(ctx, metav1.ListOptions{LabelSelector: r.selector}, func(object runtime.Object) (err error) {
		if item, ok := object.(*unstructured.Unstructured); ok {
			out, err = c.append(out, r, item)
		}
		return err
	})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot list %s: %w", r.Resource, err)
	}
	return out, nil
}

// append adds an object to what was read, unless it is a VMI that stands for its VM.
func (c *Cluster) append(to []manifest.Object, r request, object *unstructured.Unstructured) ([]manifest.Object, error) {
	if owner := metav1.GetControllerOfNoCopy(object); r.Resource == vmis.Resource && !r.owned && owner != nil && owner.Kind == "VirtualMachine" {
		return to, nil
	}
	object.SetManagedFields(nil)
	raw, err := object.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("cannot read %s %s: %w", r.Resource, object.GetName(), err)
	}
	return append(to, manifest.Object{
		Where: manifest.Position{File: "cluster " + c.Name}, APIVersion: object.GetAPIVersion(), Kind: object.GetKind(), JSON: raw,
		Context: r.context,
	}), nil
}
