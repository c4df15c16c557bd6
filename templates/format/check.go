package format

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/virtwright/virtwright/templates/blueprint"
)

// An input is a template with values for its parameters and labels for its objects.
type input struct {
	*document
	given, labels map[string]string
	names         []string       // of parameters
	index         map[string]int // of parameters, by name
	notes         map[string]note
	invalid       map[string]bool // parameters with values that are reported already
}

func newInput(d *document, given, labels map[string]string) input {
	in := input{document: d, given: given, labels: labels, index: map[string]int{}, notes: d.notes()}
	for i, p := range d.Parameters {
		in.names, in.index[p.Name] = append(in.names, p.Name), i
	}
	return in
}

// checks find problems before the template is processed. Each starts with a parameter or a path.
var checks = []func(input) []string{
	input.invalidNames, input.unknown, input.missing, input.invalidLabels, input.invalidObjects, input.invalidReferences, input.mistypedValues, input.invalidSuffixes,
}

func (in input) check() []string {
	var problems []string
	for _, check := range checks {
		problems = append(problems, check(in)...)
	}
	return problems
}

func (in input) invalidNames() []string { return invalidNames(in.names) }

func (in input) parameter(name string) (parameter, bool) {
	i, ok := in.index[name]
	if !ok {
		return parameter{}, false
	}
	return in.Parameters[i], true
}

// value returns the value of a parameter, unless it is generated.
func (in input) value(p parameter) string {
	if value, ok := in.given[p.Name]; ok {
		return value
	}
	return p.Value
}

func (in input) unknown() []string {
	var problems []string
	for name := range in.given {
		if _, known := in.index[name]; !known {
			problems = append(problems, fmt.Sprintf("%s: undefined parameter; %s", name, suggestion(name, in.names)))
		}
	}
	return problems
}

func (in input) missing() []string {
	var problems []string
	for _, p := range in.Parameters {
		_, given := in.given[p.Name]
		switch {
		case in.value(p) != "":
		case p.Generate != "" && !given:
			if _, err := generate(p); err != nil {
				problems = append(problems, p.Name+": "+err.Error())
			}
		case p.Required:
			problems = append(problems, fmt.Sprintf("%s: Required value: give %s=VALUE", p.Name, p.Name))
		}
	}
	return problems
}

func (in input) invalidLabels() []string {
	var problems []string
	for key, value := range in.labels {
		if reason := invalidLabel(key, value); reason != "" {
			problems = append(problems, fmt.Sprintf("label %s: %s", key, reason))
		}
	}
	return problems
}

func invalidLabel(key, value string) string {
	return strings.Join(append(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)...), "; ")
}

func (in input) invalidObjects() []string {
	var problems []string
	for i, object := range in.Objects {
		fields, ok := object.(map[string]any)
		if !ok {
			problems = append(problems, in.pathOf(i)+" must be an object")
			continue
		}
		for _, field := range []string{"apiVersion", "kind"} {
			if text, _ := fields[field].(string); text == "" {
				problems = append(problems, in.pathOf(i)+"."+field+": Required value")
			}
		}
	}
	return problems
}

func (in input) pathOf(i int) string {
	if in.strict { // VirtualMachineTemplates have one object
		return "spec.virtualMachine"
	}
	return fmt.Sprintf("objects[%d]", i)
}

// invalidReferences finds references that are undefined, or that make engines panic.
func (in input) invalidReferences() []string {
	var problems []string
	in.references(func(name string, at location) {
		p, known := in.parameter(name)
		value, isJSON := parseJSON(in.value(p))
		_, isString := value.(string)
		switch {
		case !known && in.strict:
			problems = append(problems, fmt.Sprintf("%s: undefined parameter, to which %s refers", name, at.path))
		case !known || !at.whole:
		case at.inKey && (in.strict || isJSON && !isString):
			problems = append(problems, fmt.Sprintf("%s: ${{%s}} cannot be a key in %s, because keys are strings: write ${%s}", name, name, at.path, name))
		case !at.inKey && isJSON && value == nil && (at.isItem || in.strict):
			problems = append(problems, fmt.Sprintf("%s: null is not allowed at %s", name, at.path))
		}
	})
	return problems
}

// mistypedValues finds given values that have another type than the default, where the type
// matters.
func (in input) mistypedValues() []string {
	problems := map[string]string{}
	in.references(func(name string, at location) {
		p, known := in.parameter(name)
		if !known || !at.whole || at.inKey {
			return
		}
		if at.path == "metadata.labels" {
			if reason := invalidLabelsParameter(in.value(p)); reason != "" {
				problems[name] = fmt.Sprintf("%s: %s, for example %s={\"team\":\"x\"}", name, reason, name)
			}
			return
		}
		value, given := in.given[name]
		if reason := typeMismatch(value, in.typeOf(p)); given && reason != "" && (value != "" || !p.Required) {
			problems[name] = fmt.Sprintf("%s: %s %s", name, in.quote(name, value), reason)
		}
	})
	return slices.Collect(maps.Values(problems))
}

// invalidLabelsParameter returns why a value is not a JSON object of labels.
func invalidLabelsParameter(value string) string {
	var labels map[string]any
	if json.Unmarshal([]byte(value), &labels) != nil || labels == nil {
		return "the value must be a JSON object of labels"
	}
	var reasons []string
	for key, label := range labels {
		text, ok := label.(string)
		if !ok {
			reasons = append(reasons, fmt.Sprintf("label %q must be a string, in quotes", key))
		} else if reason := invalidLabel(key, text); reason != "" {
			reasons = append(reasons, fmt.Sprintf("label %q is invalid: %s", key, reason))
		}
	}
	slices.Sort(reasons)
	return strings.Join(reasons, "; ")
}

// list is a type that blueprints do not have, but other templates may.
const list blueprint.Type = "list"

// typeOf returns the type of a parameter: that of its note, or else that of its default; empty if
// it is unknown.
func (in input) typeOf(p parameter) blueprint.Type {
	if n, ok := in.notes[p.Name]; ok {
		return n.Type
	}
	value, _ := parseJSON(p.Value)
	switch value.(type) {
	case int64:
		return blueprint.Integer
	case float64:
		return blueprint.Number
	case bool:
		return blueprint.Boolean
	case map[string]any:
		return blueprint.Object
	case []any:
		return list
	}
	return ""
}

// typeMismatch returns why a value does not have a type; empty if it has.
func typeMismatch(text string, want blueprint.Type) string {
	value, _ := parseJSON(text)
	kind := kindOf(value)
	n, isInteger := value.(int64)
	switch {
	case want == blueprint.Integer && !isInteger:
		return "is not an integer"
	case want == blueprint.Integer && (n > blueprint.MaxExact || n < -blueprint.MaxExact):
		return "is beyond the integers that a parameter can hold exactly (" + strconv.Itoa(blueprint.MaxExact) + ")"
	case want == blueprint.Number && kind != "a number":
		return "is not a number"
	case want == blueprint.Boolean && kind != "a boolean":
		return "is not true or false"
	case want == blueprint.Object && kind != "an object":
		return "is not a JSON object"
	case want == list && kind != "a list":
		return "is not a JSON list"
	}
	return ""
}

var (
	validSuffix = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)
	diskName    = regexp.MustCompile(`^spec\.dataVolumeTemplates\[[0-9]+\]\.metadata\.name$`)
)

// invalidSuffixes finds given suffixes that disk names cannot have.
func (in input) invalidSuffixes() []string {
	var problems []string
	for _, p := range in.Parameters {
		value, given := in.given[p.Name]
		if given && in.isSuffix(p) && (len(value) > validation.DNS1123LabelMaxLength || !validSuffix.MatchString(value)) {
			problems = append(problems, fmt.Sprintf("%s: %s is not a valid suffix for disk names: use a-z, 0-9 and \"-\", and begin and end with a letter or digit, for example %s=a1b2c", p.Name, in.quote(p.Name, value), p.Name))
		}
	}
	return problems
}

// isSuffix reports whether a parameter is the suffix of disk names: by its note or, without a note,
// if it is generated and used there.
func (in input) isSuffix(p parameter) bool {
	if n, noted := in.notes[p.Name]; noted {
		return n.Class == blueprint.Generated
	}
	found := false
	if p.Generate != "" && p.Value == "" {
		in.references(func(name string, at location) { found = found || name == p.Name && diskName.MatchString(at.path) })
	}
	return found
}

const maxQuote = 40

// quote quotes a value for an error, unless it may be a secret: by its note or, without a note, if
// the template has no default.
func (in input) quote(name, value string) string {
	p, _ := in.parameter(name)
	n, noted := in.notes[name]
	if n.Class == blueprint.Secret || !noted && p.Value == "" || in.containsSecret(value) {
		return "the value"
	}
	if len(value) > maxQuote {
		return strconv.Quote(value[:maxQuote]) + "…"
	}
	return strconv.Quote(value)
}

func (in input) containsSecret(text string) bool {
	for name, value := range in.given {
		if value == "" || in.notes[name].Class != blueprint.Secret {
			continue
		}
		if text == value || len(value) >= blueprint.MinSecretLength && strings.Contains(text, value) {
			return true
		}
	}
	return false
}
