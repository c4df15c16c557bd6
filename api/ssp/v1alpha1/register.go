package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group of the kinds in this package.
const GroupName = "ssp.kubevirt.io"

// KindVirtualMachineTemplateRequest is the kind of requests.
const KindVirtualMachineTemplateRequest = "VirtualMachineTemplateRequest"

// ResourceVirtualMachineTemplateRequests is the resource of requests, in paths and RBAC rules.
const ResourceVirtualMachineTemplateRequests = "virtualmachinetemplaterequests"

// SubresourceSource exists in RBAC only. A user who may create it, in the namespace and with the
// name of a VM, may create a template of the VM in another namespace.
const SubresourceSource = "source"

var (
	// GroupVersion is the group and version of the kinds in this package.
	GroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1alpha1"}

	// SchemeBuilder collects the functions that make a scheme know this package.
	SchemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

	// AddToScheme makes a scheme know the kinds of this package.
	AddToScheme = SchemeBuilder.AddToScheme
)

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &VirtualMachineTemplateRequest{}, &VirtualMachineTemplateRequestList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
