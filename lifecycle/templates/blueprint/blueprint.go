// Package blueprint makes of a VirtualMachine the neutral model of a template:
// its tree with parameters in place of values, and the parameters. Package
// format writes it in the forms that templates have.
package blueprint

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Options say how a blueprint is made.
type Options struct {
	// Rename gives dataVolumeTemplates, and what refers to them, a suffix that is
	// generated for every VM; otherwise they stay as they are.
	Rename bool
	// Namespace is that of the template; empty means that of the VM.
	Namespace string
}

// A Type is the type of a parameter's value in JSON.
type Type string

// Types of parameters.
const (
	String  Type = "string"
	Integer Type = "integer"
	Number  Type = "number"
	Boolean Type = "boolean"
	Object  Type = "object"
)

// A Class says what a parameter stands for.
type Class string

// Classes of parameters.
const (
	// Value is a value of the VM, which is the default.
	Value Class = "Value"
	// Identity is a value that no two VMs share; its default is empty.
	Identity Class = "Identity"
	// Secret is a value that no template may hold; it has no default, and must be given.
	Secret Class = "Secret"
	// Literal is a text that is no leaf of the instance, and would be taken for a reference.
	Literal Class = "Literal"
	// Generated is made anew for each VM.
	Generated Class = "Generated"
	// Labels are merged with those of the VM.
	Labels Class = "Labels"
)

// A Parameter is one of a template.
type Parameter struct {
	Name        string
	Description string
	// Path is where it stands in the VM, as spec.template.spec.domain.cpu.cores.
	Path  string
	Type  Type
	Class Class
	// Default is the value as text: of a string itself, of others their JSON.
	Default string
	// Required says that whoever uses the template must give a value.
	Required bool
	// From is an expression of which a value is generated, where there is no default.
	From string
}

// A Blueprint is the neutral model of a template. It holds secrets of the
// source, for verification; nothing but [Blueprint.Secrets] gives them away.
type Blueprint struct {
	// VM is the VirtualMachine in JSON's form; parameters are [Reference] values.
	VM map[string]any
	// Labels are those of the source.
	Labels map[string]string
	// Parameters are in the order in which templates list them; LABELS is last.
	Parameters []Parameter
	// Warnings are what to know before a template is used, without values of secrets.
	Warnings []string

	secrets map[string]string
	tracer  *Tracer
	source  map[string]any
}

// A Reference stands in a tree for the value of a parameter, with text around
// it that stays (generated suffixes have some; other parameters have none).
type Reference struct {
	Parameter      string
	Before, Behind string
}

// Secrets are the values of the parameters of class Secret in the source, and
// those of class Identity, by name. They must not be written anywhere.
func (b *Blueprint) Secrets() map[string]string { return b.secrets }

// Tracer finds copies of the secrets of the source.
func (b *Blueprint) Tracer() *Tracer { return b.tracer }

// Withheld are the names of the parameters that stand for secrets, which whoever
// uses a template has to give.
func (b *Blueprint) Withheld() []string {
	var names []string
	for _, p := range b.Parameters {
		if p.Required {
			names = append(names, p.Name)
		}
	}
	return names
}

// Source is the source without what belongs to it alone: what processing a
// template with its defaults and Secrets must give. Values of identity are as
// they are in the source, as they are in Secrets. So are the names of
// dataVolumeTemplates, also where a suffix will be generated.
func (b *Blueprint) Source() map[string]any { return b.source }

// A draft is a blueprint that is being made.
type draft struct {
	vm      map[string]any
	options Options

	name, namespace string
	labels          map[string]string
	tree            map[string]any // the source without what belongs to it alone
	sites           []*site        // its scalars, in order
	reserved        map[string]bool
	captured        error    // of a key that an engine would change
	tracer          *Tracer  // of secrets
	volumes         []string // the names of dataVolumeTemplates
	suffixed        string   // the name of the parameter for their suffix
	warnings        []string
}

// steps are what makes a blueprint, in this order.
var steps = []struct {
	name string
	run  func(*draft) error
}{
	{"sanitize", sanitize},
	{"collect leaves", collect},
	{"classify", classify},
	{"data volumes", dataVolumes},
	{"count", few},
	{"name", name},
	{"warn", warnings},
}

// Of makes a blueprint of a VirtualMachine in JSON's form, which it does not
// change. An error says that no template can be made of it, without values; it
// may be a *TooLarge.
func Of(vm map[string]any, options Options) (*Blueprint, error) {
	d := &draft{vm: vm, options: options, tracer: &Tracer{}, reserved: map[string]bool{labelsName: true, vmName: true}}
	for _, step := range steps {
		if err := step.run(d); err != nil {
			return nil, fmt.Errorf("cannot make a template of the VM (%s): %w", step.name, err)
		}
	}
	return d.blueprint(), nil
}

// blueprint puts references in the place of what has a name.
func (d *draft) blueprint() *Blueprint {
	b := &Blueprint{Labels: d.labels, Warnings: d.warnings, secrets: map[string]string{}, tracer: d.tracer, source: d.tree}
	meta := d.tree["metadata"].(map[string]any)
	labels := meta["labels"]
	delete(meta, "labels") // they are no sites
	next := 0
	b.VM = rebuild(d.tree, func(value any) any {
		s := d.sites[next]
		next++
		if s.class == "" {
			return value
		}
		b.add(s)
		return Reference{Parameter: s.name, Before: s.before}
	}).(map[string]any)
	meta["labels"] = labels
	b.VM["metadata"].(map[string]any)["labels"] = Reference{Parameter: labelsName}
	encoded, _ := json.Marshal(d.labels) // texts encode
	b.Parameters = append(b.Parameters, Parameter{
		Name: labelsName, Path: "metadata.labels", Type: Object, Class: Labels, Default: string(encoded),
		Description: "A JSON object of labels, as {\"team\":\"x\"}, which are merged with those of the VM; the VM's win",
	})
	return b
}

func (b *Blueprint) add(s *site) {
	p := Parameter{Name: s.name, Description: described(s.name), Path: s.at.String(), Type: s.kind, Class: s.class}
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

func described(name string) string {
	return strings.Trim(strings.ToLower(strings.ReplaceAll(name, "_", "-")), "-")
}
