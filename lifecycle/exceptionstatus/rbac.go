package exceptionstatus

// What this package asks of API servers; the chart makes roles of it.
//
// +kubebuilder:rbac:groups=virtwright.dev,resources=presetexceptions/status,verbs=patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
