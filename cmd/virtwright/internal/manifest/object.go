// Package manifest reads Kubernetes objects from files, folders and standard
// input, and remembers where each of them stood.
package manifest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	kjson "sigs.k8s.io/json"
)

// An Object is one Kubernetes object of a manifest.
type Object struct {
	Where Position
	// Named says that the user named the file itself, not a folder that it lies
	// in or a stream that it came with.
	Named bool
	// Context says that the object only acts: the user asked for other objects.
	Context    bool
	APIVersion string
	Kind       string
	// JSON is the whole object.
	JSON []byte
}

// A Position says where an object stands.
type Position struct {
	// File is a path, "standard input", or "cluster NAME".
	File string
	// Document counts the documents of the file that are not empty, from 1; 0 in a cluster.
	Document int
	// Item counts the items of a list, from 1; 0 outside lists.
	Item int
}

// String names the position: file, document, item.
func (p Position) String() string {
	if p.Document == 0 {
		return p.File
	}
	text := fmt.Sprintf("%s, document %d", p.File, p.Document)
	if p.Item > 0 {
		text += fmt.Sprintf(", item %d", p.Item)
	}
	return text
}

// header is what tells one kind of object from another.
type header struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Items      []json.RawMessage `json:"items"`
}

// objects are those of one document: itself, or the items of a list.
func objects(raw []byte, at Position, named bool) ([]Object, error) {
	var h header
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &h); err != nil {
		return nil, fmt.Errorf("%s: cannot take it for a Kubernetes object: %w", at, plain(err))
	}
	if h.Kind == "" || h.APIVersion == "" {
		return nil, fmt.Errorf("%s: a Kubernetes object has apiVersion and kind, and one of them is missing here", at)
	}
	if h.Items == nil || !strings.HasSuffix(h.Kind, "List") {
		return []Object{{Where: at, Named: named, APIVersion: h.APIVersion, Kind: h.Kind, JSON: raw}}, nil
	}
	var out []Object
	var problems []error
	for i, item := range h.Items {
		at.Item = i + 1
		found, err := objects(item, at, named)
		out, problems = append(out, found...), append(problems, err)
	}
	return out, errors.Join(problems...)
}

// plain says what kind of value a decoder met, without the names of Go types.
func plain(err error) error {
	var wrong *json.UnmarshalTypeError
	if !errors.As(err, &wrong) {
		return err
	}
	if wrong.Field == "" {
		return fmt.Errorf("it is of type %s, not an object", wrong.Value)
	}
	return fmt.Errorf("%s must not be of type %s", wrong.Field, wrong.Value)
}
