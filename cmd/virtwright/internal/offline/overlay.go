package offline

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/virtwright/virtwright/cmd/virtwright/internal/manifest"
)

// A Survey says what objects of files need from a cluster.
type Survey struct {
	// Namespaces are those of the objects.
	Namespaces []string
	// VMs says that there are VMs or VMIs.
	VMs bool
}

// NewSurvey looks at objects. Those that name no namespace are in the given one.
func NewSurvey(objects []manifest.Object, namespace string) Survey {
	var out Survey
	for _, o := range objects {
		id, known := identify(o, namespace)
		if known == machine {
			out.VMs = true
		}
		if known != unknown && id.namespace != "" && !slices.Contains(out.Namespaces, id.namespace) {
			out.Namespaces = append(out.Namespaces, id.namespace)
		}
	}
	return out
}

// Replace returns the objects of files, and those of a cluster that files do not replace. A file
// replaces an object of the same kind, namespace and name.
func Replace(stored, files []manifest.Object, namespace string) []manifest.Object {
	return slices.Concat(files, Without(stored, files, namespace))
}

// identity tells one object of a cluster from another.
type identity struct{ group, kind, namespace, name string }

func identify(o manifest.Object, namespace string) (identity, role) {
	gv, err := schema.ParseGroupVersion(o.APIVersion)
	if err != nil {
		return identity{}, unknown // reported where the object is sorted
	}
	e := entry{Object: o, role: kinds[schema.GroupKind{Group: gv.Group, Kind: o.Kind}].role}
	e.readMeta()
	id := identity{gv.Group, o.Kind, e.meta.Namespace, e.meta.Name}
	if !e.namespaced() {
		id.namespace = ""
	} else if id.namespace == "" {
		id.namespace = namespace
	}
	return id, e.role
}

// IsPreset reports whether an object is a preset of virtwright.
func IsPreset(o manifest.Object) bool {
	_, role := identify(o, "")
	return role == preset
}

// IsException reports whether an object is an exception from presets.
func IsException(o manifest.Object) bool {
	_, role := identify(o, "")
	return role == exception
}

// Without returns the objects whose kind, namespace and name others do not have.
func Without(objects, others []manifest.Object, namespace string) []manifest.Object {
	has := map[identity]bool{}
	for _, o := range others {
		id, _ := identify(o, namespace)
		has[id] = id.name != ""
	}
	return slices.DeleteFunc(slices.Clone(objects), func(o manifest.Object) bool {
		id, _ := identify(o, namespace)
		return has[id]
	})
}
