package profilecache

// Permissions of this package, for mode standalone.
//
// +kubebuilder:rbac:groups=virtwright.dev,resources=frontendprofiles;backendprofiles,verbs=list;watch
