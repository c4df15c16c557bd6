package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"
	kjson "sigs.k8s.io/json"

	sspv1alpha1 "github.com/virtwright/virtwright/api/ssp/v1alpha1"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/simulate"
	"github.com/virtwright/virtwright/simulate/manifest"
	"github.com/virtwright/virtwright/templates/blueprint"
	"github.com/virtwright/virtwright/templates/format"
	"github.com/virtwright/virtwright/webhooks/conversion"
)

const templateHelp = `Create templates from VMs, and VMs from templates.

Every field of the VM's instance spec becomes a parameter with its current value as default.
A template holds no secrets: parameters that stand for secrets require a value.

create asks a cluster for a template of one of its VMs. generate prints a template of a manifest, and
process prints the VM of a template, both without a cluster.`

func newTemplate(shown string, s streams) *cobra.Command {
	c := &cobra.Command{
		Use: "template", Short: "Create templates from VMs, and VMs from templates", Long: templateHelp, Args: subcommands,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(newTemplateCreate(shown, s), newTemplateGenerate(shown, s), newTemplateProcess(shown, s))
	return c
}

type templateFlags struct {
	name        string
	format      string
	dataVolumes string
	labels      map[string]string
}

func (o *templateFlags) declare(c *cobra.Command, format, formatUsage string) {
	f := c.Flags()
	f.StringVar(&o.name, "name", "", "name of the template; default: name of the VM with the suffix -template")
	f.StringVar(&o.format, "format", format, "format of the template: "+strings.Join(sspv1alpha1.FormatNames(), ", ")+formatUsage)
	f.StringVar(&o.dataVolumes, "data-volumes", string(sspv1alpha1.DataVolumesKeep), "names of dataVolumeTemplates: Keep them, or Rename them in every VM made of the template")
	f.StringToStringVar(&o.labels, "label", nil, "labels of the template, but not of VMs made of it: k=v,…; may be repeated")
	offer(c, "format", sspv1alpha1.FormatNames())
	offer(c, "data-volumes", dataVolumes())
}

func (o *templateFlags) check() error {
	problems := []error{
		oneOf("--data-volumes", o.dataVolumes, dataVolumes()...),
		labelProblems("--label", o.labels),
		invalidName("--name", o.name, validation.IsDNS1123Subdomain),
	}
	if o.format != "" {
		problems = append(problems, oneOf("--format", o.format, sspv1alpha1.FormatNames()...))
	}
	return errors.Join(problems...)
}

func (o *templateFlags) templateName(vm string) string { return cmp.Or(o.name, vm+"-template") }

func dataVolumes() []string {
	return []string{string(sspv1alpha1.DataVolumesKeep), string(sspv1alpha1.DataVolumesRename)}
}

func labelProblems(flag string, labels map[string]string) error {
	var problems []error
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		for _, reason := range slices.Concat(validation.IsQualifiedName(key), validation.IsValidLabelValue(labels[key])) {
			problems = append(problems, fmt.Errorf("%s %s=%s: %s", flag, key, labels[key], reason))
		}
	}
	return errors.Join(problems...)
}

func invalidName(flag, name string, check func(string) []string) error {
	var problems []error
	if name != "" {
		for _, reason := range check(name) {
			problems = append(problems, fmt.Errorf("%s %q: %s", flag, name, reason))
		}
	}
	return errors.Join(problems...)
}

func declareOutput(c *cobra.Command, output *string) {
	c.Flags().StringVarP(output, "output", "o", "yaml", "output format: yaml, json")
	offer(c, "output", []string{"yaml", "json"})
}

// selectObjects returns the objects that a command handles. Others are an error in a file that the
// user named; elsewhere they are ignored, with a note.
func selectObjects(objects []manifest.Object, handles func(manifest.Object) bool, want string, s streams) ([]manifest.Object, error) {
	var out []manifest.Object
	var problems []error
	ignored := map[simulate.Leftover]int{}
	for _, o := range objects {
		switch {
		case handles(o):
			out = append(out, o)
		case o.Named:
			problems = append(problems, fmt.Errorf("%s: unsupported kind %s of %s: want %s", o.Where, o.Kind, o.APIVersion, want))
		default:
			ignored[simulate.Leftover{File: o.Where.File, APIVersion: o.APIVersion, Kind: o.Kind}]++
		}
	}
	var notes []string
	for l, count := range ignored {
		l.Count = count
		notes = append(notes, fmt.Sprintf("Note: %s\n", l))
	}
	slices.Sort(notes)
	fmt.Fprint(s.err, strings.Join(notes, ""))
	return out, errors.Join(problems...)
}

func rejectedObject(o manifest.Object, what, why string) error {
	return declined(fmt.Errorf("%s: %s:\n  %s", o.Where, what, strings.ReplaceAll(why, "\n", "\n  ")))
}

func displayName(u *unstructured.Unstructured) string {
	name := u.GetName()
	if name == "" && u.GetGenerateName() != "" {
		name = u.GetGenerateName() + "*"
	}
	if namespace := u.GetNamespace(); namespace != "" {
		name = namespace + "/" + name
	}
	return strings.TrimSpace(u.GetKind() + " " + name)
}

// The prefix names the VM if there are several.
func printWarnings(s streams, prefix string, warnings, withheld []string) {
	for _, w := range warnings {
		fmt.Fprintf(s.err, "Warning: %s%s\n", prefix, w)
	}
	if len(withheld) > 0 {
		fmt.Fprintf(s.err, "Note: %sparameters that require a value: %s\n", prefix, strings.Join(withheld, ", "))
	}
}

const generateHelp = `Print templates of the VirtualMachines in files, without a cluster. template create creates the
same templates in a cluster. Use expand first to include fields that presets set.

Objects of other kinds are an error in a file that you name. In folders and on standard input
they are ignored, with a note. Templates are printed to standard output, warnings and the names
of parameters that require a value to standard error. A template is printed only if processing
it gives the VM. An error in one VM does not affect the others.`

const generateExamples = `  # Print a template of a VM
  {{program}} template generate -f examples/vms/web.yaml

  # Include fields that presets set
  {{program}} expand -f examples/vms/tiny.yaml -f examples/presets | {{program}} template generate -f -

  # Print a ConfigMap, which every cluster can store
  {{program}} template generate -f examples/vms/web.yaml --format configMap --name golden -o json`

type templateGenerate struct {
	templateFlags
	files     []string
	namespace string
	output    string
}

func newTemplateGenerate(shown string, s streams) *cobra.Command {
	o := &templateGenerate{}
	c := &cobra.Command{
		Use:     "generate -f FILE...",
		Short:   "Print templates of VMs in files",
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
	f.StringArrayVarP(&o.files, "filename", "f", nil, "file, folder (read recursively) or - for standard input; may be repeated")
	f.StringVarP(&o.namespace, "namespace", "n", "", "namespace of the templates, and of VMs without one; default: namespace of the VM")
	declareOutput(c, &o.output)
	return c
}

func (o *templateGenerate) check() error {
	problems := []error{
		o.templateFlags.check(), invalidName("--namespace", o.namespace, validation.IsDNS1123Label), oneOf("--output", o.output, "yaml", "json"),
	}
	if len(o.files) == 0 {
		problems = append(problems, errors.New("-f is required: name files or folders with VMs"))
	}
	return errors.Join(problems...)
}

func (o *templateGenerate) run(s streams) error {
	objects, err := manifest.Read(s.in, o.files, true)
	if err != nil {
		return err
	}
	vms, err := selectObjects(objects, isVM, "VirtualMachine of "+conversion.V1, s)
	if err != nil {
		return err
	}
	switch {
	case len(vms) == 0:
		return fmt.Errorf("no VirtualMachine in -f %s", strings.Join(o.files, " -f "))
	case len(vms) > 1 && o.name != "":
		return fmt.Errorf("cannot use --name for %d templates: omit it, or give one VM", len(vms))
	}
	p := &printer{streams: s, output: o.output}
	var problems []error
	for _, object := range vms {
		vm, err := convertedVM(object)
		if err != nil {
			return err
		}
		name := displayName(vm)
		template, b, err := o.template(vm)
		if mistyped := presets.CheckSchema(presets.VirtualMachine, vm.Object).Mistyped; len(mistyped) > 0 {
			err = mistyped.ToAggregate()
		}
		if err != nil {
			problems = append(problems, rejectedObject(object, name, err.Error()))
			continue
		}
		prefix := ""
		if len(vms) > 1 {
			prefix = name + ": "
		}
		printWarnings(s, prefix, b.Warnings, b.Withheld())
		p.add(template.Object)
	}
	return errors.Join(append(problems, p.print())...)
}

func isVM(o manifest.Object) bool {
	return o.Kind == "VirtualMachine" && slices.Contains([]string{conversion.V1, conversion.V1Alpha3, conversion.V1Alpha2}, o.APIVersion)
}

func convertedVM(o manifest.Object) (*unstructured.Unstructured, error) {
	var vm map[string]any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(o.JSON, &vm); err != nil {
		return nil, fmt.Errorf("%s: cannot read VirtualMachine: %w", o.Where, err)
	}
	converted, err := conversion.Convert(vm, conversion.V1)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.Where, err)
	}
	return &unstructured.Unstructured{Object: converted}, nil
}

// template makes a template of a VM and verifies that processing it gives the VM.
func (o *templateGenerate) template(vm *unstructured.Unstructured) (*unstructured.Unstructured, *blueprint.Blueprint, error) {
	if o.namespace != "" && vm.GetNamespace() == "" { // as with kubectl create -n
		vm.SetNamespace(o.namespace)
	}
	b, err := blueprint.FromVM(vm.Object, blueprint.Options{Rename: o.dataVolumes == string(sspv1alpha1.DataVolumesRename), Namespace: o.namespace})
	if err != nil {
		return nil, nil, err
	}
	f, known := format.ByName(o.format)
	if !known {
		return nil, nil, errors.New("--format: Required value")
	}
	name := o.templateName(cmp.Or(vm.GetName(), strings.TrimRight(vm.GetGenerateName(), "-.")))
	if len(name) > validation.DNS1123SubdomainMaxLength {
		return nil, nil, fmt.Errorf("the name of the template would have %d characters, at most %d are supported: set --name", len(name), validation.DNS1123SubdomainMaxLength)
	}
	template, err := f.Encode(b, format.Meta{Name: name, Namespace: cmp.Or(o.namespace, vm.GetNamespace()), Labels: o.labels})
	if err != nil {
		return nil, nil, err
	}
	return template, b, f.Verify(template, b)
}
