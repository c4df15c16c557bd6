// Package blueprint makes a format-independent model of a template from a VirtualMachine: the VM
// with parameters in place of values, and the parameters. Package format encodes it.
package blueprint

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Options configure a blueprint.
type Options struct {
	// Rename gives dataVolumeTemplates, and references to them, a suffix that is generated for
	// every VM. Otherwise they keep their names.
	Rename    bool
	Namespace string // of the template; empty is the VM's
}

// A Type is the type of a parameter's value in JSON.
type Type string

// Types of parameters.
const (
	String  Type = "string"
	Integer Type = "integer"
	Number  Type = "number"
	Boolean Type = "boolean"
	// Quantity is a number that may also be a text such as 500m.
	Quantity Type = "quantity"
	Object   Type = "object"
)

// A Class is the role of a parameter.
type Class string

// Classes of parameters.
const (
	// Value is a value of the VM, which is the default.
	Value Class = "Value"
	// Identity is a value that no two VMs share. Its default is empty.
	Identity Class = "Identity"
	// Secret is a value that no template may hold. It has no default and is required.
	Secret Class = "Secret"
	// Literal is a text outside of the instance spec that would otherwise be processed as a
	// reference.
	Literal Class = "Literal"
	// Generated is a value that is generated for each VM.
	Generated Class = "Generated"
	// Labels are merged with those of the VM.
	Labels Class = "Labels"
)

// A Parameter is a parameter of a template.
type Parameter struct {
	Name        string
	Description string
	Path        string // the field of the VM, for example spec.template.spec.domain.cpu.cores
	Type        Type
	Class       Class
	Default     string // the value as text: strings as they are, others in JSON
	Required    bool   // users of the template must give a value
	From        string // an expression from which a value is generated instead of a default
}

// A Blueprint is the format-independent model of a template. It holds the secrets of the VM for
// verification, which only [Blueprint.Secrets] returns.
type Blueprint struct {
	VM     map[string]any    // the VirtualMachine in JSON; parameters are [Reference] values
	Labels map[string]string // those of the VM
	// Parameters are in the order of templates. LABELS is last.
	Parameters []Parameter
	// Warnings are what users should know before they use the template. They contain no secrets.
	Warnings []string

	secrets map[string]string
	finder  *SecretFinder
	source  map[string]any
}

// A Reference in a tree stands for the value of a parameter. A prefix, which only references to
// generated suffixes have, precedes the value.
type Reference struct {
	Parameter string
	Prefix    string
}

// Secrets returns the values of parameters of the classes Secret and Identity, by name. They must
// not be written anywhere.
func (b *Blueprint) Secrets() map[string]string { return b.secrets }

// SecretFinder finds copies of the secrets.
func (b *Blueprint) SecretFinder() *SecretFinder { return b.finder }

// Withheld returns the names of the parameters that require a value, because they stand for
// secrets.
func (b *Blueprint) Withheld() []string {
	var names []string
	for _, p := range b.Parameters {
		if p.Required {
			names = append(names, p.Name)
		}
	}
	return names
}

// Source returns the result of processing a template with its defaults and Secrets: the VM without
// fields of this one object. Names of dataVolumeTemplates have no suffix in it.
func (b *Blueprint) Source() map[string]any { return b.source }

type draft struct {
	vm      map[string]any
	options Options

	name, namespace string
	labels          map[string]string
	tree            map[string]any // the VM without fields of this one object
	sites           []*site        // the scalars of tree, in order
	reserved        map[string]bool
	reservedKey     error // for a key that engines would change
	finder          *SecretFinder
	volumes         []string // names of dataVolumeTemplates
	warnings        []string
}

// steps make a blueprint, in this order.
var steps = []func(*draft) error{sanitize, collect, classify, dataVolumes, checkParameters, name, warnings}

// FromVM makes a blueprint of a VirtualMachine in JSON, which it does not change. Errors contain no
// values of the VM, and may be a *TooLarge.
func FromVM(vm map[string]any, options Options) (*Blueprint, error) {
	d := &draft{vm: vm, options: options, finder: &SecretFinder{}, reserved: map[string]bool{labelsName: true, vmName: true}}
	for _, step := range steps {
		if err := step(d); err != nil {
			return nil, fmt.Errorf("cannot make a template of the VM: %w", err)
		}
	}
	return d.blueprint(), nil
}

// blueprint replaces the sites that have a class by references.
func (d *draft) blueprint() *Blueprint {
	b := &Blueprint{Labels: d.labels, Warnings: d.warnings, secrets: map[string]string{}, finder: d.finder, source: d.tree}
	meta := d.tree["metadata"].(map[string]any)
	labels := meta["labels"]
	delete(meta, "labels") // they have one parameter
	next := 0
	b.VM = MapScalars(d.tree, func(value any) any {
		s := d.sites[next]
		next++
		if s.class == "" {
			return value
		}
		b.addParameter(s)
		return Reference{Parameter: s.name, Prefix: s.prefix}
	}).(map[string]any)
	meta["labels"] = labels
	b.VM["metadata"].(map[string]any)["labels"] = Reference{Parameter: labelsName}
	encoded, _ := json.Marshal(d.labels) // strings have an encoding
	b.Parameters = append(b.Parameters, Parameter{
		Name: labelsName, Path: "metadata.labels", Type: Object, Class: Labels, Default: string(encoded),
		Description: "JSON object of labels, such as {\"team\":\"x\"}, which is merged with the labels of the VM; the VM's labels take precedence",
	})
	return b
}

func (b *Blueprint) addParameter(s *site) {
	p := Parameter{Name: s.name, Description: describe(s.name), Path: s.at.String(), Type: s.kind, Class: s.class}
	switch s.class {
	case Generated:
		if slices.ContainsFunc(b.Parameters, func(other Parameter) bool { return other.Name == s.name }) {
			return
		}
		p.From = suffixExpression
	case Secret:
		p.Required = true
		b.secrets[s.name] = s.text()
	case Identity:
		b.secrets[s.name] = s.text()
	default:
		p.Default = s.text()
	}
	b.Parameters = append(b.Parameters, p)
}

func describe(name string) string {
	return strings.Trim(strings.ToLower(strings.ReplaceAll(name, "_", "-")), "-")
}
