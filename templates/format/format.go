// Package format encodes blueprints as templates, processes templates, and verifies that a template
// gives the VM that it was made from.
package format

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	sspv1alpha1 "github.com/virtwright/virtwright/api/ssp/v1alpha1"
	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/templates/blueprint"
	"github.com/virtwright/virtwright/templates/portable"
)

// A Format encodes and verifies templates of one kind. Get one with ByName or Formats.
type Format struct {
	sspv1alpha1.Format
	encode  func(*blueprint.Blueprint, Meta) (map[string]any, error)
	content []string // the fields that encode returns
}

// Kinds of templates. OpenShift once served its own in the core group.
var (
	openshiftKind = apiFormat(sspv1alpha1.FormatOpenShiftTemplate).Kind
	legacyKind    = schema.GroupVersionKind{Version: "v1", Kind: "Template"}
	kubevirtKind  = apiFormat(sspv1alpha1.FormatVirtualMachineTemplate).Kind
	// kubevirtBetaKind has the same fields as kubevirtKind.
	kubevirtBetaKind = schema.GroupVersionKind{Group: kubevirtKind.Group, Version: "v1beta1", Kind: kubevirtKind.Kind}
	configMapKind    = apiFormat(sspv1alpha1.FormatConfigMap).Kind
)

func apiFormat(name string) sspv1alpha1.Format {
	f, _ := sspv1alpha1.FormatNamed(name)
	return f
}

// formats are all formats: to add one, add a line.
var formats = []Format{
	{apiFormat(sspv1alpha1.FormatOpenShiftTemplate), encodeOpenShift, []string{"objects", "parameters", "labels", "message"}},
	{apiFormat(sspv1alpha1.FormatVirtualMachineTemplate), encodeKubeVirt, []string{"spec"}},
	{apiFormat(sspv1alpha1.FormatConfigMap), encodeConfigMap, []string{"data"}},
}

// Formats returns all formats.
func Formats() []Format { return slices.Clone(formats) }

// ByName returns the format that requests for templates call by a name.
func ByName(name string) (Format, bool) {
	i := slices.IndexFunc(formats, func(f Format) bool { return f.Name == name })
	if i < 0 {
		return Format{}, false
	}
	return formats[i], true
}

// Meta is the metadata of a template.
type Meta struct {
	Name, Namespace string
	Labels          map[string]string
	Annotations     map[string]string
}

// maxBytes is the size of one object that API servers store, with room for metadata.
const maxBytes = 1 << 20

// A TooLarge is the error of a template that API servers cannot store.
type TooLarge struct{ Bytes, Most int }

// Error gives both sizes.
func (e *TooLarge) Error() string {
	return fmt.Sprintf("the template has %d bytes; at most %d can be stored: shorten long values of the VM, or remove fields", e.Bytes, e.Most)
}

// Encode returns the template of a blueprint. The same blueprint and metadata give the same bytes.
// The error may be a *TooLarge.
func (f Format) Encode(b *blueprint.Blueprint, meta Meta) (*unstructured.Unstructured, error) {
	if f.encode == nil || b == nil || b.VM == nil {
		return nil, errors.New("cannot encode a template: the format or the blueprint is empty")
	}
	content, err := f.encode(b, meta)
	if err != nil {
		return nil, err
	}
	if sizeBound(content) > maxBytes {
		encoded, err := json.Marshal(content)
		if err != nil {
			return nil, fmt.Errorf("cannot encode a template: %w", err)
		}
		if len(encoded) > maxBytes {
			return nil, &TooLarge{Bytes: len(encoded), Most: maxBytes}
		}
	}
	content["metadata"] = metadata(b, meta)
	template := &unstructured.Unstructured{Object: content}
	template.SetGroupVersionKind(f.Kind)
	return template, nil
}

// sizeBound returns an upper bound of the size of a value in JSON. It saves encoding the value:
// most templates are small.
func sizeBound(value any) int {
	const perByte, perScalar = len(`\u0000`), len(`-1.7976931348623157e+308,`)
	size := perScalar
	switch value := value.(type) {
	case map[string]any:
		for key, child := range value {
			size += perScalar + perByte*len(key) + sizeBound(child)
		}
	case []any:
		for _, child := range value {
			size += sizeBound(child)
		}
	case string:
		size += perByte * len(value)
	}
	return size
}

// Hash returns a hash of a template without its metadata. It ignores empty fields of parameters,
// because API servers may drop them.
func (f Format) Hash(template *unstructured.Unstructured) string {
	if f.content == nil || template == nil {
		return ""
	}
	content := map[string]any{}
	for _, key := range f.content {
		if value := template.Object[key]; value != nil {
			content[key] = value
		}
	}
	if list, ok := content["parameters"]; ok {
		content["parameters"] = withoutEmpty(list)
	}
	if spec, ok := content["spec"].(map[string]any); ok {
		spec = maps.Clone(spec)
		spec["parameters"] = withoutEmpty(spec["parameters"])
		content["spec"] = spec
	}
	canonical, err := json.Marshal(content)
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
		out[i] = item
		if fields, ok := item.(map[string]any); ok {
			fields = maps.Clone(fields)
			maps.DeleteFunc(fields, func(_ string, value any) bool { return value == "" || value == false || value == nil })
			out[i] = fields
		}
	}
	return out
}

const (
	typeLabel             = "template.kubevirt.io/type"
	bindableAnnotation    = "template.openshift.io/bindable"
	displayNameAnnotation = "openshift.io/display-name"

	manifestKey = "template.yaml" // the key of a ConfigMap's data that holds a template

	maxNotes = 128 << 10 // the length of the annotation with notes
)

// annotationParameters is the annotation of templates that describes their parameters: a list of
// notes in JSON. It is omitted if it would be too long.
const annotationParameters = v1alpha1.AnnotationPrefix + "parameters"

type note struct {
	Name  string          `json:"name"`
	Path  string          `json:"path"` // the field of the VM
	Type  blueprint.Type  `json:"type"`
	Class blueprint.Class `json:"class"`
}

func encodeOpenShift(b *blueprint.Blueprint, _ Meta) (map[string]any, error) {
	content := map[string]any{
		"message":    message(b, "`virtwright template process` or `oc process`"),
		"objects":    []any{withTokens(b)},
		"parameters": parameters(b, ""),
	}
	if len(b.Labels) > 0 {
		content["labels"] = anyOf(b.Labels)
	}
	return content, nil
}

// encodeKubeVirt encodes a VirtualMachineTemplate. Its engine rejects undefined references and does
// not merge labels.
func encodeKubeVirt(b *blueprint.Blueprint, _ Meta) (map[string]any, error) {
	if hasTokenKey(b.VM) {
		return nil, errors.New("cannot encode a VirtualMachineTemplate: a key of the VM contains \"${\", which begins a reference")
	}
	return map[string]any{"spec": map[string]any{
		"message":        message(b, "`virtwright template process`"),
		"virtualMachine": withTokens(b),
		"parameters":     parameters(b, "JSON object of labels, such as {\"team\":\"x\"}, which replaces the labels of the VM"),
	}}, nil
}

func encodeConfigMap(b *blueprint.Blueprint, meta Meta) (map[string]any, error) {
	content, err := encodeOpenShift(b, meta)
	if err != nil {
		return nil, err
	}
	content["apiVersion"], content["kind"] = openshiftKind.GroupVersion().String(), openshiftKind.Kind
	content["metadata"] = metadata(b, Meta{Name: meta.Name})
	manifest, err := portable.YAML(content)
	if err != nil {
		return nil, err
	}
	if len(manifest) > maxBytes {
		return nil, &TooLarge{Bytes: len(manifest), Most: maxBytes}
	}
	return map[string]any{"data": map[string]any{manifestKey: string(manifest)}}, nil
}

func metadata(b *blueprint.Blueprint, meta Meta) map[string]any {
	labels := anyOf(meta.Labels)
	labels[typeLabel] = "vm"
	annotations := map[string]any{}
	if name, ok := b.VM["metadata"].(map[string]any)["generateName"].(string); ok {
		annotations[displayNameAnnotation] = name
	}
	maps.Copy(annotations, anyOf(meta.Annotations))
	annotations[bindableAnnotation] = "false"
	var notes []note
	for _, p := range b.Parameters {
		notes = append(notes, note{Name: p.Name, Path: p.Path, Type: p.Type, Class: p.Class})
	}
	if encoded, err := json.Marshal(notes); err == nil && len(encoded) <= maxNotes {
		annotations[annotationParameters] = string(encoded)
	}
	out := map[string]any{"name": meta.Name, "labels": labels, "annotations": annotations}
	if meta.Namespace != "" {
		out["namespace"] = meta.Namespace
	}
	return out
}

func withTokens(b *blueprint.Blueprint) any {
	types := make(map[string]blueprint.Type, len(b.Parameters))
	for _, p := range b.Parameters {
		types[p.Name] = p.Type
	}
	return blueprint.MapScalars(b.VM, func(value any) any {
		reference, ok := value.(blueprint.Reference)
		switch {
		case !ok:
			return value
		case types[reference.Parameter] == blueprint.String:
			return reference.Prefix + "${" + reference.Parameter + "}"
		}
		return "${{" + reference.Parameter + "}}"
	})
}

// parameters encodes parameters. A description of LABELS, if given, replaces the blueprint's.
func parameters(b *blueprint.Blueprint, labels string) []any {
	out := make([]any, 0, len(b.Parameters))
	for _, p := range b.Parameters {
		fields := map[string]any{"name": p.Name, "description": p.Description}
		if p.Class == blueprint.Labels && labels != "" {
			fields["description"] = labels
		}
		switch {
		case p.From != "":
			fields["generate"], fields["from"] = "expression", p.From
		case p.Required:
			fields["required"] = true
		default:
			fields["value"] = p.Default
		}
		out = append(out, fields)
	}
	return out
}

// message returns instructions for the template. Engines substitute references in it, so it must
// not contain any.
func message(b *blueprint.Blueprint, tools string) string {
	lines := []string{
		"Create a VirtualMachine from this template: process it with " + tools + ", and pipe the result to `kubectl create -f -`. " +
			"`kubectl apply` cannot be used, because the cluster generates the VM's name.",
	}
	if withheld := b.Withheld(); len(withheld) > 0 {
		lines = append(lines, "Parameters that require a value, because the template holds no secrets: "+strings.Join(withheld, ", ")+".")
	}
	for _, warning := range b.Warnings {
		if !strings.Contains(warning, "${") {
			lines = append(lines, "Note: "+warning+".")
		}
	}
	return strings.Join(lines, "\n")
}

func hasTokenKey(value any) bool {
	switch value := value.(type) {
	case map[string]any:
		for key, child := range value {
			if strings.Contains(key, "${") || hasTokenKey(child) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(value, hasTokenKey)
	}
	return false
}

func anyOf(texts map[string]string) map[string]any {
	out := make(map[string]any, len(texts))
	for key, text := range texts {
		out[key] = text
	}
	return out
}
