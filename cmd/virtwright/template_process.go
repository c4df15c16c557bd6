package main

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kjson "sigs.k8s.io/json"

	"github.com/virtwright/virtwright/simulate/manifest"
	"github.com/virtwright/virtwright/templates/format"
)

const processHelp = `Print the VM of a template, and its other objects, with values for its parameters.

The template is a Template of template.openshift.io/v1, a VirtualMachineTemplate of
template.kubevirt.io/v1alpha1 or v1beta1, or a ConfigMap with one of them in its key
template.yaml.

Unknown parameters, missing values, values of a wrong type and invalid LABELS are rejected, all
at once. Give values of several lines with -p "NAME=$(cat file)"; --param-file has one line for
each value. Errors quote nothing that may be a part of a secret: for an invalid line, only the
line number is printed.

Objects are printed to standard output, for kubectl create -f -; the message of the template
goes to standard error. kubectl apply cannot be used, because the cluster generates the names
(generateName). With --parameters, only the parameters are listed.

Exit codes: 0 success, 1 a value is rejected or missing, 2 wrong usage or unreadable input.`

const processExamples = `  # List the parameters
  {{program}} template generate -f examples/vms/web.yaml | {{program}} template process -f - --parameters

  # Create a VM, and another one with more memory and labels of its own
  kubectl get template web-template -n shop -o yaml >web-template.yaml
  {{program}} template process -f web-template.yaml | kubectl create -n shop -f -
  {{program}} template process -f web-template.yaml -p MEMORY_GUEST=8Gi -l tier=test | kubectl create -n shop -f -

  # Read long and secret values from files
  {{program}} template process -f web-template.yaml --param-file values.env -p "VOLUME1_USER_DATA=$(cat user-data.yaml)"`

type templateProcess struct {
	file       string
	params     []string
	paramFile  string
	labels     map[string]string
	parameters bool
	output     string
}

func newTemplateProcess(shown string, s streams) *cobra.Command {
	o := &templateProcess{}
	c := &cobra.Command{
		Use:     "process -f FILE",
		Short:   "Print the VM of a template, with values for its parameters",
		Long:    processHelp,
		Example: strings.ReplaceAll(processExamples, "{{program}}", shown),
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 { // do not quote them: they may be words of a secret
				return fmt.Errorf("unexpected %s: quote values with spaces or several lines, as -p \"NAME=VALUE\"", counted(len(args), "argument"))
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
	f.StringArrayVarP(&o.params, "param", "p", nil, "value of a parameter: NAME=VALUE; may be repeated")
	f.StringVar(&o.paramFile, "param-file", "", "file with a line NAME=VALUE for each parameter; -p overrides it")
	f.StringToStringVarP(&o.labels, "label", "l", nil, "labels of every object, which override the template's: k=v,…; may be repeated")
	f.BoolVar(&o.parameters, "parameters", false, "list the parameters only")
	declareOutput(c, &o.output)
	for _, flag := range []string{"param", "param-file", "label", "output"} {
		c.MarkFlagsMutuallyExclusive("parameters", flag)
	}
	return c
}

func (o *templateProcess) check() ([]paramValue, error) {
	values, err := o.values()
	problems := []error{oneOf("--output", o.output, "yaml", "json"), err, labelProblems("--label", o.labels)}
	if o.file == "" {
		problems = append(problems, errors.New("-f is required: name a file with a template"))
	}
	return values, errors.Join(problems...)
}

func (o *templateProcess) run(s streams, values []paramValue) error {
	object, template, err := o.read(s)
	if err != nil {
		return err
	}
	rejected := func(why string) error {
		return rejectedObject(object, "cannot process "+displayName(template), why)
	}
	parameters, err := format.ListParameters(template)
	if err != nil {
		return rejected(err.Error())
	}
	if o.parameters {
		if err := format.ValidateNames(parameters); err != nil {
			return rejected(err.Error())
		}
		return printParameters(s, parameters)
	}
	given, problems := byParameter(values, parameters)
	objects, message, err := format.Process(template, given, o.labels)
	if err != nil {
		problems = append(problems, strings.TrimPrefix(err.Error(), "cannot process the template: "))
	}
	if len(problems) > 0 {
		return rejected(strings.Join(problems, "\n"))
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

func (o *templateProcess) read(s streams) (object manifest.Object, template *unstructured.Unstructured, err error) {
	objects, err := manifest.Read(s.in, []string{o.file}, true)
	if err != nil {
		return object, nil, err
	}
	const want = "a Template of template.openshift.io/v1, a VirtualMachineTemplate of template.kubevirt.io/v1alpha1 or v1beta1, or a ConfigMap with the key template.yaml"
	templates, err := selectObjects(objects, isTemplate, want, s)
	if err != nil {
		return object, nil, err
	}
	if len(templates) != 1 {
		return object, nil, fmt.Errorf("found %d templates in -f %s: want one", len(templates), o.file)
	}
	object, template = templates[0], &unstructured.Unstructured{}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(object.JSON, &template.Object); err != nil {
		return object, nil, fmt.Errorf("%s: cannot read %s: %w", object.Where, object.Kind, err)
	}
	return object, template, nil
}

func isTemplate(o manifest.Object) bool {
	template := &unstructured.Unstructured{}
	return kjson.UnmarshalCaseSensitivePreserveInts(o.JSON, &template.Object) == nil && format.IsTemplate(template)
}

func printParameters(s streams, parameters []format.ParameterInfo) error {
	var rows [][]string
	for _, p := range parameters {
		value, required := "", "no"
		switch {
		case p.Default != "":
			value = cell(p.Default)
		case p.From != "":
			value = "generated: " + cell(p.From)
		case p.Required:
			required = "yes"
		}
		rows = append(rows, []string{p.Name, p.Type, value, required, strings.Join(p.Paths, ", ")})
	}
	return printTable(s.out, []string{"NAME", "TYPE", "DEFAULT", "REQUIRED", "PATH"}, rows)
}

type paramValue struct {
	name, text string
	// origin is the flag or line, for errors that must not quote the name.
	origin string
	// hidden says that the name may be a part of a secret.
	hidden bool
}

var (
	parameterName = regexp.MustCompile(`^[A-Za-z0-9_]+$`)
	// plausibleName matches names in -p that errors may quote.
	plausibleName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

func (o *templateProcess) values() ([]paramValue, error) {
	lines, err := o.fileLines()
	var flags []paramValue
	for i, text := range o.params {
		flags = append(flags, paramValue{text: text, origin: fmt.Sprintf("-p, %d of %d", i+1, len(o.params))})
	}
	fromFile, fileErr := parseValues(lines)
	fromFlags, flagErr := parseValues(flags)
	for i := range fromFlags {
		fromFlags[i].hidden = !plausibleName.MatchString(fromFlags[i].name)
		fromFile = slices.DeleteFunc(fromFile, func(v paramValue) bool { return v.name == fromFlags[i].name })
	}
	return append(fromFile, fromFlags...), errors.Join(err, fileErr, flagErr)
}

func (o *templateProcess) fileLines() ([]paramValue, error) {
	if o.paramFile == "" {
		return nil, nil
	}
	raw, err := os.ReadFile(o.paramFile)
	if err != nil {
		return nil, fmt.Errorf("--param-file: %w", err)
	}
	var lines []paramValue
	number := 0
	for line := range strings.Lines(strings.TrimPrefix(string(raw), "\ufeff")) {
		number++
		text := strings.TrimRight(line, "\r\n")
		if start := strings.TrimSpace(text); start != "" && start[0] != '#' {
			lines = append(lines, paramValue{text: text, origin: fmt.Sprintf("--param-file %s, line %d", o.paramFile, number), hidden: true})
		}
	}
	return lines, nil
}

// parseValues splits texts of the form NAME=VALUE. Errors report every problem, and quote no text:
// it may be one line of a secret.
func parseValues(inputs []paramValue) ([]paramValue, error) {
	var out []paramValue
	var problems []error
	origins := map[string]string{}
	for _, in := range inputs {
		name, text, found := strings.Cut(in.text, "=")
		if in.hidden {
			name = strings.TrimSpace(name)
		}
		switch {
		case !found || !parameterName.MatchString(name):
			hint := ""
			if in.hidden { // a line of a file, perhaps one of several lines of a value
				hint = " (give a value of several lines with -p \"NAME=$(cat file)\")"
			}
			problems = append(problems, fmt.Errorf("%s: want NAME=VALUE%s", in.origin, hint))
		case origins[name] != "":
			problems = append(problems, fmt.Errorf("%s: duplicate name, as in %s", in.origin, origins[name]))
		default:
			origins[name] = in.origin
			out = append(out, paramValue{name, text, in.origin, in.hidden})
		}
	}
	return out, errors.Join(problems...)
}

// byParameter returns values by the name of their parameter. Values with a hidden name for which
// the template has no parameter are problems, and left out, so that no error quotes their names.
func byParameter(values []paramValue, parameters []format.ParameterInfo) (given map[string]string, problems []string) {
	given = map[string]string{}
	for _, v := range values {
		if v.hidden && !slices.ContainsFunc(parameters, func(p format.ParameterInfo) bool { return p.Name == v.name }) {
			problems = append(problems, v.origin+": undefined parameter")
			continue
		}
		given[v.name] = v.text
	}
	return given, problems
}
