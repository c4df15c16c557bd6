package blueprint

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/virtwright/virtwright/api/v1alpha1"
)

var kubevirtVersion = regexp.MustCompile(`^kubevirt\.io/v[0-9][a-z0-9]*$`)

// sanitize copies the fields of the VM that a template has: kind, name as generateName, labels,
// annotations and spec, without fields of this one object.
func sanitize(d *draft) error {
	meta, err := validMetadata(d.vm)
	if err != nil {
		return err
	}
	if err := checkBounds(d.vm); err != nil {
		return err
	}
	cleanMeta, err := metadata(d, meta)
	if err != nil {
		return err
	}
	spec, err := clean(path{{key: "spec"}}, d.vm["spec"])
	if err != nil {
		return err
	}
	d.tree = map[string]any{"apiVersion": d.vm["apiVersion"], "kind": d.vm["kind"], "metadata": cleanMeta, "spec": spec}
	return nil
}

func validMetadata(vm map[string]any) (map[string]any, error) {
	version, _ := vm["apiVersion"].(string)
	if !kubevirtVersion.MatchString(version) || vm["kind"] != "VirtualMachine" {
		return nil, errors.New("want kind VirtualMachine of kubevirt.io")
	}
	meta, ok := vm["metadata"].(map[string]any)
	if !ok {
		return nil, errors.New("metadata must be an object")
	}
	if nameOf(meta) == "" {
		return nil, errors.New("metadata.name: Required value: a VM needs a name or a generateName")
	}
	if meta["deletionTimestamp"] != nil {
		return nil, errors.New("the VM is being deleted")
	}
	if _, ok := field(vm, "spec", "template", "spec").(map[string]any); !ok {
		return nil, errors.New("spec.template.spec: Required value")
	}
	return meta, nil
}

func nameOf(meta map[string]any) string {
	if name, _ := meta["name"].(string); name != "" {
		return name
	}
	name, _ := meta["generateName"].(string)
	return name
}

func metadata(d *draft, meta map[string]any) (map[string]any, error) {
	labels, err := stringMap("metadata.labels", meta["labels"])
	if err != nil {
		return nil, err
	}
	annotations, err := stringMap("metadata.annotations", meta["annotations"])
	if err != nil {
		return nil, err
	}
	d.labels, d.name = labels, nameOf(meta)
	d.namespace, _ = meta["namespace"].(string)
	out := map[string]any{"generateName": d.name, "labels": map[string]any{}}
	maps.DeleteFunc(labels, func(key, _ string) bool { return v1alpha1.IsToolLabel(key) })
	for key, value := range labels {
		out["labels"].(map[string]any)[key] = value
	}
	kept := map[string]any{}
	for key, value := range annotations {
		if !dropped(key) {
			kept[key] = value
		}
	}
	if len(kept) > 0 {
		out["annotations"] = kept
	}
	return out, nil
}

// stringMap decodes a map of strings; a missing map is empty.
func stringMap(what string, value any) (map[string]string, error) {
	out := map[string]string{}
	if value == nil {
		return out, nil
	}
	fields, ok := value.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s must be an object", what)
	}
	for key, value := range fields {
		text, ok := value.(string)
		if !ok && value != nil {
			return nil, fmt.Errorf("%s: values must be strings", what)
		}
		if ok {
			out[key] = text
		}
	}
	return out, nil
}

// keptAnnotations of virtwright configure every VM of a template. Others are about one VM.
var keptAnnotations = []string{v1alpha1.AnnotationPresets, v1alpha1.AnnotationExclude, v1alpha1.AnnotationReapply, v1alpha1.AnnotationV1Alpha2DiskNames}

// dropped reports whether an annotation describes one object.
func dropped(annotation string) bool {
	if strings.HasPrefix(annotation, v1alpha1.AnnotationPrefix) {
		return !slices.Contains(keptAnnotations, annotation)
	}
	return v1alpha1.IsToolAnnotation(annotation)
}

// clean copies a value of JSON without nulls in maps and fields of one object.
func clean(at path, value any) (any, error) {
	switch value := value.(type) {
	case map[string]any:
		out := make(map[string]any, len(value))
		for key, child := range value {
			if child == nil || isObjectField(at, key) {
				continue
			}
			copied, err := clean(at.to(key), child)
			if err != nil {
				return nil, err
			}
			out[key] = copied
		}
		return out, nil
	case []any:
		out := make([]any, len(value))
		for i, child := range value {
			copied, err := clean(at.at(i), child)
			if err != nil {
				return nil, err
			}
			out[i] = copied
		}
		return out, nil
	default:
		return scalar(value)
	}
}

func isObjectField(parent path, key string) bool {
	switch {
	case parent.ends("metadata", "annotations"):
		return dropped(key)
	case parent.ends("metadata", "labels"):
		return v1alpha1.IsToolLabel(key) && key != v1alpha1.LabelInstance // pods are selected by it
	case parent.is("spec", "template", "metadata"):
		return key == "creationTimestamp"
	case parent.is("spec", "instancetype"), parent.is("spec", "preference"):
		return key == "revisionName"
	default:
		return slices.Contains(v1alpha1.WholeObjects, key)
	}
}

func scalar(value any) (any, error) {
	switch value := value.(type) {
	case nil, string, bool, int64:
		return value, nil
	case int:
		return int64(value), nil
	case float64:
		switch {
		case value == math.Trunc(value) && value >= -1<<63 && value < 1<<63:
			return int64(value), nil // parsers of the template read an integer
		case !math.IsNaN(value) && !math.IsInf(value, 0):
			return value, nil
		}
	}
	return nil, errors.New("spec has a value that is not JSON")
}
