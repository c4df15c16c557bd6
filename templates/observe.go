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
	"sigs.k8s.io/controller-runtime/pkg/client"

	sspv1alpha1 "github.com/virtwright/virtwright/api/ssp/v1alpha1"
	"github.com/virtwright/virtwright/templates/blueprint"
	"github.com/virtwright/virtwright/templates/format"
)

var vmKind = schema.GroupVersionKind{Group: "kubevirt.io", Version: "v1", Kind: "VirtualMachine"}

// An observation is the input of decide. Fields after the first that explains why no template can
// be made are empty.
type observation struct {
	request *sspv1alpha1.VirtualMachineTemplateRequest
	now     time.Time

	format     sspv1alpha1.Format
	codec      codec
	name       string                     // the template's
	disabled   bool                       // this cluster makes no templates of the format
	denied     []sspv1alpha1.Permission   // the permissions that the requester lacks
	missingAPI string                     // the API of the format if API servers do not serve it
	lookupErr  error                      // the error of asking for the API
	existing   *unstructured.Unstructured // the object that has the template's name; nil if there is none
	source     *unstructured.Unstructured // the VM; nil if it does not exist, or if status has the hash of existing
}

type codec interface {
	Encode(b *blueprint.Blueprint, meta format.Meta) (*unstructured.Unstructured, error)
	Verify(template *unstructured.Unstructured, b *blueprint.Blueprint) error
	Hash(template *unstructured.Unstructured) string
}

func codecOf(of sspv1alpha1.Format) codec {
	if f, known := format.ByName(of.Name); known {
		f.Format = of
		return f
	}
	return nil
}

// observe reads the objects that a request refers to. It stops at the first reason why no template
// can be made, so that nothing is read for a requester who lacks permissions.
func (c *Controller) observe(ctx context.Context, request *sspv1alpha1.VirtualMachineTemplateRequest) (*observation, error) {
	o := &observation{request: request, now: time.Now()}
	if finished(&request.Status) {
		return o, nil
	}
	var ok bool
	if o.format, o.name, ok = request.Spec.Target.Format(); !ok || request.Spec.Requester == nil {
		return o, nil
	}
	if o.name == "" {
		o.name = request.Name
	}
	o.codec = codecOf(o.format)
	if o.disabled = !slices.Contains(c.Formats, o.format.Name); o.disabled {
		return o, nil
	}
	var err error
	if o.denied, err = c.review(ctx, request, o.format); err != nil || len(o.denied) > 0 {
		return o, err
	}
	o.format, o.missingAPI, o.lookupErr = c.Discovery.Find(ctx, o.format)
	if o.missingAPI != "" || o.lookupErr != nil {
		return o, nil //nolint:nilerr // decide reports it in status
	}
	o.codec = codecOf(o.format) // in the version that is served
	o.existing, err = c.read(ctx, o.format.Kind, types.NamespacedName{Namespace: request.Namespace, Name: o.name})
	if err != nil || o.existing != nil && request.Status.TemplateHash != "" {
		return o, err
	}
	source := request.Spec.Source
	o.source, err = c.read(ctx, vmKind, types.NamespacedName{Namespace: source.VMNamespace, Name: source.VMName})
	return o, err
}

func (c *Controller) review(ctx context.Context, request *sspv1alpha1.VirtualMachineTemplateRequest, f sspv1alpha1.Format) ([]sspv1alpha1.Permission, error) {
	var denied []sspv1alpha1.Permission
	source := request.Spec.Source
	for _, permission := range sspv1alpha1.RequiredPermissions(request.Namespace, source.VMNamespace, source.VMName, f) {
		allowed, err := c.Authority.Allowed(ctx, request.Spec.Requester.UserInfo(), permission.Attributes)
		if err != nil {
			return nil, err
		}
		if !allowed {
			denied = append(denied, permission)
		}
	}
	return denied, nil
}

// read returns an object from the API server; nil if it does not exist.
func (c *Controller) read(ctx context.Context, kind schema.GroupVersionKind, key client.ObjectKey) (*unstructured.Unstructured, error) {
	out := &unstructured.Unstructured{}
	out.SetGroupVersionKind(kind)
	switch err := c.Live.Get(ctx, key, out); {
	case apierrors.IsNotFound(err):
		return nil, nil //nolint:nilnil // nil is the answer
	case err != nil:
		return nil, fmt.Errorf("cannot read %s %s: %w", kind.Kind, key, err)
	}
	return out, nil
}
