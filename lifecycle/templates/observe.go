package templates

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	sspv1alpha1 "github.com/virtwright/virtwright/api/ssp/v1alpha1"
	"github.com/virtwright/virtwright/lifecycle/templates/blueprint"
	"github.com/virtwright/virtwright/lifecycle/templates/format"
)

// machines are VMs in the version in which they are read.
var machines = schema.GroupVersionKind{Group: "kubevirt.io", Version: "v1", Kind: "VirtualMachine"}

// A sight is what there is to decide about a request.
type sight struct {
	request *sspv1alpha1.VirtualMachineTemplateRequest
	now     time.Time

	format sspv1alpha1.Format
	// maker writes templates of the format.
	maker maker
	// name is the template's.
	name string
	// disabled says that templates of the format are not made here.
	disabled bool
	// refused is what the requester may not do; empty if nothing.
	refused []sspv1alpha1.Need
	// lack is what API servers do not serve; empty if nothing.
	lack string
	// mute says who did not answer; nil if all did.
	mute error
	// existing is what has the template's name; nil if nothing.
	existing *unstructured.Unstructured
	// source is the VM; nil if it does not exist, or if status has the hash of what exists.
	source *unstructured.Unstructured
}

// A maker writes and proves templates of one format.
type maker interface {
	Encode(b *blueprint.Blueprint, meta format.Meta) (*unstructured.Unstructured, error)
	Verify(template *unstructured.Unstructured, b *blueprint.Blueprint) error
	Hash(template *unstructured.Unstructured) string
}

// makerOf is that of a format; nil for none.
func makerOf(name string) maker {
	if f, known := format.Named(name); known {
		return f
	}
	return nil
}

// observe looks at what a request is about, no further than there is reason to.
func (c *Controller) observe(ctx context.Context, request *sspv1alpha1.VirtualMachineTemplateRequest) (*sight, error) {
	s := &sight{request: request, now: c.now()}
	if finished(&request.Status) {
		return s, nil
	}
	var ok bool
	if s.format, s.name, ok = request.Spec.Target.Format(); !ok || request.Spec.Requester == nil {
		return s, nil
	}
	if s.name == "" {
		s.name = request.Name
	}
	s.maker = makerOf(s.format.Name)
	if s.disabled = !slices.Contains(c.Formats, s.format.Name); s.disabled {
		return s, nil
	}
	var err error
	if s.refused, err = c.review(ctx, request, s.format); err != nil || len(s.refused) > 0 {
		return s, err
	}
	s.lack, s.mute = c.Serving.Serves(ctx, s.format)
	if s.lack != "" || s.mute != nil {
		return s, nil //nolint:nilerr // it is told in status
	}
	s.existing, err = c.read(ctx, s.format.Kind, types.NamespacedName{Namespace: request.Namespace, Name: s.name})
	if err != nil || s.existing != nil && request.Status.TemplateHash != "" {
		return s, err
	}
	source := request.Spec.Source
	s.source, err = c.read(ctx, machines, types.NamespacedName{Namespace: source.VMNamespace, Name: source.VMName})
	return s, err
}

// review is what the requester may not do of what the request takes.
func (c *Controller) review(ctx context.Context, request *sspv1alpha1.VirtualMachineTemplateRequest, of sspv1alpha1.Format) ([]sspv1alpha1.Need, error) {
	var refused []sspv1alpha1.Need
	source := request.Spec.Source
	for _, need := range sspv1alpha1.Needs(request.Namespace, source.VMNamespace, source.VMName, of) {
		may, err := c.Authority.Allowed(ctx, request.Spec.Requester.UserInfo(), need.What)
		if err != nil {
			return nil, err
		}
		if !may {
			refused = append(refused, need)
		}
	}
	return refused, nil
}

// read is an object, live and whole; nil for none.
func (c *Controller) read(ctx context.Context, kind schema.GroupVersionKind, key types.NamespacedName) (*unstructured.Unstructured, error) {
	out := &unstructured.Unstructured{}
	out.SetGroupVersionKind(kind)
	switch err := c.Live.Get(ctx, key, out); {
	case apierrors.IsNotFound(err):
		return nil, nil //nolint:nilnil // there is none
	case err != nil:
		return nil, fmt.Errorf("cannot read %s %s: %w", kind.Kind, key, err)
	}
	return out, nil
}
