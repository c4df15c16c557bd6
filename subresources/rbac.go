package subresources

// Permissions of this package, from which the chart generates roles. To execute a command over a
// WebSocket requires get and, since Kubernetes 1.35, create.
//
// +kubebuilder:rbac:groups="",resources=pods,verbs=get
// +kubebuilder:rbac:groups="",resources=pods/exec,verbs=get;create
// +kubebuilder:rbac:groups=kubevirt.io,resources=virtualmachines;virtualmachineinstances,verbs=get;patch
// +kubebuilder:rbac:groups=kubevirt.io,resources=virtualmachines/status,verbs=patch
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create
