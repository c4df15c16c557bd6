package format_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/virtwright/virtwright/templates/format"
)

// TestListedTypes checks that the type of a ${{NAME}} parameter follows from its default.
func TestListedTypes(t *testing.T) {
	for text, want := range map[string]string{
		"true": "boolean", "8": "integer", "-1": "integer", "0.5": "number", "1e3": "number", `{"a":1}`: "object", "[]": "list", `"8"`: "any", "null": "any", "": "any", "a=b": "any",
	} {
		list, err := format.ListParameters(&unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "template.openshift.io/v1", "kind": "Template", "objects": []any{map[string]any{"x": "${{P}}"}},
			"parameters": []any{map[string]any{"name": "P", "value": text}},
		}})
		if err != nil || len(list) != 1 || list[0].Type != want {
			t.Errorf("%s is listed as %v (%v), want %s", text, list, err, want)
		}
	}
}
