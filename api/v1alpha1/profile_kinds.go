package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FrontendProfile configures the virtual hardware of guests where VMIs do not: machine type,
// firmware tables, timers, enlightenments, devices. It is applied when a domain is rendered, and
// does not change the VMI. For example, Windows guests by label:
//
//	apiVersion: virtwright.dev/v1alpha1
//	kind: FrontendProfile
//	metadata: {name: windows}
//	spec:
//	  match: {labels: {matchLabels: {os: windows}}}
//	  guestFamily: Windows
//
// Try one with `virtwright render -f vm.yaml -f profile.yaml`.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=frontendprofiles,singular=frontendprofile,shortName=feprofile,categories=virtwright,scope=Cluster
// +kubebuilder:printcolumn:name="Priority",type=integer,JSONPath=`.spec.priority`,description="The highest priority wins."
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type FrontendProfile struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec selects VMIs and configures them.
	//
	// +optional
	// +kubebuilder:default={}
	Spec FrontendProfileSpec `json:"spec,omitempty"`
}

// FrontendProfileList is a list of FrontendProfile.
//
// +kubebuilder:object:root=true
type FrontendProfileList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// Items are the profiles.
	Items []FrontendProfile `json:"items"`
}

// BackendProfile configures how hosts provide the devices of guests where VMIs do not: caches,
// threads, CPUs, memory, networks, paths. It does not change the virtual hardware of guests. For
// example, a lab without hardware virtualization:
//
//	apiVersion: virtwright.dev/v1alpha1
//	kind: BackendProfile
//	metadata: {name: lab}
//	spec:
//	  softwareEmulation: Allow
//	  networks: [{network: "*", type: User}]
//
// Try one with `virtwright render -f vm.yaml -f profile.yaml`.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=backendprofiles,singular=backendprofile,shortName=beprofile,categories=virtwright,scope=Cluster
// +kubebuilder:printcolumn:name="Priority",type=integer,JSONPath=`.spec.priority`,description="The highest priority wins."
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type BackendProfile struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec selects VMIs and configures them.
	//
	// +optional
	// +kubebuilder:default={}
	Spec BackendProfileSpec `json:"spec,omitempty"`
}

// BackendProfileList is a list of BackendProfile.
//
// +kubebuilder:object:root=true
type BackendProfileList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// Items are the profiles.
	Items []BackendProfile `json:"items"`
}
