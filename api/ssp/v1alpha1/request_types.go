package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// VirtualMachineTemplateRequest asks for a template made of a VirtualMachine
// that exists: every value of its instance becomes a parameter whose default is
// the value as it is now. For example:
//
//	apiVersion: ssp.kubevirt.io/v1alpha1
//	kind: VirtualMachineTemplateRequest
//	metadata: {name: web-golden, namespace: shop}
//	spec:
//	  source: {vmName: web, vmNamespace: shop}
//	  target: {openshiftTemplate: {name: web-golden}}
//
// The template is made in the namespace of the request, once, of the VM as it
// then is, and stays when the request is deleted. What the VM has of secrets
// (cloud-init data and the like) is not in it: status.withheldParameters lists
// the parameters that stand for them.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=virtualmachinetemplaterequests,singular=virtualmachinetemplaterequest,shortName=vmtr,categories=virtwright,scope=Namespaced
// +kubebuilder:printcolumn:name="VM",type=string,JSONPath=`.spec.source.vmName`,description="The VirtualMachine of which the template is made."
// +kubebuilder:printcolumn:name="Template",type=string,JSONPath=`.status.templateRef.name`,description="The template, once it is there."
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether the template is there."
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="Why it is or is not."
// +kubebuilder:printcolumn:name="Verified",type=string,JSONPath=`.status.conditions[?(@.type=="Verified")].status`,priority=1,description="Whether processing the template gave the VirtualMachine back."
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type VirtualMachineTemplateRequest struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says of what to make a template, and which. It cannot be changed:
	// make another request.
	Spec VirtualMachineTemplateRequestSpec `json:"spec"`

	// status says what became of the request.
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

// VirtualMachineTemplateRequestSpec says of what to make a template, and which.
//
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a request cannot be changed: make another one"
// +kubebuilder:validation:XValidation:rule="!has(self.vmName) && !has(self.templateName) && !has(self.format)",message="vmName, templateName and format are short for source and target, and virtwright's webhook, which expands them, was not asked: write source and target"
type VirtualMachineTemplateRequestSpec struct {
	// source is the VirtualMachine of which to make a template.
	Source VirtualMachineTemplateRequestSource `json:"source"`

	// target is the template to make: one of its forms.
	Target VirtualMachineTemplateRequestTarget `json:"target"`

	// dataVolumes says what becomes of the VM's dataVolumeTemplates. Keep, the
	// default, leaves them as they are: a VM made of the template in the same
	// namespace would then have the disks of the source, and is refused. Rename
	// gives each of them a suffix that is generated for every VM, so that copies
	// can live beside the source.
	//
	// +optional
	// +kubebuilder:default=Keep
	DataVolumes DataVolumes `json:"dataVolumes,omitempty"`

	// templateLabels are labels that the template gets beside its own. They are
	// not those of VMs made of it.
	//
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	TemplateLabels map[string]TemplateLabel `json:"templateLabels,omitempty"`

	// ttlSecondsAfterFinished is after how many seconds the request is deleted,
	// once its template is there; never where this is absent. A request that
	// came to nothing stays, to say why. The template stays in any case.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`

	// requester is who asks. virtwright writes it on creation; what is made is
	// made by the rights that this user has then and when the template is written.
	//
	// +optional
	Requester *Requester `json:"requester,omitempty"`

	// vmName is short for source.vmName, in the namespace of the request. It is
	// not stored.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	VMName string `json:"vmName,omitempty"`

	// templateName is short for the name in target, with format. It is not stored.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	TemplateName string `json:"templateName,omitempty"`

	// format is short for the form in target: template.openshift.io/v1,
	// template.kubevirt.io/v1alpha1 or configMap. It is not stored.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Format string `json:"format,omitempty"`
}

// VirtualMachineTemplateRequestSource is the VirtualMachine of which to make a template.
type VirtualMachineTemplateRequestSource struct {
	// vmName is its name.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	VMName string `json:"vmName"`

	// vmNamespace is its namespace; that of the request where it is not given. For
	// another one, the requester must be allowed to create
	// virtualmachinetemplaterequests/source under the VM's name there.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	VMNamespace string `json:"vmNamespace"`

	// vmUID is its UID, if only that one will do, and not another VM that came
	// under the same name.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	VMUID string `json:"vmUID,omitempty"`
}

// VirtualMachineTemplateRequestTarget is the template to make: one of its forms.
//
// +kubebuilder:validation:XValidation:rule="(has(self.openshiftTemplate) ? 1 : 0) + (has(self.virtualMachineTemplate) ? 1 : 0) + (has(self.configMap) ? 1 : 0) == 1",message="give exactly one of openshiftTemplate, virtualMachineTemplate, configMap"
type VirtualMachineTemplateRequestTarget struct {
	// openshiftTemplate asks for a Template of template.openshift.io/v1.
	//
	// +optional
	OpenShiftTemplate *OpenShiftTemplate `json:"openshiftTemplate,omitempty"`

	// virtualMachineTemplate asks for a VirtualMachineTemplate of template.kubevirt.io/v1alpha1.
	//
	// +optional
	VirtualMachineTemplate *VirtualMachineTemplate `json:"virtualMachineTemplate,omitempty"`

	// configMap asks for a ConfigMap whose key template.yaml has the manifest of
	// a Template of template.openshift.io/v1, for clusters without an API for
	// templates: `virtwright template process` reads it.
	//
	// +optional
	ConfigMap *ConfigMap `json:"configMap,omitempty"`
}

// OpenShiftTemplate asks for a Template of template.openshift.io/v1.
type OpenShiftTemplate struct {
	// name is the template's; the request's where it is not given.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
}

// VirtualMachineTemplate asks for a VirtualMachineTemplate of template.kubevirt.io/v1alpha1.
type VirtualMachineTemplate struct {
	// name is the template's; the request's where it is not given.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
}

// ConfigMap asks for a ConfigMap with the manifest of a template.
type ConfigMap struct {
	// name is the ConfigMap's; the request's where it is not given.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
}

// DataVolumes says what becomes of dataVolumeTemplates in a template.
//
// +kubebuilder:validation:Enum=Keep;Rename
type DataVolumes string

const (
	// DataVolumesKeep leaves them as they are.
	DataVolumesKeep DataVolumes = "Keep"
	// DataVolumesRename gives each a suffix that is generated for every VM.
	DataVolumesRename DataVolumes = "Rename"
)

// TemplateLabel is the value of a label.
//
// +kubebuilder:validation:MaxLength=63
type TemplateLabel string

// Requester is a user as API servers know one who has authenticated.
type Requester struct {
	// username is the user's.
	//
	// +kubebuilder:validation:MinLength=1
	Username string `json:"username"`

	// uid tells users of one name apart.
	//
	// +optional
	UID string `json:"uid,omitempty"`

	// groups are those that the user is in.
	//
	// +optional
	// +listType=atomic
	Groups []string `json:"groups,omitempty"`

	// extra is what else authentication has found.
	//
	// +optional
	Extra map[string]Values `json:"extra,omitempty"`
}

// Values are several texts under one key.
//
// +listType=atomic
type Values []string
