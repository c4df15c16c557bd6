package webhooks

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/spelling"
)

// The types of objects by path. A message about an unknown field suggests fields of these types.
var (
	labelSelector = reflect.TypeFor[metav1.LabelSelector]()

	presetParts = map[string]reflect.Type{
		"spec.match": reflect.TypeFor[v1alpha1.PresetMatch](), "spec": reflect.TypeFor[v1alpha1.PresetSpec](),
		"spec.match.labels": labelSelector, "spec.match.namespaces": labelSelector,
	}
	exceptionParts = map[string]reflect.Type{
		"spec": reflect.TypeFor[v1alpha1.PresetExceptionSpec](), "spec.vmSelector": labelSelector,
	}
	rolloutParts = map[string]reflect.Type{
		"spec": reflect.TypeFor[v1alpha1.PresetRolloutSpec](), "spec.waves": reflect.TypeFor[v1alpha1.RolloutWave](),
		"spec.waves.vms": labelSelector, "spec.waves.namespaces": labelSelector, "spec.failure": reflect.TypeFor[v1alpha1.RolloutFailurePolicy](),
	}
	frontendParts = map[string]reflect.Type{
		"spec": reflect.TypeFor[v1alpha1.FrontendProfileSpec](), "spec.match": reflect.TypeFor[v1alpha1.ProfileMatch](),
		"spec.smbios": reflect.TypeFor[v1alpha1.SMBIOS](), "spec.video": reflect.TypeFor[v1alpha1.Video](),
		"spec.balloon": reflect.TypeFor[v1alpha1.Balloon](),
	}
	backendParts = map[string]reflect.Type{
		"spec": reflect.TypeFor[v1alpha1.BackendProfileSpec](), "spec.match": reflect.TypeFor[v1alpha1.ProfileMatch](),
		"spec.disks": reflect.TypeFor[v1alpha1.DiskBacking](), "spec.cpu": reflect.TypeFor[v1alpha1.CPUBacking](),
		"spec.memory": reflect.TypeFor[v1alpha1.MemoryBacking](), "spec.paths": reflect.TypeFor[v1alpha1.Paths](),
	}
)

// unknownFields converts the errors of a strict decoder into problems with field paths. API servers
// usually drop unknown fields before they call webhooks; the command line does not.
func unknownFields(strict []error, parts map[string]reflect.Type) field.ErrorList {
	var problems field.ErrorList
	for _, err := range strict {
		path, reason := presets.StrictProblem(err)
		problem := field.Forbidden(field.NewPath(path), reason)
		if _, unknown := presets.UnknownFieldIn(err); unknown {
			problem.Detail += suggestField(path, parts)
			problem.Origin = presets.OriginUnknownField
		}
		problems = append(problems, problem)
	}
	return problems
}

// suggestField suggests a field instead of an unknown one, or lists all fields of its parent.
func suggestField(path string, parts map[string]reflect.Type) string {
	for parent, part := range parts {
		name, ok := strings.CutPrefix(path, parent+".")
		if !ok || strings.ContainsAny(name, ".[") {
			continue
		}
		fields := jsonNames(part)
		if hint := spelling.DidYouMean(name, slices.Values(fields)); hint != "" {
			return hint
		}
		if meant := spelling.Nearest(name, slices.Values(jsonNames(labelSelector))); meant != "" && parent == "spec.match" {
			return fmt.Sprintf("; did you mean labels.%s?", meant)
		}
		return "; " + parent + " has " + strings.Join(fields, ", ")
	}
	return ""
}

func jsonNames(t reflect.Type) []string {
	var names []string
	for _, f := range reflect.VisibleFields(t) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// nulls rejects null in fields where Go does not distinguish it from an absent field.
func nulls(raw []byte) field.ErrorList {
	var preset struct {
		Spec struct {
			Defaults  json.RawMessage `json:"defaults"`
			Overrides json.RawMessage `json:"overrides"`
		} `json:"spec"`
	}
	if kjson.UnmarshalCaseSensitivePreserveInts(raw, &preset) != nil {
		return nil
	}
	var problems field.ErrorList
	reject := func(name string, value json.RawMessage) {
		if string(value) == "null" {
			problems = append(problems, field.Invalid(field.NewPath("spec", name), nil,
				"must not be null: omit the field, or use remove to delete fields of a VM"))
		}
	}
	reject("defaults", preset.Spec.Defaults)
	reject("overrides", preset.Spec.Overrides)
	return problems
}
