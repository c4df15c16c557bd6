package presets

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/presets/tree"
	"github.com/virtwright/virtwright/presets/vmschema"
)

// A presetSelection holds the annotations of an object that select presets.
type presetSelection struct {
	named    []string
	excluded []exclusion
	problems field.ErrorList
}

type exclusion struct {
	ref  string // "*" means every preset
	path provenance.Path
}

func parseSelection(annotations map[string]any) presetSelection {
	var s presetSelection
	at := field.NewPath("metadata", "annotations")
	s.named = s.list(annotations, v1alpha1.AnnotationPresets)
	for _, item := range s.list(annotations, v1alpha1.AnnotationExclude) {
		ref, pathText, hasPath := strings.Cut(item, ":")
		e := exclusion{ref: strings.TrimSpace(ref)}
		if hasPath {
			p, err := parseKnown(strings.TrimSpace(pathText))
			if err != nil {
				s.problems = append(s.problems, field.Invalid(at.Key(v1alpha1.AnnotationExclude), item, fmt.Sprintf("must be NAME, cluster/NAME, NAME:PATH or *: %v", err)))
				continue
			}
			e.path = p
		}
		s.excluded = append(s.excluded, e)
	}
	return s
}

const maxSelected = 256

func (s *presetSelection) list(annotations map[string]any, key string) []string {
	items := listOf(tree.AsText(annotations[key]))
	if len(items) > maxSelected {
		s.problems = append(s.problems, field.TooMany(field.NewPath("metadata", "annotations").Key(key), len(items), maxSelected))
		return nil
	}
	return items
}

// listOf splits at commas outside of brackets.
func listOf(text string) []string {
	var items []string
	depth, start := 0, 0
	for i := range len(text) + 1 {
		switch {
		case i == len(text) || text[i] == ',' && depth <= 0:
			if item := strings.TrimSpace(text[start:i]); item != "" {
				items = append(items, item)
			}
			start = i + 1
		case text[i] == '[':
			depth++
		case text[i] == ']':
			depth--
		}
	}
	return items
}

func (s presetSelection) merge(o presetSelection) presetSelection {
	return presetSelection{
		named: slices.Concat(s.named, o.named), excluded: slices.Concat(s.excluded, o.excluded), problems: slices.Concat(s.problems, o.problems),
	}
}

// excludes reports whether all defaults of ref are excluded, or else which paths.
func (s presetSelection) excludes(ref string) (all bool, paths []provenance.Path) {
	for _, e := range s.excluded {
		switch {
		case e.ref != ref && e.ref != "*":
		case e.path == nil:
			return true, nil
		default:
			paths = append(paths, e.path)
		}
	}
	return false, paths
}

func (s presetSelection) names(ref string) bool { return slices.Contains(s.named, ref) }

// A NamedPreset is a preset that an annotation names.
type NamedPreset struct {
	Ref string
	// InTemplate says that it is an annotation of the template of a VM, which acts on instances.
	InTemplate bool
}

// Field returns the annotation of an object at root.
func (n NamedPreset) Field(root *field.Path) *field.Path {
	if n.InTemplate {
		root = root.Child("spec", "template")
	}
	return root.Child("metadata", "annotations").Key(v1alpha1.AnnotationPresets)
}

// NamedPresets lists the presets that an object and its template name. Naming requires permission
// to use the preset, even if it acts without a name: it may change, and the name stays.
func NamedPresets(kind Kind, object map[string]any) (out []NamedPreset) {
	add := func(at provenance.Path, inTemplate bool) {
		for _, ref := range parseSelection(tree.AsObject(vmschema.Value(object, at))).named {
			if n := (NamedPreset{ref, inTemplate}); !slices.Contains(out, n) {
				out = append(out, n)
			}
		}
	}
	add(vmAnnotations, false)
	if kind == VirtualMachine {
		add(vmschema.TemplateAnnotations, true)
	}
	return out
}
