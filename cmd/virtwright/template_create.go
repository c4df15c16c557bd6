package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	sspv1alpha1 "github.com/virtwright/virtwright/api/ssp/v1alpha1"
)

const createHelp = `Have a cluster make a template of a virtual machine that it has.

A VirtualMachineTemplateRequest of ssp.kubevirt.io/v1alpha1 is made, in the namespace where the
template shall be. The command returns when the template is there, or when it is clear that it
will not be; what is in the way until then is told on standard error. What is made is made by the
rights of whoever asks: to get the machine, to create the template and, for another namespace,
to create virtualmachinetemplaterequests/source under the machine's name in the machine's.

Exit codes: 0 when the template is there (with --wait=false: when the request was accepted),
1 when the cluster refuses the request or makes no template of it, 2 for wrong usage and when
the cluster cannot be asked, 3 when the template is not there in time; the request stays then.`

const createExamples = `  # A template web-template, beside the machine
  {{program}} template create web -n shop

  # For other people, under another name, of which machines can be made beside each other
  {{program}} template create web -n shop --to-namespace golden --name fedora-web --data-volumes Rename

  # In a cluster without an API for templates; the request goes an hour later
  {{program}} template create web -n shop --format configMap --ttl 1h

  # Would it be accepted?
  {{program}} template create web -n shop --dry-run`

// creation is a call of template create.
type creation struct {
	making
	machine    string
	connection connection
	to         string
	ttl        time.Duration
	expires    bool // ttl was given, whatever it says
	dryRun     bool
	wait       bool
	waits      bool // wait was given, whatever it says
	timeout    time.Duration
}

func newTemplateCreate(shown string, s streams) *cobra.Command {
	o := &creation{}
	c := &cobra.Command{
		Use:               "create VM",
		Short:             "Have a cluster make a template of a virtual machine",
		Long:              createHelp,
		Example:           strings.ReplaceAll(createExamples, "{{program}}", shown),
		Args:              oneName("make a template of"),
		ValidArgsFunction: o.connection.complete,
		RunE: func(c *cobra.Command, args []string) error {
			o.machine, o.expires, o.waits = args[0], c.Flags().Changed("ttl"), c.Flags().Changed("wait")
			if err := o.check(); err != nil {
				return err
			}
			return o.run(c.Context(), s)
		},
	}
	o.connection.declare(c)
	o.declare(c, "", "; by default the cluster chooses one of the first two that it serves")
	f := c.Flags()
	f.StringVar(&o.to, "to-namespace", "", "namespace of the template; else that of the machine")
	f.DurationVar(&o.ttl, "ttl", 0, "how long the request stays once the template is there; else for ever. The template stays")
	f.BoolVar(&o.dryRun, "dry-run", false, "ask whether it would be accepted, and change nothing")
	f.BoolVar(&o.wait, "wait", true, "return when the template is there")
	f.DurationVar(&o.timeout, "timeout", 5*time.Minute, "how long to wait")
	return c
}

// check reports every flag that is wrong.
func (o *creation) check() error {
	problems := []error{o.making.check(), namespaceProblems("--to-namespace", o.to)}
	switch {
	case o.ttl < 0, o.ttl%time.Second != 0, o.ttl/time.Second > math.MaxInt32:
		problems = append(problems, fmt.Errorf("--ttl %s must be 0 or more, in whole seconds, and at most %s", o.ttl, math.MaxInt32*time.Second))
	}
	if o.wait && o.waits && o.dryRun {
		problems = append(problems, errors.New("cannot wait for what a dry run does not do: give --wait or --dry-run"))
	}
	if o.timeout <= 0 {
		problems = append(problems, fmt.Errorf("cannot wait for %s: --timeout must be longer than 0", o.timeout))
	}
	return errors.Join(problems...)
}

func (o *creation) run(ctx context.Context, s streams) error {
	config, namespace, err := o.connection.config()
	if err != nil {
		return err
	}
	if o.to == "" {
		o.to = namespace
	}
	requests, err := requestsIn(o.to, config, s.err)
	if err != nil {
		return err
	}
	w := &makingWait{requests: requests, source: namespace + "/" + o.machine, timeout: o.timeout, progress: s.err}
	if err := w.ask(ctx, o.request(namespace), o.dryRun); err != nil {
		return err
	}
	fmt.Fprintf(s.out, "VirtualMachineTemplateRequest %s created in namespace %s%s\n", w.name, o.to, inDryRun(o.dryRun))
	if !o.wait || o.dryRun {
		return nil
	}
	request, err := w.await(ctx)
	if err != nil {
		return err
	}
	return report(s, &request.Status)
}

// request is what is asked for of a machine in a namespace.
func (o *creation) request(namespace string) *sspv1alpha1.VirtualMachineTemplateRequest {
	r := &sspv1alpha1.VirtualMachineTemplateRequest{
		TypeMeta:   metav1.TypeMeta{APIVersion: sspv1alpha1.GroupVersion.String(), Kind: sspv1alpha1.KindVirtualMachineTemplateRequest},
		ObjectMeta: metav1.ObjectMeta{GenerateName: o.machine + "-", Namespace: o.to},
	}
	r.Spec.Source = sspv1alpha1.VirtualMachineTemplateRequestSource{VMName: o.machine, VMNamespace: namespace}
	if r.Spec.Target.SetFormat(o.format, o.named(o.machine)); o.format == "" {
		r.Spec.TemplateName = o.named(o.machine) // the cluster chooses the format
	}
	r.Spec.DataVolumes = sspv1alpha1.DataVolumes(o.dataVolumes)
	for key, value := range o.labels {
		if r.Spec.TemplateLabels == nil {
			r.Spec.TemplateLabels = map[string]sspv1alpha1.TemplateLabel{}
		}
		r.Spec.TemplateLabels[key] = sspv1alpha1.TemplateLabel(value)
	}
	if o.expires {
		r.Spec.TTLSecondsAfterFinished = new(int32(o.ttl / time.Second))
	}
	return r
}

// encoded is a request as it is sent.
func encoded(r *sspv1alpha1.VirtualMachineTemplateRequest) (*unstructured.Unstructured, error) {
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(r)
	if err != nil {
		return nil, fmt.Errorf("cannot write the request: %w", err)
	}
	delete(object, "status")
	return &unstructured.Unstructured{Object: object}, nil
}

// report says what was made, and what to know before it is used.
func report(s streams, status *sspv1alpha1.VirtualMachineTemplateRequestStatus) error {
	for _, w := range status.Warnings {
		fmt.Fprintf(s.err, "Warning: %s\n", w)
	}
	if len(status.WithheldParameters) > 0 {
		fmt.Fprintf(s.err, "Note: %s%s\n", toBeGiven, strings.Join(status.WithheldParameters, ", "))
	}
	made := status.TemplateRef
	if made == nil {
		return errors.New("cannot tell which template was made: status.templateRef of the request is missing")
	}
	name := made.Kind + " " + made.Name
	if strings.Contains(made.APIVersion, "/") { // everybody knows those of the core group
		name += " of " + made.APIVersion
	}
	fmt.Fprintf(s.out, "%s created in namespace %s, with %s\n", name, made.Namespace, counted(int(status.ParameterCount), "parameter"))
	return nil
}
