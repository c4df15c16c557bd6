package domain

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtwright/virtwright/api/v1alpha1"
)

// CheckBackendSettings says what is wrong with settings, below a path. It
// does not rely on the schema of the kind, since manifests reach it offline.
func CheckBackendSettings(s *v1alpha1.BackendSettings, at *field.Path) field.ErrorList {
	return nil
}
