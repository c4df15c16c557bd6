package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// VirtualMachineTemplateRequest creates a template from an existing VirtualMachine. Every value of
// its template becomes a parameter with the current value as default. For example:
//
//	apiVersion: ssp.kubevirt.io/v1alpha1
//	kind: VirtualMachineTemplateRequest
//	metadata: {name: web-golden, namespace: shop}
//	spec:
//	  source: {vmName: web, vmNamespace: shop}
//	  target: {openshiftTemplate: {name: web-golden}}
//
// The template is created once, in the namespace of the request, and stays when the request is
// deleted. Secrets of the VM, such as cloud-init data, are not in it: status.withheldParameters
// lists the parameters that replace them.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=virtualmachinetemplaterequests,singular=virtualmachinetemplaterequest,shortName=vmtreq,categories=virtwright,scope=Namespaced
// +kubebuilder:printcolumn:name="VM",type=string,JSONPath=`.spec.source.vmName`,description="The VirtualMachine from which the template is created."
// +kubebuilder:printcolumn:name="Template",type=string,JSONPath=`.status.templateRef.name`,description="The template, once it exists."
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether the template exists."
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="The reason of Ready."
// +kubebuilder:printcolumn:name="Verified",type=string,JSONPath=`.status.conditions[?(@.type=="Verified")].status`,priority=1,description="Whether processing the template results in the same VirtualMachine."
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type VirtualMachineTemplateRequest struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec names the source and the template. It is immutable: create another request instead.
	Spec VirtualMachineTemplateRequestSpec `json:"spec"`

	// status is the observed state of the request.
	//
	// +optional
	Status VirtualMachineTemplateRequestStatus `json:"status,omitempty"`
}

// VirtualMachineTemplateRequestList is a list of VirtualMachineTemplateRequest.
//
// +kubebuilder:object:root=true
type VirtualMachineTemplateRequestList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// Items are the requests.
	Items []VirtualMachineTemplateRequest `json:"items"`
}

// VirtualMachineTemplateRequestSpec names the source and the template.
//
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a request is immutable: create another one"
// +kubebuilder:validation:XValidation:rule="!has(self.vmName) && !has(self.templateName) && !has(self.format)",message="virtwright's webhook did not expand vmName, templateName and format: set source and target instead"
type VirtualMachineTemplateRequestSpec struct {
	// source is the VirtualMachine.
	Source VirtualMachineTemplateRequestSource `json:"source"`

	// target is the template, in one format.
	Target VirtualMachineTemplateRequestTarget `json:"target"`

	// dataVolumes controls the VM's dataVolumeTemplates. Keep (default) does not change them: a VM
	// created from the template in the same namespace would use the disks of the source, and is
	// rejected. Rename adds a generated suffix for every VM, so that copies can coexist with the
	// source.
	//
	// +optional
	// +kubebuilder:default=Keep
	DataVolumes DataVolumes `json:"dataVolumes,omitempty"`

	// templateLabels are additional labels of the template. VMs created from it do not get them.
	//
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	TemplateLabels map[string]TemplateLabel `json:"templateLabels,omitempty"`

	// ttlSecondsAfterFinished is how many seconds after the creation of the template the request is
	// deleted. Default: never. Failed requests and templates are not deleted.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`

	// requester is the user who created the request. Only virtwright writes it. The template is
	// created with the permissions of this user, which are checked on creation and before each
	// step.
	//
	// +optional
	Requester *Requester `json:"requester,omitempty"`

	// vmName is the short form of source.vmName, in the namespace of the request. It is not stored.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	VMName string `json:"vmName,omitempty"`

	// templateName is the short form of the name in target. It is not stored.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	TemplateName string `json:"templateName,omitempty"`

	// format is the short form of the format in target: template.openshift.io/v1,
	// template.kubevirt.io/v1alpha1 or configMap. It is not stored.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Format string `json:"format,omitempty"`
}

// VirtualMachineTemplateRequestSource names a VirtualMachine.
type VirtualMachineTemplateRequestSource struct {
	// vmName is the name of the VM.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	VMName string `json:"vmName"`

	// vmNamespace is the namespace of the VM. Default: the namespace of the request. For another
	// namespace, the requester must be allowed to create virtualmachinetemplaterequests/source with
	// the VM's name there.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	VMNamespace string `json:"vmNamespace"`

	// vmUID is the UID of the VM. If set, another VM with the same name is not used.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	VMUID string `json:"vmUID,omitempty"`
}

// VirtualMachineTemplateRequestTarget is the template, in one format.
//
// +kubebuilder:validation:XValidation:rule="(has(self.openshiftTemplate) ? 1 : 0) + (has(self.virtualMachineTemplate) ? 1 : 0) + (has(self.configMap) ? 1 : 0) == 1",message="set exactly one of openshiftTemplate, virtualMachineTemplate, configMap"
type VirtualMachineTemplateRequestTarget struct {
	// openshiftTemplate creates a Template of template.openshift.io/v1.
	//
	// +optional
	OpenShiftTemplate *OpenShiftTemplate `json:"openshiftTemplate,omitempty"`

	// virtualMachineTemplate creates a VirtualMachineTemplate of template.kubevirt.io/v1beta1, or
	// of v1alpha1 where only that is served.
	//
	// +optional
	VirtualMachineTemplate *VirtualMachineTemplate `json:"virtualMachineTemplate,omitempty"`

	// configMap creates a ConfigMap whose key template.yaml holds the manifest of a Template of
	// template.openshift.io/v1, for clusters without an API for templates. `virtwright template
	// process` reads it.
	//
	// +optional
	ConfigMap *ConfigMap `json:"configMap,omitempty"`
}

// OpenShiftTemplate creates a Template of template.openshift.io/v1.
type OpenShiftTemplate struct {
	// name of the template. Default: the name of the request.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
}

// VirtualMachineTemplate creates a VirtualMachineTemplate of template.kubevirt.io/v1beta1, or of
// v1alpha1 where only that is served.
type VirtualMachineTemplate struct {
	// name of the template. Default: the name of the request.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
}

// ConfigMap creates a ConfigMap with the manifest of a template.
type ConfigMap struct {
	// name of the ConfigMap. Default: the name of the request.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
}

// DataVolumes controls dataVolumeTemplates in a template.
//
// +kubebuilder:validation:Enum=Keep;Rename
type DataVolumes string

const (
	// DataVolumesKeep does not change them.
	DataVolumesKeep DataVolumes = "Keep"
	// DataVolumesRename adds a generated suffix for every VM.
	DataVolumesRename DataVolumes = "Rename"
)

// TemplateLabel is the value of a label.
//
// +kubebuilder:validation:MaxLength=63
type TemplateLabel string

// Requester is an authenticated user.
type Requester struct {
	// username is the user's name.
	//
	// +kubebuilder:validation:MinLength=1
	Username string `json:"username"`

	// uid identifies the user.
	//
	// +optional
	UID string `json:"uid,omitempty"`

	// groups are the user's groups.
	//
	// +optional
	// +listType=atomic
	Groups []string `json:"groups,omitempty"`

	// extra is additional information from authentication.
	//
	// +optional
	Extra map[string]Values `json:"extra,omitempty"`
}

// Values are the strings of one key.
//
// +listType=atomic
type Values []string
