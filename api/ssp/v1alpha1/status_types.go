package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// VirtualMachineTemplateRequestStatus says what became of a request. It never
// has a value of the source.
type VirtualMachineTemplateRequestStatus struct {
	// observedGeneration is that of the request which the rest is about.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are Ready, Progressing and Verified.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// templateRef is the template, once it is there.
	//
	// +optional
	TemplateRef *TemplateReference `json:"templateRef,omitempty"`

	// sourceUID is the UID of the VirtualMachine of which the template is made.
	//
	// +optional
	SourceUID types.UID `json:"sourceUID,omitempty"`

	// templateHash is a hash of what the template says, written before the
	// template is, by which virtwright knows its own again.
	//
	// +optional
	TemplateHash string `json:"templateHash,omitempty"`

	// parameterCount is how many parameters the template has.
	//
	// +optional
	ParameterCount int32 `json:"parameterCount,omitempty"`

	// withheldParameters are the parameters that stand for secrets of the source
	// and have no default: who uses the template gives them.
	//
	// +optional
	// +listType=atomic
	WithheldParameters []string `json:"withheldParameters,omitempty"`

	// warnings are what to know before the template is used.
	//
	// +optional
	// +listType=atomic
	Warnings []string `json:"warnings,omitempty"`

	// completionTime is when the template was there.
	//
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
}

// TemplateReference is a template that was made.
type TemplateReference struct {
	// apiVersion is its group and version.
	APIVersion string `json:"apiVersion"`

	// kind is its kind.
	Kind string `json:"kind"`

	// namespace is its namespace.
	Namespace string `json:"namespace"`

	// name is its name.
	Name string `json:"name"`

	// uid is its UID.
	//
	// +optional
	UID types.UID `json:"uid,omitempty"`
}

// Types of conditions.
const (
	// ConditionReady says whether the template is there.
	ConditionReady = "Ready"

	// ConditionProgressing says whether virtwright will go on by itself. False is the end.
	ConditionProgressing = "Progressing"

	// ConditionVerified says whether processing the template gave the source back.
	ConditionVerified = "Verified"
)

// Reasons of conditions.
const (
	// ReasonReconciled stands with Ready=True: the template is there.
	ReasonReconciled = "Reconciled"

	// ReasonReconciling says that the template is being made.
	ReasonReconciling = "Reconciling"

	// ReasonWaiting says that something did not answer, and is asked again.
	ReasonWaiting = "Waiting"

	// ReasonSourceNotFound says that there is no such VirtualMachine, yet.
	ReasonSourceNotFound = "SourceNotFound"

	// ReasonSourceChanged says that another VirtualMachine has the name now. It is an end.
	ReasonSourceChanged = "SourceChanged"

	// ReasonSourceInvalid says that no template can be made of the VirtualMachine. It is an end.
	ReasonSourceInvalid = "SourceInvalid"

	// ReasonUnauthorized says that the requester may not have this.
	ReasonUnauthorized = "Unauthorized"

	// ReasonFormatUnavailable says that the cluster does not serve the API of the form, yet.
	ReasonFormatUnavailable = "FormatUnavailable"

	// ReasonTargetExists says that something else has the template's name. It is an end.
	ReasonTargetExists = "TargetExists"

	// ReasonTemplateTooLarge says that the template would be too large to be stored. It is an end.
	ReasonTemplateTooLarge = "TemplateTooLarge"

	// ReasonVerificationFailed says that processing the template would not give the source back. It is an end.
	ReasonVerificationFailed = "VerificationFailed"

	// ReasonRejected says that the API server refuses the template. It is an end.
	ReasonRejected = "Rejected"

	// ReasonRoundTrip stands with Verified=True: what processing gave was compared with the source.
	ReasonRoundTrip = "RoundTrip"
)
