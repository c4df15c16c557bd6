package presetrevision

// Permissions of this package. Revisions are listed by their label, and deleted by name and UID.
//
// +kubebuilder:rbac:groups=apps,resources=controllerrevisions,verbs=get;list;create;delete
