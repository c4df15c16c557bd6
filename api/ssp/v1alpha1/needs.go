package v1alpha1

import (
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A Need is something that a requester must be allowed to do.
//
// +kubebuilder:object:generate=false
type Need struct {
	// Path is the field of the request that takes it.
	Path *field.Path
	// What the requester must be allowed to do.
	What authorizationv1.ResourceAttributes
}

// String says what it is to do, as "create templates.template.openshift.io in
// namespace shop".
func (n Need) String() string {
	resource := n.What.Resource
	if n.What.Subresource != "" {
		resource += "/" + n.What.Subresource
	}
	if n.What.Group != "" {
		resource += "." + n.What.Group
	}
	if n.What.Name != "" {
		resource += " " + n.What.Name
	}
	return n.What.Verb + " " + resource + " in namespace " + n.What.Namespace
}

// AskNeed is to make requests in a namespace, which an annotation takes too.
func AskNeed(namespace string) Need {
	return Need{What: authorizationv1.ResourceAttributes{
		Namespace: namespace, Verb: "create", Group: GroupName, Resource: ResourceVirtualMachineTemplateRequests,
	}}
}

// Needs are what it takes to have a template of a VM made in a namespace: to
// read the VM and to create the template oneself, and, where the template is not
// in the VM's namespace, a right that is only for this.
func Needs(namespace, vmNamespace, vmName string, format Format) []Need {
	spec := field.NewPath("spec")
	needs := []Need{{
		Path: spec.Child("source"),
		What: authorizationv1.ResourceAttributes{
			Namespace: vmNamespace, Verb: "get", Group: "kubevirt.io", Resource: "virtualmachines", Name: vmName,
		},
	}}
	if namespace != vmNamespace {
		needs = append(needs, Need{
			Path: spec.Child("source", "vmNamespace"),
			What: authorizationv1.ResourceAttributes{
				Namespace: vmNamespace, Verb: "create", Group: GroupName,
				Resource: ResourceVirtualMachineTemplateRequests, Subresource: SubresourceSource, Name: vmName,
			},
		})
	}
	return append(needs, Need{
		Path: spec.Child("target", format.Name),
		What: authorizationv1.ResourceAttributes{
			Namespace: namespace, Verb: "create", Group: format.Kind.Group, Resource: format.Resource,
		},
	})
}
