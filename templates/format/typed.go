package format

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kubevirtv1 "kubevirt.io/api/core/v1"
	kjson "sigs.k8s.io/json"

	"github.com/virtwright/virtwright/presets"
)

// mistyped finds values in VirtualMachines that KubeVirt's types cannot hold, and the parameters
// that set them. It ignores unknown fields, which newer versions may have.
func (in input) mistyped(objects []*unstructured.Unstructured, values map[string]string) []string {
	setBy := map[location]string{}
	in.references(func(name string, at location) {
		if _, known := values[name]; known && !at.inKey {
			setBy[location{object: at.object, path: at.path}] = name
		}
	})
	var problems []string
	for i, object := range objects {
		kind := object.GroupVersionKind()
		if kind.Group != kubevirtv1.GroupVersion.Group || kind.Kind != "VirtualMachine" {
			continue
		}
		schema := presets.CheckSchema(presets.VirtualMachine, object.Object)
		found := slices.Concat(schema.Mistyped, schema.Huge)
		if len(found) == 0 && len(in.invalid) == 0 && !decodable(object.Object) {
			problems = append(problems, in.pathOf(i)+" cannot be read as a VirtualMachine")
		}
		for _, e := range found {
			path := withJoinedKeys(e.Field)
			name, isSet := setBy[location{object: i, path: path}]
			if in.containsSecret(path) || in.containsSecret(e.Field) {
				path = "a field with a secret in its path"
			}
			switch {
			case in.invalid[name]: // reported already
			case isSet:
				problems = append(problems, fmt.Sprintf("%s: %s %s (%s)", name, in.quote(name, values[name]), e.Detail, path))
			default:
				problems = append(problems, path+" "+e.Detail)
			}
		}
	}
	return problems
}

// keyOfMap matches the key of a map in a field path.
var keyOfMap = regexp.MustCompile(`\[([^\]]*[^\]0-9][^\]]*)\]`)

// withJoinedKeys writes the keys of maps in a field path as join does.
func withJoinedKeys(path string) string {
	return keyOfMap.ReplaceAllStringFunc(path, func(key string) string { return join(".", key[1:len(key)-1])[1:] })
}

func decodable(content map[string]any) bool {
	encoded, err := json.Marshal(content)
	return err == nil && kjson.UnmarshalCaseSensitivePreserveInts(encoded, &kubevirtv1.VirtualMachine{}) == nil
}
