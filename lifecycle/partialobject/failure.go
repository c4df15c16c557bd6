package partialobject

import (
	"errors"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/tree"
)

// maxNoteBytes is the limit of API servers for the note of an event, without the ellipsis.
const maxNoteBytes = 1020

// EventNote returns a text that is escaped, and truncated to the length that API servers accept as
// the note of an event.
func EventNote(text string) string {
	return tree.Truncate(presets.Escape(text), maxNoteBytes)
}

// Reference returns a reference to an object for an event. It has no resource version, so that
// equal events are counted as one.
func Reference(kind schema.GroupVersionKind, object metav1.Object) *corev1.ObjectReference {
	return &corev1.ObjectReference{
		APIVersion: kind.GroupVersion().String(), Kind: kind.Kind,
		Namespace: object.GetNamespace(), Name: object.GetName(), UID: object.GetUID(),
	}
}

// ErrStale says that an object has changed since the cached copy that a decision is based on. The
// change causes another reconciliation.
var ErrStale = errors.New("the object has changed since it was read")

// A Failure is an error with the reason of the condition that reports it.
type Failure struct {
	Reason string
	Err    error
}

// Error returns the message of the condition.
func (f *Failure) Error() string { return f.Err.Error() }

// Unwrap returns the error without the reason.
func (f *Failure) Unwrap() error { return f.Err }
