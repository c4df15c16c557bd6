package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// VirtualMachineTemplateRequestStatus is the observed state of a request. It contains no values of
// the source.
type VirtualMachineTemplateRequestStatus struct {
	// observedGeneration is the generation that this status describes.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are Ready, Progressing and Verified.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// templateRef is the template, once it exists.
	//
	// +optional
	TemplateRef *TemplateReference `json:"templateRef,omitempty"`

	// sourceUID is the UID of the VirtualMachine from which the template is created.
	//
	// +optional
	SourceUID types.UID `json:"sourceUID,omitempty"`

	// templateHash is a hash of the content of the template. It is written before the template is
	// created, so that virtwright recognizes it.
	//
	// +optional
	TemplateHash string `json:"templateHash,omitempty"`

	// parameterCount is the number of parameters of the template.
	//
	// +optional
	ParameterCount int32 `json:"parameterCount,omitempty"`

	// withheldParameters are the parameters that replace secrets of the source. They have no
	// default, so users of the template must set them.
	//
	// +optional
	// +listType=atomic
	WithheldParameters []string `json:"withheldParameters,omitempty"`

	// warnings should be read before the template is used.
	//
	// +optional
	// +listType=atomic
	Warnings []string `json:"warnings,omitempty"`

	// completionTime is when the template was created.
	//
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
}

// TemplateReference is a reference to a template.
type TemplateReference struct {
	// apiVersion is the group and version of the template.
	APIVersion string `json:"apiVersion"`

	// kind of the template.
	Kind string `json:"kind"`

	// namespace of the template.
	Namespace string `json:"namespace"`

	// name of the template.
	Name string `json:"name"`

	// uid of the template.
	//
	// +optional
	UID types.UID `json:"uid,omitempty"`
}

// Types of conditions.
const (
	// ConditionReady reports whether the template exists.
	ConditionReady = "Ready"

	// ConditionProgressing reports whether virtwright still works on the request. False is final.
	ConditionProgressing = "Progressing"

	// ConditionVerified reports whether processing the template results in the source.
	ConditionVerified = "Verified"
)

// Reasons of conditions.
const (
	// ReasonReconciled means Ready=True: the template exists.
	ReasonReconciled = "Reconciled"

	// ReasonReconciling means that the template is being created.
	ReasonReconciling = "Reconciling"

	// ReasonWaiting means that an API server did not answer, and that virtwright retries.
	ReasonWaiting = "Waiting"

	// ReasonSourceNotFound means that the VirtualMachine does not exist yet.
	ReasonSourceNotFound = "SourceNotFound"

	// ReasonSourceChanged means that another VirtualMachine has the name now. It is final.
	ReasonSourceChanged = "SourceChanged"

	// ReasonSourceInvalid means that no template can be created from the VirtualMachine. It is
	// final.
	ReasonSourceInvalid = "SourceInvalid"

	// ReasonUnauthorized means that the requester lacks permissions.
	ReasonUnauthorized = "Unauthorized"

	// ReasonFormatUnavailable means that the cluster does not serve the API of the format yet.
	ReasonFormatUnavailable = "FormatUnavailable"

	// ReasonTargetExists means that another object has the template's name. It is final.
	ReasonTargetExists = "TargetExists"

	// ReasonTemplateTooLarge means that the template is too large to be stored. It is final.
	ReasonTemplateTooLarge = "TemplateTooLarge"

	// ReasonVerificationFailed means that processing the template does not result in the source. It
	// is final.
	ReasonVerificationFailed = "VerificationFailed"

	// ReasonRejected means that the API server rejects the template. It is final.
	ReasonRejected = "Rejected"

	// ReasonRoundTrip means Verified=True: the result of processing was compared with the source.
	ReasonRoundTrip = "RoundTrip"
)
