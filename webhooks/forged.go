package webhooks

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gomodules.xyz/jsonpatch/v2"
	admissionv1 "k8s.io/api/admission/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	kjson "sigs.k8s.io/json"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/validation/protection"
)

// A removal takes out of a new object the fields that only controllers write.
type removal struct {
	patch   []jsonpatch.Operation
	warning string
}

// forged removes what the author of a new object copied from a cluster. It
// refuses annotations that together exceed the limit of API servers, which
// would otherwise see what remains and not what was sent.
func (m *Machine) forged(req admission.Request) (removal, field.ErrorList) {
	marked := func(mark string) bool { return bytes.Contains(req.Object.Raw, []byte(mark)) }
	if req.Operation != admissionv1.Create || m.Trusted.Has(req.UserInfo.Username) || !slices.ContainsFunc(protection.Marks(m.Kind), marked) {
		return removal{}, nil
	}
	var object map[string]any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(req.Object.Raw, &object); err != nil {
		return removal{}, nil // which the engine has told
	}
	paths := protection.Forged(m.Kind, object)
	if len(paths) == 0 {
		return removal{}, nil
	}
	meta, _ := object["metadata"].(map[string]any)
	annotations, _ := meta["annotations"].(map[string]any)
	if err := apivalidation.ValidateAnnotationsSize(texts(annotations)); err != nil {
		return removal{}, field.ErrorList{field.TooLong(field.NewPath("metadata", "annotations"), "", apivalidation.TotalAnnotationSizeLimitB)}
	}
	return removal{patch: without(annotations, paths), warning: "controllers write " + listed(dotted(paths)) + ": left out" + misspelt(paths)}, nil
}

// misspelt names the annotations that the author of a reserved one may have meant.
func misspelt(paths [][]string) string {
	for _, path := range paths {
		if meant := presets.Nearest(path[len(path)-1], slices.Values(v1alpha1.UserAnnotations())); meant != "" {
			return fmt.Sprintf("; did you mean %s?", meant)
		}
	}
	return ""
}

// without removes paths from an object with these annotations. Several
// annotations go in one operation, since applying a patch takes time for each.
func without(annotations map[string]any, paths [][]string) []jsonpatch.Operation {
	remaining := maps.Clone(annotations)
	var out []jsonpatch.Operation
	for _, path := range paths {
		if len(path) == 3 { // metadata.annotations and a key
			delete(remaining, path[len(path)-1])
			continue
		}
		out = append(out, jsonpatch.NewOperation("remove", "/"+strings.Join(path, "/"), nil))
	}
	if len(remaining) < len(annotations) {
		out = append(out, jsonpatch.NewOperation("replace", "/metadata/annotations", remaining))
	}
	return out
}

func dotted(paths [][]string) []string {
	var out []string
	for _, path := range paths {
		out = append(out, presets.Cut(field.NewPath(path[0], path[1:]...).String(), presets.MaxWarningBytes))
	}
	return out
}

// texts are the values of a map that are strings.
func texts(fields map[string]any) map[string]string {
	out := make(map[string]string, len(fields))
	for key, value := range fields {
		out[key], _ = value.(string)
	}
	return out
}
