// Package core has the names of a resource that KubeVirt's clients register.
package core

const (
	// GroupName is the API group of the resource.
	GroupName = "template.kubevirt.io"
	// SingularResourceName is the singular name of the resource.
	SingularResourceName = "virtualmachinetemplate"
	// PluralResourceName is the plural name of the resource.
	PluralResourceName = "virtualmachinetemplates"
)
