// Package core has the names of the resources that KubeVirt's clients register.
package core

const (
	// GroupName is the API group of the resources.
	GroupName = "template.kubevirt.io"
	// SingularResourceName is the singular name of templates.
	SingularResourceName = "virtualmachinetemplate"
	// PluralResourceName is the plural name of templates.
	PluralResourceName = "virtualmachinetemplates"
	// SingularRequestResourceName is the singular name of requests for a template.
	SingularRequestResourceName = "virtualmachinetemplaterequest"
)
