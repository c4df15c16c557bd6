// Package virttemplate has the client of the template API that KubeVirt names. The API is not
// installed in tests: KubeVirt's components never create the client, and virtctl gets an error.
package virttemplate

import (
	"context"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"kubevirt.io/virt-template-api/core/subresourcesv1beta1"
	"kubevirt.io/virt-template-api/core/v1beta1"
)

// Interface is the client of the group.
type Interface interface {
	TemplateV1alpha1() Group // of KubeVirt 1.8
	TemplateV1beta1() Group
}

// Group is the client of one version of the group.
type Group interface {
	RESTClient() rest.Interface
	VirtualMachineTemplates(namespace string) Templates
	VirtualMachineTemplateRequests(namespace string) Requests
}

// Templates is the client of the templates in a namespace.
type Templates interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions) (*v1beta1.VirtualMachineTemplate, error)
	Process(ctx context.Context, name string, opts subresourcesv1beta1.ProcessOptions) (*subresourcesv1beta1.ProcessedVirtualMachineTemplate, error)
	CreateVirtualMachine(ctx context.Context, name string, opts subresourcesv1beta1.ProcessOptions) (*subresourcesv1beta1.ProcessedVirtualMachineTemplate, error)
}

// Requests is the client of the requests for templates in a namespace.
type Requests interface {
	Create(ctx context.Context, request *v1beta1.VirtualMachineTemplateRequest, opts metav1.CreateOptions) (*v1beta1.VirtualMachineTemplateRequest, error)
}

// NewForConfig always returns an error.
func NewForConfig(*rest.Config) (Interface, error) {
	return nil, errors.New("cannot use templates: this build of KubeVirt has no client for them")
}
