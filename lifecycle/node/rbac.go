package node

// What an agent asks of API servers; the chart makes roles of it. That it writes
// its own node's instances alone, and of these only status and its finalizer,
// is held by the policy nodes.protection.virtwright.dev. What volumes are made
// of it may read only in namespaces whose administrator lets it.
//
// +kubebuilder:rbac:groups=kubevirt.io,resources=virtualmachineinstances,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=virtwright.dev,resources=frontendprofiles;backendprofiles,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=nodes;namespaces,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
