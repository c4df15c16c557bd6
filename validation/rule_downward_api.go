package validation

import (
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// downwardFields are the fields of pods that a volume can show.
var downwardFields = valueSet{"metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"}

// downwardKey is a label or an annotation of pods that a volume can show.
var downwardKey = regexp.MustCompile(`^metadata\.(?:labels|annotations)\['([^']+)'\]$`)

var downwardAPIRules = []Rule{{
	ID:          "downward-api-field",
	Requirement: "A file of a downwardAPI volume has a relative path, and shows a field of pods: " + downwardFields.String() + ", or a key such as metadata.labels['app'].",
	Strictness:  StricterThanKubeVirt,
	Check: func(vm *ExpandedVM, r *Report) {
		for i, volume := range pointers(vm.Spec.Volumes) {
			if volume.DownwardAPI == nil {
				continue
			}
			files := vm.Path("spec", "volumes").Index(i).Child("downwardAPI", "fields")
			for j, file := range pointers(volume.DownwardAPI.Fields) {
				if segments := strings.Split(file.Path, "/"); segments[0] == "" || slices.Contains(segments, "..") {
					r.Add(field.Invalid(files.Index(j).Child("path"), file.Path, "must be a relative path without '..'"))
				}
				checkDownwardField(r, file.FieldRef, files.Index(j).Child("fieldRef"))
			}
		}
	},
}}

func checkDownwardField(r *Report, ref *corev1.ObjectFieldSelector, at *field.Path) {
	if ref == nil {
		return
	}
	if ref.APIVersion != "" && ref.APIVersion != "v1" {
		r.Add(field.NotSupported(at.Child("apiVersion"), ref.APIVersion, []string{"v1"}))
	}
	key := downwardKey.FindStringSubmatch(ref.FieldPath)
	switch {
	case slices.Contains(downwardFields, ref.FieldPath):
	case key != nil && len(validation.IsQualifiedName(key[1])) == 0:
	default:
		downwardFields.check(r, ref.FieldPath, func() *field.Path { return at.Child("fieldPath") })
	}
}
