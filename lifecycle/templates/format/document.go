package format

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// How references are written. Of the second form a text must consist.
var (
	textToken = regexp.MustCompile(`\$\{([a-zA-Z0-9_]+?)\}`)
	jsonToken = regexp.MustCompile(`^\$\{\{([a-zA-Z0-9_]+)\}\}$`)
)

// A parameter is one of OpenShift's, which other formats have taken over.
type parameter struct {
	Name, Value, Generate, From string
	Required                    bool
}

func parameterOf(item any) (parameter, bool) {
	var p parameter
	fields, ok := item.(map[string]any)
	for key, to := range map[string]*string{"name": &p.Name, "value": &p.Value, "generate": &p.Generate, "from": &p.From} {
		text, isText := fields[key].(string)
		ok = ok && (isText || fields[key] == nil)
		*to = text
	}
	required, isBool := fields["required"].(bool)
	p.Required = required
	return p, ok && (isBool || fields["required"] == nil)
}

// A document is what a template of any format says.
type document struct {
	Parameters []parameter
	Objects    []any
	Labels     map[string]string
	Message    string

	// annotation holds notes on parameters.
	annotation string
	// strict says that references to what is no parameter are errors.
	strict bool
}

// read recognizes a template by its apiVersion and kind.
func read(template *unstructured.Unstructured) (*document, error) {
	if template == nil {
		return nil, errors.New("cannot read the template: there is none")
	}
	kind := template.GroupVersionKind()
	if kind == configMapKind {
		return readConfigMap(template)
	}
	var d *document
	var err error
	switch kind {
	case openshiftKind, legacyKind:
		d, err = readOpenShift(template.Object)
	case kubevirtKind:
		d, err = readKubeVirt(template.Object)
	default:
		return nil, fmt.Errorf("cannot read the template: %s %q is no Template of template.openshift.io/v1, VirtualMachineTemplate of template.kubevirt.io/v1alpha1, nor ConfigMap with one",
			template.GetAPIVersion(), template.GetKind())
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the template: %w", err)
	}
	d.annotation = template.GetAnnotations()[AnnotationParameters]
	return d, nil
}

// readConfigMap reads the template in a ConfigMap; notes on the ConfigMap count
// where the manifest has none.
func readConfigMap(template *unstructured.Unstructured) (*document, error) {
	manifest, found, err := unstructured.NestedString(template.Object, "data", manifestKey)
	if err != nil || !found {
		return nil, fmt.Errorf("cannot read the template: the ConfigMap has no text under data[%q]", manifestKey)
	}
	inner, err := manifestIn([]byte(manifest))
	if err != nil {
		return nil, fmt.Errorf("cannot read the template: data[%q] is no object in YAML", manifestKey)
	}
	within := &unstructured.Unstructured{Object: inner}
	if within.GroupVersionKind() == configMapKind {
		return nil, fmt.Errorf("cannot read the template: data[%q] is another ConfigMap", manifestKey)
	}
	d, err := read(within)
	if err == nil && d.annotation == "" {
		d.annotation = template.GetAnnotations()[AnnotationParameters]
	}
	return d, err
}

func readOpenShift(content map[string]any) (*document, error) {
	objects, ok := content["objects"].([]any)
	if !ok {
		return nil, errors.New("objects is no list")
	}
	d := &document{Objects: objects}
	if labels, found := content["labels"]; found && labels != nil {
		texts, err := textsOf(labels)
		if err != nil {
			return nil, fmt.Errorf("labels %w", err)
		}
		d.Labels = texts
	}
	return d, d.rest(content)
}

func readKubeVirt(content map[string]any) (*document, error) {
	spec, _ := content["spec"].(map[string]any)
	vm, ok := spec["virtualMachine"].(map[string]any)
	if !ok {
		return nil, errors.New("spec.virtualMachine is no object")
	}
	d := &document{Objects: []any{vm}, strict: true}
	return d, d.rest(spec)
}

// rest reads what all formats have.
func (d *document) rest(content map[string]any) error {
	message, ok := content["message"].(string)
	if !ok && content["message"] != nil {
		return errors.New("message is no text")
	}
	d.Message = message
	list, ok := content["parameters"].([]any)
	if !ok && content["parameters"] != nil {
		return errors.New("parameters is no list")
	}
	for i, item := range list {
		p, ok := parameterOf(item)
		if !ok {
			return fmt.Errorf("parameters[%d]: name, value, generate and from must be texts (quote numbers), required true or false", i)
		}
		d.Parameters = append(d.Parameters, p)
	}
	return nil
}

// notes are what is said of parameters, by name.
func (d *document) notes() map[string]Note {
	var all []Note
	if json.Unmarshal([]byte(d.annotation), &all) != nil {
		return nil
	}
	notes := make(map[string]Note, len(all))
	for _, n := range all {
		notes[n.Name] = n
	}
	return notes
}

func textsOf(value any) (map[string]string, error) {
	fields, ok := value.(map[string]any)
	if !ok {
		return nil, errors.New("is no object")
	}
	out := make(map[string]string, len(fields))
	for key, value := range fields {
		text, ok := value.(string)
		if !ok {
			return nil, fmt.Errorf("has a value of %q that is no text", key)
		}
		out[key] = text
	}
	return out, nil
}

// A place is where a reference stands in an object of a template.
type place struct {
	object int
	at     string
	// key says that it stands in a key below the path, item that it is an item of a list.
	key, item bool
	// whole says that the value takes the reference's place, whatever its type.
	whole bool
}

// references calls f for every reference to any name.
func (d *document) references(f func(name string, at place)) {
	for i, object := range d.Objects {
		refer(object, place{object: i}, f)
	}
}

func refer(value any, at place, f func(string, place)) {
	switch value := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			inKey := at
			inKey.key, inKey.item = true, false
			tokens(key, inKey, f)
			refer(value[key], place{object: at.object, at: join(at.at, key)}, f)
		}
	case []any:
		for i, item := range value {
			refer(item, place{object: at.object, at: at.at + "[" + strconv.Itoa(i) + "]", item: true}, f)
		}
	case string:
		tokens(value, at, f)
	}
}

func tokens(text string, at place, f func(string, place)) {
	if found := jsonToken.FindStringSubmatch(text); found != nil {
		at.whole = true
		f(found[1], at)
		return
	}
	for _, found := range textToken.FindAllStringSubmatch(text, -1) {
		f(found[1], at)
	}
}

func join(parent, key string) string {
	switch {
	case !plainKey.MatchString(key):
		return parent + "[" + strconv.Quote(key) + "]"
	case parent == "":
		return key
	}
	return parent + "." + key
}

var plainKey = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)
