package profilecache

// What this package asks of API servers, in mode standalone alone; the chart
// makes roles of it.
//
// +kubebuilder:rbac:groups=virtwright.dev,resources=frontendprofiles;backendprofiles,verbs=list;watch
