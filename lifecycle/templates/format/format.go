// Package format writes blueprints in the forms that templates have, processes
// templates of these forms, and compares what comes out with the source.
package format

import (
	"errors"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/virtwright/virtwright/lifecycle/templates/blueprint"
)

// A Format is a form that templates have.
type Format struct {
	// Name is the field of a request's target that asks for it: openshiftTemplate,
	// virtualMachineTemplate, configMap.
	Name     string
	Kind     schema.GroupVersionKind
	Resource string
}

// Formats are all of them.
func Formats() []Format { return nil }

// Meta is the metadata of a template.
type Meta struct {
	Name, Namespace string
	Labels          map[string]string
	Annotations     map[string]string
}

// A TooLarge is the error of a template that API servers could not store.
type TooLarge struct{ Bytes, Most int }

// Error says how large it is.
func (e *TooLarge) Error() string { return "too large" }

// Encode writes a blueprint in the format. The same blueprint and metadata make
// the same bytes. The error may be a *TooLarge.
func (f Format) Encode(_ *blueprint.Blueprint, _ Meta) (*unstructured.Unstructured, error) {
	return nil, errors.New("not written yet")
}

// Hash is a hash of what a template of the format says, without its metadata.
func (f Format) Hash(_ *unstructured.Unstructured) string { return "" }

// Verify processes a template with its defaults and the blueprint's secrets, and
// compares what comes out with the blueprint's source. The error names paths,
// never values. It does not panic.
func (f Format) Verify(_ *unstructured.Unstructured, _ *blueprint.Blueprint) error {
	return errors.New("not written yet")
}

// Process makes the objects of a template of any of the forms (recognized by
// apiVersion and kind; of a ConfigMap its key template.yaml). given are values of
// parameters by name, labels are added to every object. The error is every
// problem at once, each naming the parameter and what would be right. It does
// not panic, whatever the template says. It changes neither argument.
func Process(_ *unstructured.Unstructured, _, _ map[string]string) (objects []*unstructured.Unstructured, message string, err error) {
	return nil, "", errors.New("not written yet")
}
