package certs

// What this package asks of API servers; the chart makes roles of it.
//
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=mutatingwebhookconfigurations;validatingwebhookconfigurations,resourceNames=admission.virtwright.dev,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=virtualmachines.kubevirt.io,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=apiregistration.k8s.io,resources=apiservices,verbs=get;list;watch
// +kubebuilder:rbac:groups=apiregistration.k8s.io,resources=apiservices,resourceNames=v1.subresources.kubevirt.io;v1alpha3.subresources.kubevirt.io;v1alpha1.subresources.virtwright.dev,verbs=patch
