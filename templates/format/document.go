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

	"github.com/virtwright/virtwright/templates/portable"
)

// The forms of references. A text with the second form consists of nothing else.
var (
	textToken = regexp.MustCompile(`\$\{([a-zA-Z0-9_]+?)\}`)
	jsonToken = regexp.MustCompile(`^\$\{\{([a-zA-Z0-9_]+)\}\}$`)
)

// A parameter has the fields of OpenShift's parameters, which other formats share.
type parameter struct {
	Name, Value, Generate, From string
	Required                    bool
}

func parameterOf(item any) (parameter, bool) {
	var p parameter
	fields, ok := item.(map[string]any)
	for key, to := range map[string]*string{"name": &p.Name, "value": &p.Value, "generate": &p.Generate, "from": &p.From} {
		text, isString := fields[key].(string)
		ok = ok && (isString || fields[key] == nil)
		*to = text
	}
	required, isBool := fields["required"].(bool)
	p.Required = required
	return p, ok && (isBool || fields["required"] == nil)
}

// A document is the content of a template of any format.
type document struct {
	Parameters []parameter
	Objects    []any
	Labels     map[string]string
	Message    string

	annotation string // holds notes on parameters
	strict     bool   // undefined references are errors
}

// read decodes a template. Its format follows from apiVersion and kind.
func read(template *unstructured.Unstructured) (*document, error) {
	if template == nil {
		return nil, errors.New("cannot read the template: it is nil")
	}
	d := &document{annotation: template.GetAnnotations()[annotationParameters]}
	var err error
	switch template.GroupVersionKind() {
	case configMapKind:
		return readConfigMap(template)
	case openshiftKind, legacyKind:
		err = d.readOpenShift(template.Object)
	case kubevirtKind, kubevirtBetaKind:
		err = d.readKubeVirt(template.Object)
	default:
		err = fmt.Errorf("unsupported kind %q of %q: want Template of template.openshift.io/v1, VirtualMachineTemplate of template.kubevirt.io/v1alpha1 or v1beta1, or ConfigMap with one of them",
			template.GetKind(), template.GetAPIVersion())
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the template: %w", err)
	}
	return d, nil
}

// readConfigMap decodes the template in a ConfigMap. Notes on the ConfigMap are used if the
// template has none.
func readConfigMap(configMap *unstructured.Unstructured) (*document, error) {
	rejected := func(how string) error {
		return fmt.Errorf("cannot read the template: data[%q] of the ConfigMap must %s", manifestKey, how)
	}
	manifest, found, err := unstructured.NestedString(configMap.Object, "data", manifestKey)
	if err != nil || !found {
		return nil, rejected("be a string")
	}
	content, err := portable.Decode([]byte(manifest))
	if err != nil {
		return nil, rejected("be an object in YAML")
	}
	template := &unstructured.Unstructured{Object: content}
	if template.GroupVersionKind() == configMapKind {
		return nil, rejected("not be a ConfigMap")
	}
	d, err := read(template)
	if err == nil && d.annotation == "" {
		d.annotation = configMap.GetAnnotations()[annotationParameters]
	}
	return d, err
}

func (d *document) readOpenShift(content map[string]any) error {
	var ok bool
	if d.Objects, ok = content["objects"].([]any); !ok {
		return errors.New("objects must be a list")
	}
	if labels := content["labels"]; labels != nil {
		fields, ok := labels.(map[string]any)
		if !ok {
			return errors.New("labels must be an object")
		}
		d.Labels = make(map[string]string, len(fields))
		for key, value := range fields {
			if d.Labels[key], ok = value.(string); !ok {
				return fmt.Errorf("labels[%q] must be a string", key)
			}
		}
	}
	return d.readCommon(content)
}

func (d *document) readKubeVirt(content map[string]any) error {
	spec, _ := content["spec"].(map[string]any)
	vm, ok := spec["virtualMachine"].(map[string]any)
	if !ok {
		return errors.New("spec.virtualMachine must be an object")
	}
	d.Objects, d.strict = []any{withKind(vm)}, true
	return d.readCommon(spec)
}

// withKind returns a VM with apiVersion and kind, which a VirtualMachineTemplate may omit: KubeVirt
// decodes any object in it as a VirtualMachine.
func withKind(vm map[string]any) map[string]any {
	out := maps.Clone(vm)
	for name, value := range map[string]string{"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine"} {
		if out[name] == nil {
			out[name] = value
		}
	}
	return out
}

func (d *document) readCommon(content map[string]any) error {
	var ok bool
	if d.Message, ok = content["message"].(string); !ok && content["message"] != nil {
		return errors.New("message must be a string")
	}
	list, ok := content["parameters"].([]any)
	if !ok && content["parameters"] != nil {
		return errors.New("parameters must be a list")
	}
	for i, item := range list {
		p, ok := parameterOf(item)
		if !ok {
			return fmt.Errorf("parameters[%d]: name, value, generate and from must be strings (quote numbers), and required must be a boolean", i)
		}
		d.Parameters = append(d.Parameters, p)
	}
	return nil
}

func (d *document) notes() map[string]note {
	var all []note
	if json.Unmarshal([]byte(d.annotation), &all) != nil {
		return nil
	}
	notes := make(map[string]note, len(all))
	for _, n := range all {
		notes[n.Name] = n
	}
	return notes
}

type location struct {
	object int
	path   string
	// inKey says that the reference is in a key of the map at path, isItem that it is in an item of
	// a list.
	inKey, isItem bool
	whole         bool // the reference has the form ${{NAME}}: its value, of any type, replaces it
}

func (d *document) references(f func(name string, at location)) {
	for i, object := range d.Objects {
		visitReferences(object, location{object: i}, f)
	}
}

func visitReferences(value any, at location, f func(string, location)) {
	switch value := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			inKey := at
			inKey.inKey, inKey.isItem = true, false
			visitTokens(key, inKey, f)
			visitReferences(value[key], location{object: at.object, path: join(at.path, key)}, f)
		}
	case []any:
		for i, item := range value {
			visitReferences(item, location{object: at.object, path: at.path + "[" + strconv.Itoa(i) + "]", isItem: true}, f)
		}
	case string:
		visitTokens(value, at, f)
	}
}

func visitTokens(text string, at location, f func(string, location)) {
	if found := jsonToken.FindStringSubmatch(text); found != nil {
		at.whole = true
		f(found[1], at)
		return
	}
	for _, found := range textToken.FindAllStringSubmatch(text, -1) {
		f(found[1], at)
	}
}

var plainKey = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

func join(parent, key string) string {
	switch {
	case !plainKey.MatchString(key):
		return parent + "[" + strconv.Quote(key) + "]"
	case parent == "":
		return key
	}
	return parent + "." + key
}

// IsTemplate reports whether an object has the kind of a template, in any version. A ConfigMap must
// be valid and have the key template.yaml.
func IsTemplate(object *unstructured.Unstructured) bool {
	if object.GetKind() == configMapKind.Kind {
		data, _, err := unstructured.NestedStringMap(object.Object, "data")
		_, found := data[manifestKey]
		return found && err == nil
	}
	return slices.ContainsFunc(formats, func(f Format) bool { return f.Kind.Kind == object.GetKind() })
}
