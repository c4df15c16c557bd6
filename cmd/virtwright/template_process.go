package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kjson "sigs.k8s.io/json"

	sspv1alpha1 "github.com/virtwright/virtwright/api/ssp/v1alpha1"
	"github.com/virtwright/virtwright/cmd/virtwright/internal/manifest"
	"github.com/virtwright/virtwright/lifecycle/templates/format"
)

const processHelp = `Print the objects of a template, with values for its parameters, without a cluster.

The template is a Template of template.openshift.io/v1, a VirtualMachineTemplate of
template.kubevirt.io/v1alpha1, or a ConfigMap that has one in its key template.yaml: a
file, or what kubectl get -o yaml prints. Values are checked: an unknown parameter, one
that has to be given and is not, a value of another type than the field's, and LABELS that
are none are refused, each with its name and all at once. A value of several lines is given
by -p "NAME=$(cat file)", as a line of --param-file is a value of its own. What may be a part
of a secret is not repeated: of a line that names no parameter the number is told.

Objects go to standard output, for kubectl create -f -; the template's message goes to
standard error. Names are made up by the cluster (generateName), so kubectl apply refuses
them. With --parameters nothing is made, and the parameters are listed.

Exit codes: 0 when all is fine, 1 when a value is refused or missing, 2 for wrong usage and
for input that cannot be read.`

const processExamples = `  # Which parameters does it have?
  {{program}} template generate -f examples/vms/web.yaml | {{program}} template process -f - --parameters

  # A machine, and another one with more memory and labels of its own
  kubectl get template web-template -n shop -o yaml >web-template.yaml
  {{program}} template process -f web-template.yaml | kubectl create -n shop -f -
  {{program}} template process -f web-template.yaml -p MEMORY_GUEST=8Gi -l tier=test | kubectl create -n shop -f -

  # Values from files; what is long or secret is not typed
  {{program}} template process -f web-template.yaml --param-file values.env -p "VOLUME1_USER_DATA=$(cat user-data.yaml)"`

// processing is a call of template process.
type processing struct {
	file      string
	given     []string
	paramFile string
	labels    map[string]string
	list      bool
	output    string
}

func newTemplateProcess(shown string, s streams) *cobra.Command {
	o := &processing{}
	c := &cobra.Command{
		Use:     "process -f FILE",
		Short:   "Print the objects of a template, with values for its parameters",
		Long:    processHelp,
		Example: strings.ReplaceAll(processExamples, "{{program}}", shown),
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 { // which may be words of a secret
				return fmt.Errorf("cannot take %s: quote values with spaces or several lines, as -p \"NAME=VALUE\"", counted(len(args), "argument"))
			}
			return nil
		},
		RunE: func(*cobra.Command, []string) error {
			values, err := o.check()
			if err != nil {
				return err
			}
			return o.run(s, values)
		},
	}
	f := c.Flags()
	f.StringVarP(&o.file, "filename", "f", "", "file with the template, or - for standard input")
	f.StringArrayVarP(&o.given, "param", "p", nil, "value of a parameter: NAME=VALUE; may be given several times")
	f.StringVar(&o.paramFile, "param-file", "", "file with a line NAME=VALUE for each parameter, for values of one line; -p overrules it")
	f.StringToStringVarP(&o.labels, "label", "l", nil, "labels of every object, which overrule the template's: k=v,…; may be given several times")
	f.BoolVar(&o.list, "parameters", false, "list the parameters, and make nothing")
	declareOutput(c, &o.output)
	for _, flag := range []string{"param", "param-file", "label", "output"} {
		c.MarkFlagsMutuallyExclusive("parameters", flag)
	}
	return c
}

// check reports every flag that is wrong, and returns the values of parameters.
func (o *processing) check() ([]value, error) {
	values, err := o.values()
	problems := []error{oneOf("--output", o.output, "yaml", "json"), err, labelProblems("--label", o.labels)}
	if o.file == "" {
		problems = append(problems, errors.New("-f is missing: name a file with a template"))
	}
	return values, errors.Join(problems...)
}

func (o *processing) run(s streams, values []value) error {
	from, template, err := o.read(s)
	if err != nil {
		return err
	}
	refused := func(err error) error {
		return turnedDown(from, "cannot process "+called(from.Kind, template.Object), err.Error())
	}
	parameters, err := format.List(template)
	if err != nil {
		return refused(err)
	}
	if o.list {
		if err := format.Misnamed(parameters); err != nil {
			return refused(err)
		}
		return printParameters(s.out, parameters)
	}
	given, problems := known(values, parameters)
	objects, message, err := format.Process(template, given, o.labels)
	if err != nil {
		problems = append(problems, strings.TrimPrefix(err.Error(), "cannot process the template: ")) // which one is said here
	}
	if len(problems) > 0 {
		return refused(errors.New(strings.Join(problems, "\n")))
	}
	p := &printer{streams: s, output: o.output}
	for _, object := range objects {
		p.add(object.Object)
	}
	if err := p.print(); err != nil {
		return err
	}
	if message != "" {
		fmt.Fprintln(s.err, strings.TrimRight(message, "\n"))
	}
	return nil
}

// read returns the one template that there is.
func (o *processing) read(s streams) (manifest.Object, *unstructured.Unstructured, error) {
	objects, err := manifest.Read(s.in, []string{o.file}, true)
	if err != nil {
		return manifest.Object{}, nil, err
	}
	const want = "a Template of template.openshift.io/v1, a VirtualMachineTemplate of template.kubevirt.io/v1alpha1, or a ConfigMap with the key template.yaml"
	templates, err := of(objects, isTemplate, want, s)
	if err != nil {
		return manifest.Object{}, nil, err
	}
	if len(templates) != 1 {
		return manifest.Object{}, nil, fmt.Errorf("there are %d templates in -f %s: one is processed at a time", len(templates), o.file)
	}
	from, template := templates[0], &unstructured.Unstructured{}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(from.JSON, &template.Object); err != nil {
		return from, nil, fmt.Errorf("%s: cannot read %s: %w", from.Where, from.Kind, err)
	}
	return from, template, nil
}

// isTemplate tells whether an object is a template, of whatever version.
func isTemplate(o manifest.Object) bool {
	if o.Kind == "ConfigMap" {
		_, ok := manifestIn(o.JSON)
		return ok
	}
	return slices.ContainsFunc(sspv1alpha1.Formats(), func(f sspv1alpha1.Format) bool { return f.Kind.Kind == o.Kind })
}

// keyTemplate is the key of a ConfigMap that holds the manifest of a template.
const keyTemplate = "template.yaml"

// manifestIn is the manifest of a template that a ConfigMap in JSON holds.
func manifestIn(configMap []byte) (text string, ok bool) {
	var held struct {
		Data map[string]string `json:"data"`
	}
	err := json.Unmarshal(configMap, &held)
	text, ok = held.Data[keyTemplate]
	return text, ok && err == nil
}
