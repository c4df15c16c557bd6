package fleet

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"

	"github.com/virtwright/virtwright/presets"
)

// gatekeeperSpec has the fields of a mutator that presets can express.
type gatekeeperSpec struct {
	ApplyTo []struct {
		Groups   []string `json:"groups"`
		Versions []string `json:"versions"`
		Kinds    []string `json:"kinds"`
	} `json:"applyTo"`
	Match struct {
		Source string `json:"source"`
		Scope  string `json:"scope"`
		Kinds  []struct {
			Groups []string `json:"apiGroups"`
			Kinds  []string `json:"kinds"`
		} `json:"kinds"`
		Namespaces         []string              `json:"namespaces"`
		ExcludedNamespaces []string              `json:"excludedNamespaces"`
		LabelSelector      *metav1.LabelSelector `json:"labelSelector"`
		NamespaceSelector  *metav1.LabelSelector `json:"namespaceSelector"`
	} `json:"match"`
	Location   string `json:"location"`
	Parameters struct {
		Assign struct {
			Value any `json:"value"`
		} `json:"assign"`
		PathTests []struct {
			SubPath   string `json:"subPath"`
			Condition string `json:"condition"`
		} `json:"pathTests"`
	} `json:"parameters"`
}

// importGatekeeper imports a mutator. Source: Gatekeeper 3.19, documentation of mutation.
func importGatekeeper(p Policy, _ []Policy) ([]*mutation, error) {
	var policy struct {
		Spec json.RawMessage `json:"spec"`
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(p.JSON, &policy); err != nil || policy.Spec == nil {
		return nil, err
	}
	var out []*mutation
	for _, kind := range []presets.Kind{presets.VirtualMachine, presets.VirtualMachineInstance} {
		m, spec := newMutation(kind, importedName(p.Name)), gatekeeperSpec{}
		if err := m.decodeRule(policy.Spec, "spec.", &spec); err != nil {
			return nil, err
		}
		if !spec.concerns(kind) {
			continue
		}
		m.selectNames("spec.match.namespaces", metav1.LabelSelectorOpIn, spec.Match.Namespaces)
		m.selectNames("spec.match.excludedNamespaces", metav1.LabelSelectorOpNotIn, spec.Match.ExcludedNamespaces)
		both(&m.labels, spec.Match.LabelSelector)
		both(&m.namespaces, spec.Match.NamespaceSelector)
		if p.Kind.Kind == "ModifySet" {
			m.restricted("spec.parameters", nil, "presets do not change single values of a list")
		} else {
			m.assign(&spec, p.Kind.Kind == "AssignMetadata")
		}
		out = append(out, m)
	}
	return out, nil
}

func (s *gatekeeperSpec) concerns(kind presets.Kind) bool {
	applies, matches := s.ApplyTo == nil, s.Match.Kinds == nil
	for _, a := range s.ApplyTo {
		applies = applies || slices.Contains(a.Groups, kubevirtGroup) && slices.Contains(a.Kinds, string(kind))
	}
	for _, k := range s.Match.Kinds {
		matches = matches || anyOf(k.Groups, kubevirtGroup) && anyOf(k.Kinds, string(kind))
	}
	return applies && matches && s.Match.Scope != "Cluster" && s.Match.Source != "Generated"
}

// anyOf reports whether a list has a name or *, or is empty.
func anyOf(names []string, name string) bool {
	return len(names) == 0 || slices.Contains(names, "*") || slices.Contains(names, name)
}

// assign sets the value of a mutator. Metadata is only added.
func (m *mutation) assign(s *gatekeeperSpec, add bool) {
	value := s.Parameters.Assign.Value
	location, err := parseLocation(s.Location)
	switch {
	case err != nil:
		m.restricted("spec.location", s.Location, err.Error())
		return
	case value == nil:
		m.restricted("spec.parameters.assign", nil, "the value is not a constant")
		return
	}
	layer := m.overrides
	for i, test := range s.Parameters.PathTests {
		if test.Condition == "MustNotExist" && test.SubPath == s.Location {
			add = true
			continue
		}
		m.pathTest(fmt.Sprintf("spec.parameters.pathTests[%d]", i), i, test.SubPath, test.Condition)
	}
	if add {
		layer = m.defaults
	}
	if fields, isObject := value.(map[string]any); isObject && len(fields) > 0 {
		m.lacks("spec.parameters.assign.value", nil, "Gatekeeper replaces the whole object; the preset sets each field")
	}
	maps.Copy(layer, location.object(value))
	if _, isList := value.([]any); isList {
		m.mergedLists("Gatekeeper")
	}
}

func (m *mutation) pathTest(at string, i int, subPath, condition string) {
	path, err := parseLocation(subPath)
	inList := slices.ContainsFunc(path, func(s locationStep) bool { return s.key != "" })
	switch {
	case err != nil, inList:
		m.restricted(at, subPath, "presets have no condition for this path")
	case condition == "MustExist":
		m.condition(fmt.Sprintf("path-test-%d", i), m.isSet(path.names()))
	case condition == "MustNotExist":
		m.condition(fmt.Sprintf("path-test-%d", i), "!"+m.isSet(path.names()))
	default:
		m.restricted(at, condition, "unknown condition")
	}
}

// A location is a path of Gatekeeper, such as spec.disks[name: root].cache.
type location []locationStep

// A locationStep is a field, and an element of its list if key is set.
type locationStep struct{ name, key, value string }

var locationPart = regexp.MustCompile(`^("[^"]*"|'[^']*'|[^\s."'\[\]]+)(?:\[\s*("[^"]*"|'[^']*'|[^\s:\]]+)\s*:\s*("[^"]*"|'[^']*'|[^\s\]]+)\s*\])?(?:\.|$)`)

func parseLocation(text string) (location, error) {
	var out location
	for rest := strings.TrimPrefix(text, "."); rest != "" || out == nil; {
		found := locationPart.FindStringSubmatch(rest)
		if found == nil {
			return nil, fmt.Errorf("invalid location %q", text)
		}
		rest = rest[len(found[0]):]
		step := locationStep{unquoted(found[1]), unquoted(found[2]), unquoted(found[3])}
		if found[3] == "*" {
			return nil, fmt.Errorf("it changes every element of %s; write an element named \"*\"", step.name)
		}
		out = append(out, step)
	}
	return out, nil
}

func unquoted(text string) string { return strings.Trim(text, `"'`) }

func (l location) names() []string {
	out := make([]string, 0, len(l))
	for _, step := range l {
		out = append(out, step.name)
	}
	return out
}

// object returns an object with the value at the location.
func (l location) object(value any) map[string]any {
	for _, step := range slices.Backward(l) {
		if step.key != "" {
			element, _ := value.(map[string]any)
			element = maps.Clone(element)
			if element == nil {
				element = map[string]any{}
			}
			element[step.key] = step.value
			value = []any{element}
		}
		value = map[string]any{step.name: value}
	}
	out, _ := value.(map[string]any)
	return out
}
