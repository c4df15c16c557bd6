package offline

import (
	"context"
	"encoding/json"
	"errors"

	"k8s.io/apimachinery/pkg/types"
	"kubevirt.io/api/instancetype/v1beta1"
	kjson "sigs.k8s.io/json"

	"github.com/virtwright/virtwright/presets"
)

// instancetypes are the specs of instancetypes and preferences, by kind and then by name.
type instancetypes map[string]map[types.NamespacedName]map[string]any

// add takes in an instancetype or a preference, which is not judged but for its form.
func (in instancetypes) add(e *entry, namespace string) error {
	if err := e.place(namespace); err != nil {
		return err
	}
	var typed any = &v1beta1.VirtualMachineInstancetype{}
	if isPreference(e.Kind) {
		typed = &v1beta1.VirtualMachinePreference{}
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(e.JSON, typed); err != nil {
		problem := Problem{Message: err.Error()}
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			problem = Problem{wrong.Field, "must not be a " + wrong.Value}
		}
		return &Refusal{Where: e.Where, Object: e.ref(), Problems: []Problem{problem}}
	}
	var read struct {
		Spec map[string]any `json:"spec"`
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(e.JSON, &read); err != nil {
		return err
	}
	if in[e.Kind] == nil {
		in[e.Kind] = map[types.NamespacedName]map[string]any{}
	}
	in[e.Kind][types.NamespacedName{Namespace: e.meta.Namespace, Name: e.meta.Name}] = read.Spec
	e.ignored = true
	return nil
}

func isPreference(kind string) bool {
	return kind == "VirtualMachinePreference" || kind == "VirtualMachineClusterPreference"
}

// Spec is what VMs of a namespace name. Revisions are not known: the objects in the files count.
func (in instancetypes) Spec(_ context.Context, namespace string, m presets.Matcher) (map[string]any, error) {
	if spec, found := in[m.Kind][types.NamespacedName{Name: m.Name}]; found {
		return spec, nil
	}
	return in[m.Kind][types.NamespacedName{Namespace: namespace, Name: m.Name}], nil
}
