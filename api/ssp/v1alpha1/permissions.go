package v1alpha1

import (
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A Permission is an action that a requester must be authorized for.
//
// +kubebuilder:object:generate=false
type Permission struct {
	// Path is the field of the request that requires the permission.
	Path *field.Path
	// Attributes describe the action.
	Attributes authorizationv1.ResourceAttributes
}

// String describes the action, as "create templates.template.openshift.io in namespace shop".
func (p Permission) String() string {
	a := p.Attributes
	resource := a.Resource
	if a.Subresource != "" {
		resource += "/" + a.Subresource
	}
	if a.Group != "" {
		resource += "." + a.Group
	}
	if a.Name != "" {
		resource += " " + a.Name
	}
	if a.Namespace == "" {
		return a.Verb + " " + resource + " in all namespaces"
	}
	return a.Verb + " " + resource + " in namespace " + a.Namespace
}

// CreateRequestPermission permits creating requests in a namespace. Asking for a template by
// annotation requires it, too.
func CreateRequestPermission(namespace string) Permission {
	return Permission{Attributes: authorizationv1.ResourceAttributes{
		Namespace: namespace, Verb: "create", Group: GroupName, Resource: ResourceVirtualMachineTemplateRequests,
	}}
}

// RequiredPermissions lists what a requester of a template must be authorized for: to read the VM
// and to create the template. If the template is in another namespace than the VM, a permission
// that exists for this purpose only is required as well.
func RequiredPermissions(namespace, vmNamespace, vmName string, format Format) []Permission {
	spec := field.NewPath("spec")
	required := []Permission{{
		Path: spec.Child("source"),
		Attributes: authorizationv1.ResourceAttributes{
			Namespace: vmNamespace, Verb: "get", Group: "kubevirt.io", Resource: "virtualmachines", Name: vmName,
		},
	}}
	if namespace != vmNamespace {
		required = append(required, Permission{
			Path: spec.Child("source", "vmNamespace"),
			Attributes: authorizationv1.ResourceAttributes{
				Namespace: vmNamespace, Verb: "create", Group: GroupName,
				Resource: ResourceVirtualMachineTemplateRequests, Subresource: SubresourceSource, Name: vmName,
			},
		})
	}
	return append(required, Permission{
		Path: spec.Child("target", format.Name),
		Attributes: authorizationv1.ResourceAttributes{
			Namespace: namespace, Verb: "create", Group: format.Kind.Group, Resource: format.Resource,
		},
	})
}
