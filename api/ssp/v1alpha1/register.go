package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group of the kinds in this package.
const GroupName = "ssp.kubevirt.io"

// KindVirtualMachineTemplateRequest is the kind of requests, as it stands in manifests.
const KindVirtualMachineTemplateRequest = "VirtualMachineTemplateRequest"

// ResourceVirtualMachineTemplateRequests are requests, as they stand in request paths and RBAC rules.
const ResourceVirtualMachineTemplateRequests = "virtualmachinetemplaterequests"

// SubresourceSource is what somebody must be allowed to create, in the namespace
// of a VM and under its name, to make a template of it in another namespace. No
// API server serves it: it is for RBAC alone.
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
