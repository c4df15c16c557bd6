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

	"github.com/virtwright/virtwright/lifecycle/templates/blueprint"
)

// An input is what a template is processed with.
type input struct {
	*document
	given, labels map[string]string
	index         map[string]int // of parameters, by name
	notes         map[string]Note
	wrong         map[string]bool // names of parameters whose values are not as given
}

func newInput(d *document, given, labels map[string]string) input {
	in := input{document: d, given: given, labels: labels, index: map[string]int{}, notes: d.notes()}
	for i, p := range d.Parameters {
		in.index[p.Name] = i
	}
	return in
}

// checks find what is wrong before anything is processed.
var checks = []func(input) []string{
	input.names, input.unknown, input.missing, input.invalidLabels, input.invalidObjects, input.misplaced, input.types, input.suffixes,
}

func (in input) check() []string {
	var problems []string
	for _, check := range checks {
		problems = append(problems, check(in)...)
	}
	return problems
}

// processable is what OpenShift takes for the name of a parameter.
var processable = regexp.MustCompile(`^[a-zA-Z0-9_]+$`)

func (in input) names() []string { return misnamed(in.known()) }

// known are the names of all parameters.
func (in input) known() []string {
	var names []string
	for _, p := range in.Parameters {
		names = append(names, p.Name)
	}
	return names
}

func (in input) parameter(name string) (parameter, bool) {
	i, ok := in.index[name]
	if !ok {
		return parameter{}, false
	}
	return in.Parameters[i], true
}

// value is what the parameter will be, unless it is generated.
func (in input) value(p parameter) string {
	if value, ok := in.given[p.Name]; ok {
		return value
	}
	return p.Value
}

func (in input) unknown() []string {
	known := in.known()
	var problems []string
	for name := range in.given {
		if !slices.Contains(known, name) {
			problems = append(problems, fmt.Sprintf("%s: the template has no such parameter; %s", name, suggestion(name, known)))
		}
	}
	return problems
}

func (in input) missing() []string {
	var problems []string
	for _, p := range in.Parameters {
		_, given := in.given[p.Name]
		if in.value(p) != "" {
			continue
		}
		if p.Generate != "" && !given {
			if _, err := generate(p); err != nil {
				problems = append(problems, p.Name+": "+err.Error())
			}
		} else if p.Required {
			problems = append(problems, fmt.Sprintf("%s: a value must be given, as %s=VALUE", p.Name, p.Name))
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
		if version, _ := fields["apiVersion"].(string); !ok || version == "" {
			problems = append(problems, in.nameOf(i)+" is no object with an apiVersion")
		} else if kind, _ := fields["kind"].(string); kind == "" {
			problems = append(problems, in.nameOf(i)+" is no object with a kind")
		}
	}
	return problems
}

// nameOf is where an object stands in the template.
func (in input) nameOf(i int) string {
	if in.strict { // there is one
		return "spec.virtualMachine"
	}
	return fmt.Sprintf("objects[%d]", i)
}

// misplaced finds references that mean nothing, or that engines panic of.
func (in input) misplaced() []string {
	var problems []string
	in.references(func(name string, at place) {
		p, known := in.parameter(name)
		value, isJSON := parsed(in.value(p))
		_, isText := value.(string)
		switch {
		case !known && in.strict:
			problems = append(problems, fmt.Sprintf("%s: %s refers to it, and the template has no such parameter", name, at.at))
		case !known || !at.whole:
		case at.key && (in.strict || isJSON && !isText):
			problems = append(problems, fmt.Sprintf("%s: ${{%s}} stands for a key in %s, and keys are texts: write ${%s}", name, name, at.at, name))
		case !at.key && isJSON && value == nil && (at.item || in.strict):
			problems = append(problems, fmt.Sprintf("%s: null cannot stand at %s", name, at.at))
		}
	})
	return problems
}

// types finds values given that are not of the type of the default, where the
// type matters.
func (in input) types() []string {
	wrong := map[string]string{}
	in.references(func(name string, at place) {
		p, known := in.parameter(name)
		if !known || !at.whole || at.key {
			return
		}
		if at.at == "metadata.labels" {
			if reason := labelsIn(in.value(p)); reason != "" {
				wrong[name] = fmt.Sprintf("%s: %s; right is %s={\"team\":\"x\"}", name, reason, name)
			}
			return
		}
		value, given := in.given[name]
		if reason := unfit(value, in.typeOf(p)); given && reason != "" && (value != "" || !p.Required) {
			wrong[name] = fmt.Sprintf("%s: %s %s", name, in.quote(name, value), reason)
		}
	})
	return slices.Collect(maps.Values(wrong))
}

// labelsIn says why a value is no object of labels.
func labelsIn(value string) string {
	var labels map[string]any
	if json.Unmarshal([]byte(value), &labels) != nil || labels == nil {
		return "the value is not a JSON object of labels"
	}
	var reasons []string
	for key, label := range labels {
		text, ok := label.(string)
		if !ok {
			reasons = append(reasons, fmt.Sprintf("the label %q must be a text, in quotes", key))
		} else if reason := invalidLabel(key, text); reason != "" {
			reasons = append(reasons, fmt.Sprintf("the label %q is invalid: %s", key, reason))
		}
	}
	slices.Sort(reasons)
	return strings.Join(reasons, "; ")
}

// list is a type that parameters of others may have.
const list blueprint.Type = "list"

// typeOf is the type of a parameter's values: what its note says, or that of its
// default. Empty if neither tells.
func (in input) typeOf(p parameter) blueprint.Type {
	if n, ok := in.notes[p.Name]; ok {
		return n.Type
	}
	value, ok := parsed(p.Value)
	if !ok {
		return ""
	}
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

// unfit says why a value is not of a type; empty if it is.
func unfit(text string, kind blueprint.Type) string {
	value, _ := parsed(text)
	switch kind {
	case blueprint.Integer:
		n, ok := value.(int64)
		if !ok {
			return "is not an integer"
		}
		if n > exact || n < -exact {
			return "is beyond the integers that a parameter holds exactly (" + strconv.Itoa(exact) + ")"
		}
	case blueprint.Number:
		if kindOf(value) != "a number" {
			return "is not a number"
		}
	case blueprint.Boolean:
		if kindOf(value) != "a boolean" {
			return "is not true or false"
		}
	case blueprint.Object:
		if kindOf(value) != "an object" {
			return "is not a JSON object"
		}
	case list:
		if kindOf(value) != "a list" {
			return "is not a JSON list"
		}
	}
	return ""
}

// suffix is what can end the names of disks.
var suffix = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)

// suffixes finds values given for a suffix of names of disks that none can have.
func (in input) suffixes() []string {
	var problems []string
	for _, p := range in.Parameters {
		value, given := in.given[p.Name]
		if given && in.isSuffix(p) && (len(value) > validation.DNS1123LabelMaxLength || !suffix.MatchString(value)) {
			problems = append(problems, fmt.Sprintf("%s: %s cannot end the names of disks; right is a text of a-z, 0-9 and - between them, as %s=a1b2c", p.Name, in.quote(p.Name, value), p.Name))
		}
	}
	return problems
}

var volumeSuffix = regexp.MustCompile(`^spec\.dataVolumeTemplates\[[0-9]+\]\.metadata\.name$`)

// isSuffix says whether a parameter ends the names of disks: by its note, or if
// there is none because it is generated and stands there.
func (in input) isSuffix(p parameter) bool {
	if n, noted := in.notes[p.Name]; noted {
		return n.Class == blueprint.Generated
	}
	found := false
	if p.Generate != "" && p.Value == "" {
		in.references(func(name string, at place) { found = found || name == p.Name && volumeSuffix.MatchString(at.at) })
	}
	return found
}

// longestQuote is how much of a value an error quotes.
const longestQuote = 40

// quote writes a value for an error, unless it may be a secret: by its note, or
// if there is none because the template has no default.
func (in input) quote(name, value string) string {
	p, _ := in.parameter(name)
	n, noted := in.notes[name]
	if n.Class == blueprint.Secret || !noted && p.Value == "" || in.containsSecret(value) {
		return "the value"
	}
	if len(value) > longestQuote {
		return strconv.Quote(value[:longestQuote]) + "…"
	}
	return strconv.Quote(value)
}

// containsSecret says whether a text is what is given for a secret, or contains it.
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
