package webhooks

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	sspv1alpha1 "github.com/virtwright/virtwright/api/ssp/v1alpha1"
)

// TemplateFormat chooses the format of a template where a request names none.
type TemplateFormat interface {
	// Choose returns the name of a format that is served, or the reason why there is none.
	Choose(ctx context.Context) (name, problem string, err error)
}

// chosen is the format that is meant where none is named.
func chosen(ctx context.Context, choice TemplateFormat, formats []string) (name, problem string, err error) {
	if choice == nil {
		return formats[0], "", nil
	}
	return choice.Choose(ctx)
}

// formats are the formats that may be asked for; the first is meant where spec names none. An
// update means that which is stored in old.
func (t *TemplateRequest) formats(ctx context.Context, spec, old map[string]any) ([]string, field.ErrorList, error) {
	if namesFormat(spec) || t.TemplateFormat == nil {
		return t.Formats, nil, nil
	}
	stored, _ := old["target"].(map[string]any)
	for name := range stored {
		return append([]string{name}, t.Formats...), nil, nil
	}
	name, problem, err := t.TemplateFormat.Choose(ctx)
	if err != nil || problem == "" {
		return append([]string{name}, t.Formats...), nil, err
	}
	remedy := "; install one of them"
	if makesConfigMaps(t.Formats) {
		remedy = "; set format: configMap" + shownByConfigMap
	}
	return t.Formats, field.ErrorList{field.Required(field.NewPath("spec", "format"), problem+remedy)}, nil
}

// shownByConfigMap is what to know before a ConfigMap is made of a VM.
const shownByConfigMap = ", which shows the VM to every reader of ConfigMaps"

func makesConfigMaps(formats []string) bool {
	return slices.Contains(formats, sspv1alpha1.FormatConfigMap)
}

// namesFormat reports whether the spec of a request names the format, or has a target that cannot
// be read.
func namesFormat(spec map[string]any) bool {
	if format, _ := spec["format"].(string); format != "" {
		return true
	}
	target, has := spec["target"]
	fields, isObject := target.(map[string]any)
	return has && (!isObject || len(fields) > 0)
}

// unservedAnnotation refuses an annotation for which no format is served; an empty problem refuses
// nothing.
func unservedAnnotation(at *field.Path, problem string, formats []string) field.ErrorList {
	if problem == "" {
		return nil
	}
	remedy := "; install one of them"
	if makesConfigMaps(formats) {
		remedy = "; create a " + sspv1alpha1.KindVirtualMachineTemplateRequest + " with format: configMap" + shownByConfigMap
	}
	return field.ErrorList{field.Forbidden(at, problem+remedy)}
}
