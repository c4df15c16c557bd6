package templates

// Permissions of this package, from which the chart generates roles. They cannot change or delete
// templates, nor read Secrets.
//
// +kubebuilder:rbac:groups=ssp.kubevirt.io,resources=virtualmachinetemplaterequests,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups=ssp.kubevirt.io,resources=virtualmachinetemplaterequests/status,verbs=patch
// +kubebuilder:rbac:groups=kubevirt.io,resources=virtualmachines,verbs=get;list;watch
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=template.openshift.io,resources=templates,verbs=get;create
// +kubebuilder:rbac:groups=template.kubevirt.io,resources=virtualmachinetemplates,verbs=get;create
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get;create
