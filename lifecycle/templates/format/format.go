// Package format writes blueprints in the forms that templates have, processes
// templates of these forms, and compares what comes out with the source.
package format

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	sspv1alpha1 "github.com/virtwright/virtwright/api/ssp/v1alpha1"
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

// Kinds of templates. OpenShift once served its own without a group.
var (
	openshiftKind = asked(sspv1alpha1.FormatOpenShiftTemplate).Kind
	legacyKind    = schema.GroupVersionKind{Version: "v1", Kind: "Template"}
	kubevirtKind  = asked(sspv1alpha1.FormatVirtualMachineTemplate).Kind
	configMapKind = asked(sspv1alpha1.FormatConfigMap).Kind
)

// A writer writes what a template of its format says, without the metadata.
type writer struct {
	Format
	write func(*blueprint.Blueprint, Meta) (map[string]any, error)
	// says are the fields that a template of the format consists of.
	says []string
}

// writers are all formats: a new one is a new line.
func writers() []writer {
	return []writer{
		{asked(sspv1alpha1.FormatOpenShiftTemplate), writeOpenShift, []string{"objects", "parameters", "labels", "message"}},
		{asked(sspv1alpha1.FormatVirtualMachineTemplate), writeKubeVirt, []string{"spec"}},
		{asked(sspv1alpha1.FormatConfigMap), writeConfigMap, []string{"data"}},
	}
}

// asked is a format as requests know it.
func asked(name string) Format {
	f, _ := sspv1alpha1.FormatNamed(name)
	return Format{Name: f.Name, Kind: f.Kind, Resource: f.Resource}
}

// Formats are all of them.
func Formats() []Format {
	var all []Format
	for _, w := range writers() {
		all = append(all, w.Format)
	}
	return all
}

// Named is the format of a name, as requests for templates have it.
func Named(name string) (Format, bool) {
	for _, f := range Formats() {
		if f.Name == name {
			return f, true
		}
	}
	return Format{}, false
}

func (f Format) writer() (writer, error) {
	for _, w := range writers() {
		if w.Name == f.Name {
			return w, nil
		}
	}
	return writer{}, fmt.Errorf("cannot write templates in the format %q: there is none", f.Name)
}

// Meta is the metadata of a template.
type Meta struct {
	Name, Namespace string
	Labels          map[string]string
	Annotations     map[string]string
}

// mostBytes is what API servers store of one object, with room for metadata.
const mostBytes = 1 << 20

// A TooLarge is the error of a template that API servers could not store.
type TooLarge struct{ Bytes, Most int }

// Error says how large it is.
func (e *TooLarge) Error() string {
	return fmt.Sprintf("the template has %d bytes, at most %d can be stored", e.Bytes, e.Most)
}

// Encode writes a blueprint in the format. The same blueprint and metadata make
// the same bytes. The error may be a *TooLarge.
func (f Format) Encode(b *blueprint.Blueprint, meta Meta) (*unstructured.Unstructured, error) {
	w, err := f.writer()
	if err != nil {
		return nil, err
	}
	if b == nil || b.VM == nil {
		return nil, errors.New("cannot write a template: there is no blueprint")
	}
	content, err := w.write(b, meta)
	if err != nil {
		return nil, err
	}
	if atMost(content) > mostBytes {
		encoded, err := json.Marshal(content)
		if err != nil {
			return nil, fmt.Errorf("cannot write a template: %w", err)
		}
		if len(encoded) > mostBytes {
			return nil, &TooLarge{Bytes: len(encoded), Most: mostBytes}
		}
	}
	content["metadata"] = metadata(b, meta)
	template := &unstructured.Unstructured{Object: content}
	template.SetGroupVersionKind(w.Kind)
	return template, nil
}

// atMost is a size that the JSON of a value does not exceed; most templates are
// so small that more need not be known.
func atMost(value any) int {
	const ofByte, ofScalar = len(`\u0000`), len(`-1.7976931348623157e+308,`)
	size := ofScalar
	switch value := value.(type) {
	case map[string]any:
		for key, child := range value {
			size += ofScalar + ofByte*len(key) + atMost(child)
		}
	case []any:
		for _, child := range value {
			size += atMost(child)
		}
	case string:
		size += ofByte * len(value)
	}
	return size
}

// Hash is a hash of what a template of the format says, without its metadata.
// Fields of parameters that are empty are as good as none, for API servers may
// leave them out.
func (f Format) Hash(template *unstructured.Unstructured) string {
	w, err := f.writer()
	if err != nil || template == nil {
		return ""
	}
	said := map[string]any{}
	for _, key := range w.says {
		if value := template.Object[key]; value != nil {
			said[key] = value
		}
	}
	if list, ok := said["parameters"]; ok {
		said["parameters"] = withoutEmpty(list)
	}
	if spec, ok := said["spec"].(map[string]any); ok {
		copied := maps.Clone(spec)
		copied["parameters"] = withoutEmpty(spec["parameters"])
		said["spec"] = copied
	}
	canonical, err := json.Marshal(said)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:])
}

func withoutEmpty(parameters any) any {
	list, _ := parameters.([]any)
	out := make([]any, len(list))
	for i, item := range list {
		fields, ok := item.(map[string]any)
		if !ok {
			out[i] = item
			continue
		}
		kept := map[string]any{}
		for key, value := range fields {
			if value != "" && value != false && value != nil {
				kept[key] = value
			}
		}
		out[i] = kept
	}
	return out
}
