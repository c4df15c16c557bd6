package virtualmachineinstance

// Permissions of this package and of the eviction webhook, for mode standalone. The admission
// plugin OwnerReferencesPermissionEnforcement requires the finalizers for blockOwnerDeletion.
//
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups="",resources=nodes;persistentvolumeclaims,verbs=get
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=get;create
// +kubebuilder:rbac:groups=cdi.kubevirt.io,resources=datavolumes,verbs=get
// +kubebuilder:rbac:groups=kubevirt.io,resources=virtualmachineinstances,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=kubevirt.io,resources=virtualmachineinstances/finalizers,verbs=update
// +kubebuilder:rbac:groups=virtwright.dev,resources=frontendprofiles;backendprofiles,verbs=list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
