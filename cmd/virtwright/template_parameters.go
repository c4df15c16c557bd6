package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/virtwright/virtwright/lifecycle/templates/format"
)

// parameter is one of a template, as a list shows it.
type parameter struct {
	name     string
	value    string
	from     string // an expression of which a value is made
	required bool
	typed    string   // of the value in JSON
	paths    []string // where it stands
}

// parametersIn are the parameters of a template. A template that cannot be
// processed, whatever values there are, is an error.
func parametersIn(template *unstructured.Unstructured) ([]*parameter, error) {
	if _, _, err := format.Process(template, nil, nil); err != nil && strings.HasPrefix(err.Error(), "cannot read the template: ") {
		return nil, err
	}
	held, err := unwrapped(template)
	if err != nil {
		return nil, err
	}
	parameters := parametersOf(held.Object)
	heed(parameters, template, held)
	return parameters, nil
}

// misnamed says which parameters nobody could give a value, as processing does.
func misnamed(parameters []*parameter) error {
	var problems []string
	seen := map[string]bool{}
	for _, p := range parameters {
		if seen[p.name] {
			problems = append(problems, p.name+": the template has two parameters of this name")
		}
		if !anyName.MatchString(p.name) {
			problems = append(problems, fmt.Sprintf("%q: names of parameters consist of letters, digits and underscores", p.name))
		}
		seen[p.name] = true
	}
	if len(problems) == 0 {
		return nil
	}
	slices.Sort(problems)
	return errors.New(strings.Join(slices.Compact(problems), "\n"))
}

// printParameters lists parameters for people.
func printParameters(out io.Writer, parameters []*parameter) error {
	var text bytes.Buffer
	w := tabwriter.NewWriter(&text, 0, 0, 3, ' ', 0)
	fmt.Fprint(w, "NAME\tTYPE\tDEFAULT\tREQUIRED\tPATH\n")
	for _, p := range parameters {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", p.name, p.typed, p.fallback(), p.must(), strings.Join(p.paths, ", "))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return writeTable(out, text.String())
}

// fallback is what the parameter is where nothing is given.
func (p *parameter) fallback() string {
	switch {
	case p.value != "":
		return cell(p.value)
	case p.from != "":
		return "generated: " + cell(p.from)
	}
	return ""
}

// must says whether a value has to be given.
func (p *parameter) must() string {
	if p.required && p.value == "" && p.from == "" {
		return "yes"
	}
	return "no"
}

// parametersOf are the parameters of a template in JSON's form, of a form that
// has them in itself or in its spec.
func parametersOf(template map[string]any) []*parameter {
	holder := template
	if spec, ok := template["spec"].(map[string]any); ok {
		holder = spec
	}
	list, _ := holder["parameters"].([]any)
	var out []*parameter
	byName := map[string]*parameter{}
	for _, item := range list {
		said, _ := item.(map[string]any)
		p := &parameter{typed: "string"}
		p.name, _ = said["name"].(string)
		p.value, _ = said["value"].(string)
		p.required, _ = said["required"].(bool)
		if generate, _ := said["generate"].(string); generate != "" {
			p.from, _ = said["from"].(string)
		}
		out, byName[p.name] = append(out, p), p
	}
	find := &finder{parameters: byName}
	objects, _ := holder["objects"].([]any)
	for i, object := range objects {
		at := ""
		if len(objects) > 1 {
			at = fmt.Sprintf("objects[%d]", i)
		}
		find.in(object, at)
	}
	find.in(holder["virtualMachine"], "")
	find.in(holder["labels"], "labels")
	find.in(holder["message"], "message")
	return out
}

// heed takes from what virtwright notes on a template, or on the ConfigMap that
// it is in, what parameters are: the type of one that has no default cannot be seen.
func heed(parameters []*parameter, on ...*unstructured.Unstructured) {
	for _, object := range on {
		var notes []format.Note
		if json.Unmarshal([]byte(object.GetAnnotations()[format.AnnotationParameters]), &notes) != nil {
			continue // there are none
		}
		for _, n := range notes {
			for _, p := range parameters {
				if p.name == n.Name {
					p.typed = string(n.Type)
				}
			}
		}
	}
}

// finder notes where parameters stand.
type finder struct {
	parameters map[string]*parameter
}

var (
	inText    = regexp.MustCompile(`\$\{([A-Za-z0-9_]+)\}`)
	wholeText = regexp.MustCompile(`^\$\{\{([A-Za-z0-9_]+)\}\}$`)
)

func (f *finder) in(value any, at string) {
	switch value := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			f.key(key, at)
			f.in(value[key], strings.TrimPrefix(at+step(key), "."))
		}
	case []any:
		for i, item := range value {
			f.in(item, fmt.Sprintf("%s[%d]", at, i))
		}
	case string:
		f.text(value, at)
	}
}

func (f *finder) text(text, at string) {
	if whole := wholeText.FindStringSubmatch(text); whole != nil {
		if p := f.parameters[whole[1]]; p != nil {
			p.typed, p.paths = jsonType(p.value), append(p.paths, at)
		}
		return
	}
	f.part(text, at)
}

// key notes what stands in a key of an object.
func (f *finder) key(key, at string) { f.part(key, strings.TrimPrefix(at+" (key)", " ")) }

// part notes what stands between other things in a text.
func (f *finder) part(text, at string) {
	for _, found := range inText.FindAllStringSubmatch(text, -1) {
		if p := f.parameters[found[1]]; p != nil && !slices.Contains(p.paths, at) {
			p.paths = append(p.paths, at)
		}
	}
}

var plainKey = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// step is a key as a part of a path.
func step(key string) string {
	if plainKey.MatchString(key) {
		return "." + key
	}
	return fmt.Sprintf("[%q]", key)
}

// jsonType is the type that a default has where it is no text.
func jsonType(text string) string {
	var value any
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&value); err != nil {
		return "any"
	}
	switch value := value.(type) {
	case bool:
		return "boolean"
	case map[string]any:
		return "object"
	case []any:
		return "list"
	case json.Number:
		if strings.ContainsAny(value.String(), ".eE") {
			return "number"
		}
		return "integer"
	}
	return "any"
}
