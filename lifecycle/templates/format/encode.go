package format

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/lifecycle/templates/blueprint"
)

const (
	typeLabel             = "template.kubevirt.io/type"
	bindableAnnotation    = "template.openshift.io/bindable"
	displayNameAnnotation = "openshift.io/display-name"

	// manifestKey is the key of a ConfigMap's data that holds a template.
	manifestKey = "template.yaml"

	// mostNotes is how long the annotation with notes on parameters may be.
	mostNotes = 128 << 10
)

// AnnotationParameters is on every template: what its parameters are, a list of
// [Note] in JSON. It is left out when it would be too long.
const AnnotationParameters = v1alpha1.AnnotationPrefix + "parameters"

// A Note says what a parameter of a template is.
type Note struct {
	Name string `json:"name"`
	// Path is where it stands in the VM.
	Path  string          `json:"path"`
	Type  blueprint.Type  `json:"type"`
	Class blueprint.Class `json:"class"`
}

func writeOpenShift(b *blueprint.Blueprint, _ Meta) (map[string]any, error) {
	content := map[string]any{
		"message":    message(b, "`virtwright template process` or `oc process`"),
		"objects":    []any{tree(b, b.VM)},
		"parameters": parameters(b, ""),
	}
	if len(b.Labels) > 0 {
		content["labels"] = anyOf(b.Labels)
	}
	return content, nil
}

// writeKubeVirt writes a VirtualMachineTemplate. Its engine refuses references
// to what is no parameter, and merges no labels.
func writeKubeVirt(b *blueprint.Blueprint, _ Meta) (map[string]any, error) {
	if keyed(b.VM) {
		return nil, errors.New("cannot write a VirtualMachineTemplate: a key of the VM has \"${\" in it, which would be taken for a reference")
	}
	return map[string]any{"spec": map[string]any{
		"message":        message(b, "`virtwright template process`"),
		"virtualMachine": tree(b, b.VM),
		"parameters":     parameters(b, "A JSON object of labels, as {\"team\":\"x\"}, which replaces those of the VM"),
	}}, nil
}

// writeConfigMap writes the manifest of an OpenShift Template.
func writeConfigMap(b *blueprint.Blueprint, meta Meta) (map[string]any, error) {
	content, err := writeOpenShift(b, meta)
	if err != nil {
		return nil, err
	}
	content["apiVersion"], content["kind"] = openshiftKind.GroupVersion().String(), openshiftKind.Kind
	content["metadata"] = metadata(b, Meta{Name: meta.Name})
	manifest, err := Manifest(content)
	if err != nil {
		return nil, err
	}
	if len(manifest) > mostBytes {
		return nil, &TooLarge{Bytes: len(manifest), Most: mostBytes}
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
	if notes := notes(b); len(notes) <= mostNotes {
		annotations[AnnotationParameters] = notes
	}
	out := map[string]any{"name": meta.Name, "labels": labels, "annotations": annotations}
	if meta.Namespace != "" {
		out["namespace"] = meta.Namespace
	}
	return out
}

func notes(b *blueprint.Blueprint) string {
	var all []Note
	for _, p := range b.Parameters {
		all = append(all, Note{Name: p.Name, Path: p.Path, Type: p.Type, Class: p.Class})
	}
	encoded, _ := json.Marshal(all) // texts encode
	return string(encoded)
}

// tree copies a tree with tokens in place of references.
func tree(b *blueprint.Blueprint, value any) any {
	kinds := make(map[string]blueprint.Type, len(b.Parameters))
	for _, p := range b.Parameters {
		kinds[p.Name] = p.Type
	}
	return written(value, kinds)
}

func written(value any, kinds map[string]blueprint.Type) any {
	switch value := value.(type) {
	case map[string]any:
		out := make(map[string]any, len(value))
		for key, child := range value {
			out[key] = written(child, kinds)
		}
		return out
	case []any:
		out := make([]any, len(value))
		for i, child := range value {
			out[i] = written(child, kinds)
		}
		return out
	case blueprint.Reference:
		if kinds[value.Parameter] == blueprint.String {
			return value.Before + "${" + value.Parameter + "}" + value.Behind
		}
		return "${{" + value.Parameter + "}}"
	default:
		return value
	}
}

// parameters writes them; other describes LABELS where it is not what the
// blueprint says.
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
		case !p.Required:
			fields["value"] = p.Default
		}
		if p.Required {
			fields["required"] = true
		}
		out = append(out, fields)
	}
	return out
}

// message says how to use the template, with what. Engines substitute in it, so nothing in
// it may look like a reference.
func message(b *blueprint.Blueprint, tools string) string {
	lines := []string{
		"Make a VirtualMachine of this template with " + tools + ", and pipe it to `kubectl create -f -`; " +
			"`kubectl apply` cannot be used, because the VM's name is generated.",
	}
	if withheld := b.Withheld(); len(withheld) > 0 {
		lines = append(lines, "Values that must be given, for the template holds no secrets: "+strings.Join(withheld, ", ")+".")
	}
	for _, warning := range b.Warnings {
		if !strings.Contains(warning, "${") {
			lines = append(lines, "Note: "+warning+".")
		}
	}
	return strings.Join(lines, "\n")
}

// keyed says whether a key has in it what is taken for a reference.
func keyed(value any) bool {
	switch value := value.(type) {
	case map[string]any:
		for key, child := range value {
			if strings.Contains(key, "${") || keyed(child) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(value, keyed)
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
