// Package webhooks translates between admission requests and the pure packages: it turns an
// AdmissionReview into a value, lets a pure package decide, and turns the decision into the answer.
//
// A [Server] has a handler for each path. A [Registration] describes the same webhooks to API
// servers, with match conditions that keep irrelevant requests away.
package webhooks

// Permissions of this package, from which the chart's roles are generated.
//
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch
// +kubebuilder:rbac:groups=kubevirt.io,resources=virtualmachines;virtualmachineinstances,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create
