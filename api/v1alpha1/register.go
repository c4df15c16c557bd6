package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group of the kinds in this package.
const GroupName = "virtwright.dev"

// Kinds of this package, as they stand in manifests.
const (
	KindVirtualMachinePreset        = "VirtualMachinePreset"
	KindClusterVirtualMachinePreset = "ClusterVirtualMachinePreset"
	KindFrontendProfile             = "FrontendProfile"
	KindBackendProfile              = "BackendProfile"
	KindPresetException             = "PresetException"
	KindPresetRollout               = "PresetRollout"
)

// Resources of this package, as they stand in request paths and RBAC rules.
const (
	ResourceVirtualMachinePresets        = "virtualmachinepresets"
	ResourceClusterVirtualMachinePresets = "clustervirtualmachinepresets"
	ResourceFrontendProfiles             = "frontendprofiles"
	ResourceBackendProfiles              = "backendprofiles"
	ResourcePresetExceptions             = "presetexceptions"
	ResourcePresetRollouts               = "presetrollouts"
)

var (
	// GroupVersion is the group and version of the kinds in this package.
	GroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1alpha1"}

	// SchemeBuilder collects the functions that make a scheme know this package.
	SchemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

	// AddToScheme makes a scheme know the kinds of this package.
	AddToScheme = SchemeBuilder.AddToScheme
)

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&VirtualMachinePreset{}, &VirtualMachinePresetList{},
		&ClusterVirtualMachinePreset{}, &ClusterVirtualMachinePresetList{},
		&FrontendProfile{}, &FrontendProfileList{},
		&BackendProfile{}, &BackendProfileList{},
		&PresetException{}, &PresetExceptionList{},
		&PresetRollout{}, &PresetRolloutList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
