package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kjson "sigs.k8s.io/json"

	sspv1alpha1 "github.com/virtwright/virtwright/api/ssp/v1alpha1"
	"github.com/virtwright/virtwright/cmd/virtwright/internal/manifest"
	"github.com/virtwright/virtwright/lifecycle/templates/blueprint"
	"github.com/virtwright/virtwright/lifecycle/templates/format"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/webhooks/conversion"
)

const generateHelp = `Print templates of the VirtualMachines in files, without a cluster: what a cluster makes of
them when it is asked to (template create), as they stand in the files. Expand a sparse
machine first, if what presets give it shall be in the template.

Objects of other kinds are an error in a file that you name, and left out, with a note, in
folders and on standard input. Templates go to standard output. Warnings go to standard
error, and so do the names of parameters that have to be given. A template of which
processing would not give the machine back is not printed. When of one machine no template
can be made the others are printed all the same.`

const generateExamples = `  # A template of a machine
  {{program}} template generate -f examples/vms/web.yaml

  # With all that presets give it
  {{program}} expand -f examples/vms/tiny.yaml -f examples/presets | {{program}} template generate -f -

  # As a ConfigMap, which every cluster stores
  {{program}} template generate -f examples/vms/web.yaml --format configMap --name golden -o json`

// generation is a call of template generate.
type generation struct {
	making
	files     []string
	namespace string
	output    string
}

func newTemplateGenerate(shown string, s streams) *cobra.Command {
	o := &generation{}
	c := &cobra.Command{
		Use:     "generate -f FILE...",
		Short:   "Print templates of virtual machines in files",
		Long:    generateHelp,
		Example: strings.ReplaceAll(generateExamples, "{{program}}", shown),
		Args:    flagsForFiles,
		RunE: func(*cobra.Command, []string) error {
			if err := o.check(); err != nil {
				return err
			}
			return o.run(s)
		},
	}
	o.declare(c, sspv1alpha1.FormatOpenShiftTemplate, "")
	f := c.Flags()
	f.StringArrayVarP(&o.files, "filename", "f", nil, "file, folder (with everything beneath it) or - for standard input; may be given several times")
	f.StringVarP(&o.namespace, "namespace", "n", "", "namespace of the templates, and of machines that do not say theirs; else that of the machine")
	declareOutput(c, &o.output)
	return c
}

// declareOutput adds the flag of commands that print objects.
func declareOutput(c *cobra.Command, output *string) {
	c.Flags().StringVarP(output, "output", "o", "yaml", "output format: yaml, json")
	offer(c, "output", []string{"yaml", "json"})
}

// check reports every flag that is wrong.
func (o *generation) check() error {
	problems := []error{o.making.check(), namespaceProblems("--namespace", o.namespace), oneOf("--output", o.output, "yaml", "json")}
	if len(o.files) == 0 {
		problems = append(problems, errors.New("-f is missing: name files or folders with virtual machines"))
	}
	return errors.Join(problems...)
}

func (o *generation) run(s streams) error {
	objects, err := manifest.Read(s.in, o.files, true)
	if err != nil {
		return err
	}
	machines, err := of(objects, isMachine, "VirtualMachine of "+conversion.V1, s)
	if err != nil {
		return err
	}
	switch {
	case len(machines) == 0:
		return fmt.Errorf("there is no VirtualMachine in -f %s", strings.Join(o.files, " -f "))
	case len(machines) > 1 && o.name != "":
		return fmt.Errorf("cannot give %d templates one name: leave --name out, or name one machine", len(machines))
	}
	p := &printer{streams: s, output: o.output}
	var problems []error
	for _, machine := range machines {
		vm, err := inV1(machine)
		if err != nil {
			return err
		}
		name := called(machine.Kind, vm)
		template, b, err := o.template(vm)
		if wrong := presets.CheckShape(presets.VirtualMachine, vm).Mistyped; len(wrong) > 0 {
			err = wrong.ToAggregate()
		}
		if err != nil {
			problems = append(problems, turnedDown(machine, name, err.Error()))
			continue
		}
		if len(machines) == 1 {
			name = ""
		}
		tell(s, name, b)
		p.add(template.Object)
	}
	return errors.Join(append(problems, p.print())...)
}

// isMachine tells whether an object is a VirtualMachine, in a version that there is.
func isMachine(o manifest.Object) bool {
	return o.Kind == "VirtualMachine" && slices.Contains([]string{conversion.V1, "kubevirt.io/v1alpha3", conversion.V1Alpha2}, o.APIVersion)
}

// inV1 is a machine as a cluster would store it.
func inV1(o manifest.Object) (map[string]any, error) {
	var vm map[string]any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(o.JSON, &vm); err != nil {
		return nil, fmt.Errorf("%s: cannot read VirtualMachine: %w", o.Where, err)
	}
	if o.APIVersion == conversion.V1 {
		return vm, nil
	}
	converted, err := conversion.Convert(vm, conversion.V1)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.Where, err)
	}
	return converted, nil
}

// template makes a template of a machine, and takes it for one only if
// processing it gives the machine back.
func (o *generation) template(vm map[string]any) (*unstructured.Unstructured, *blueprint.Blueprint, error) {
	machine := unstructured.Unstructured{Object: vm}
	if o.namespace != "" && machine.GetNamespace() == "" { // it is made where kubectl -n says
		machine.SetNamespace(o.namespace)
	}
	b, err := blueprint.Of(vm, blueprint.Options{Rename: o.dataVolumes == string(sspv1alpha1.DataVolumesRename), Namespace: o.namespace})
	if err != nil {
		return nil, nil, err
	}
	form, known := format.Named(o.format)
	if !known { // which check has told
		return nil, nil, fmt.Errorf("there is no format %s", o.format)
	}
	meta := format.Meta{Name: o.named(cmp.Or(machine.GetName(), strings.TrimRight(machine.GetGenerateName(), "-."))), Namespace: o.namespace, Labels: o.labels}
	if meta.Namespace == "" {
		meta.Namespace = machine.GetNamespace()
	}
	template, err := form.Encode(b, meta)
	if err != nil {
		return nil, nil, err
	}
	if err := form.Verify(template, b); err != nil {
		return nil, nil, err
	}
	return template, b, nil
}

// tell says what to know before a template is used. About is the machine, where
// there are several.
func tell(s streams, about string, b *blueprint.Blueprint) {
	if about != "" {
		about += ": "
	}
	for _, w := range b.Warnings {
		fmt.Fprintf(s.err, "Warning: %s%s\n", about, w)
	}
	if withheld := b.Withheld(); len(withheld) > 0 {
		fmt.Fprintf(s.err, "Note: %s%s%s\n", about, toBeGiven, strings.Join(withheld, ", "))
	}
}

// toBeGiven is before names of parameters.
const toBeGiven = "parameters that have to be given: "
