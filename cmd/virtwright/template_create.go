package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	sspv1alpha1 "github.com/virtwright/virtwright/api/ssp/v1alpha1"
)

const createHelp = `Ask a cluster for a template of one of its VMs.

The command creates a VirtualMachineTemplateRequest of ssp.kubevirt.io/v1alpha1 in the namespace
of the template, and returns when the template exists or has failed. Blocking conditions are
printed to standard error. With --wait=false, the VM may be created later: the request waits for it.
The template is created with the requester's permissions: to get the VM, to create the template and,
for another namespace, to create virtualmachinetemplaterequests/source under the VM's name in the
VM's namespace.

Exit codes: 0 when the template exists (with --wait=false: when the request was accepted),
1 when the cluster rejects the request or cannot make the template, 2 for wrong usage or an
unreachable cluster, 3 when the wait timed out; the request stays.`

const createExamples = `  # Create the template web-template in the VM's namespace
  {{program}} template create web -n shop

  # Create it in another namespace, and let VMs of one namespace have disks of their own
  {{program}} template create web -n shop --to-namespace golden --name fedora-web --data-volumes Rename

  # In a cluster without an API for templates; the request is deleted after an hour
  {{program}} template create web -n shop --format configMap --ttl 1h

  # Check whether the request would be accepted
  {{program}} template create web -n shop --dry-run=server`

type templateCreate struct {
	templateFlags
	vm          string
	connection  connection
	toNamespace string
	ttl         time.Duration
	ttlGiven    bool
	dryRun      dryRun
	wait        bool
	waitGiven   bool
	timeout     time.Duration
}

func newTemplateCreate(shown string, s streams) *cobra.Command {
	o := &templateCreate{}
	c := &cobra.Command{
		Use:               "create NAME",
		Short:             "Ask a cluster for a template of a VM",
		Long:              createHelp,
		Example:           strings.ReplaceAll(createExamples, "{{program}}", shown),
		ValidArgsFunction: o.connection.complete(1),
		RunE: func(c *cobra.Command, args []string) error {
			o.ttlGiven, o.waitGiven = c.Flags().Changed("ttl"), c.Flags().Changed("wait")
			var err error
			o.vm, err = oneVM(args, "make a template of", "vm")
			if err := errors.Join(err, o.check()); err != nil {
				return err
			}
			return o.run(c.Context(), s)
		},
	}
	o.connection.declare(c)
	o.declare(c, "", "; default: the first but configMap that the cluster serves")
	f := c.Flags()
	f.StringVar(&o.toNamespace, "to-namespace", "", "namespace of the template; default: namespace of the VM")
	f.DurationVar(&o.ttl, "ttl", 0, "delete the request so long after the template exists; default: never. The template stays")
	o.dryRun.declare(c, "only check the flags", "let the cluster check the request, without effect")
	f.BoolVar(&o.wait, "wait", true, "wait until the template exists")
	f.DurationVar(&o.timeout, "timeout", 5*time.Minute, "how long to wait")
	return c
}

func (o *templateCreate) check() error {
	problems := []error{o.dryRun.check(), o.templateFlags.check(), invalidName("--to-namespace", o.toNamespace, validation.IsDNS1123Label)}
	if o.ttl < 0 || o.ttl%time.Second != 0 || o.ttl/time.Second > math.MaxInt32 {
		problems = append(problems, fmt.Errorf("--ttl %s must be 0 or more, in whole seconds, and at most %s", o.ttl, math.MaxInt32*time.Second))
	}
	if o.wait && o.waitGiven && o.dryRun.on() {
		problems = append(problems, errors.New("cannot wait for the result of a dry run: give --wait or --dry-run"))
	}
	if o.timeout <= 0 {
		problems = append(problems, fmt.Errorf("--timeout %s must be longer than 0", o.timeout))
	}
	return errors.Join(problems...)
}

func (o *templateCreate) run(ctx context.Context, s streams) error {
	config, namespace, err := o.connection.config()
	if err != nil {
		return err
	}
	if o.toNamespace == "" {
		o.toNamespace = namespace
	}
	config = rest.CopyConfig(config)
	config.WarningHandler = rest.NewWarningWriter(s.err, rest.WarningWriterOptions{Deduplicate: true})
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("cannot make a client of %s: %w", config.Host, err)
	}
	requests := client.Resource(sspv1alpha1.GroupVersion.WithResource(sspv1alpha1.ResourceVirtualMachineTemplateRequests)).Namespace(o.toNamespace)
	w := &templateWait{source: namespace + "/" + o.vm, namespace: o.toNamespace, timeout: o.timeout}
	w.objects = requests
	w.tell = func(state string) { fmt.Fprintf(s.err, "Request %s: %s\n", w.name, state) }
	if err := o.submit(ctx, client, namespace, w); err != nil {
		return err
	}
	fmt.Fprintf(s.out, "VirtualMachineTemplateRequest %s created in namespace %s%s\n", w.name, o.toNamespace, o.dryRun.suffix())
	if !o.waits() {
		return nil
	}
	status, err := w.await(ctx)
	if err != nil {
		return err
	}
	return printTemplate(s, status)
}

func (o *templateCreate) waits() bool { return o.wait && !o.dryRun.on() }

// submit creates the request, unless it would only wait for its VM. Whether the user may read the
// VM is reported by the request.
func (o *templateCreate) submit(ctx context.Context, client dynamic.Interface, namespace string, w *templateWait) error {
	if o.dryRun == dryRunClient {
		w.name = o.vm + "-*"
		return nil
	}
	if o.waits() {
		_, err := client.Resource(virtualMachines).Namespace(namespace).Get(ctx, o.vm, metav1.GetOptions{})
		if apierrors.IsNotFound(err) && !unknownPath(err) {
			return declined(fmt.Errorf("cannot make a template of VM %s: it does not exist; --wait=false creates a request that waits for it", w.source))
		}
	}
	return w.create(ctx, o.request(namespace), o.dryRun == dryRunServer)
}

func (o *templateCreate) request(namespace string) *sspv1alpha1.VirtualMachineTemplateRequest {
	r := &sspv1alpha1.VirtualMachineTemplateRequest{
		TypeMeta:   metav1.TypeMeta{APIVersion: sspv1alpha1.GroupVersion.String(), Kind: sspv1alpha1.KindVirtualMachineTemplateRequest},
		ObjectMeta: metav1.ObjectMeta{GenerateName: o.vm + "-", Namespace: o.toNamespace},
	}
	r.Spec.Source = sspv1alpha1.VirtualMachineTemplateRequestSource{VMName: o.vm, VMNamespace: namespace}
	if r.Spec.Target.SetFormat(o.format, o.templateName(o.vm)); o.format == "" {
		r.Spec.TemplateName = o.templateName(o.vm) // the cluster chooses the format
	}
	r.Spec.DataVolumes = sspv1alpha1.DataVolumes(o.dataVolumes)
	for key, value := range o.labels {
		if r.Spec.TemplateLabels == nil {
			r.Spec.TemplateLabels = map[string]sspv1alpha1.TemplateLabel{}
		}
		r.Spec.TemplateLabels[key] = sspv1alpha1.TemplateLabel(value)
	}
	if o.ttlGiven {
		r.Spec.TTLSecondsAfterFinished = new(int32(o.ttl / time.Second))
	}
	return r
}

func printTemplate(s streams, status *sspv1alpha1.VirtualMachineTemplateRequestStatus) error {
	printWarnings(s, "", status.Warnings, status.WithheldParameters)
	template := status.TemplateRef
	if template == nil {
		return errors.New("cannot tell which template was created: status.templateRef of the request is missing")
	}
	name := template.Kind + " " + template.Name
	if strings.Contains(template.APIVersion, "/") { // not of the core group
		name += " of " + template.APIVersion
	}
	fmt.Fprintf(s.out, "%s created in namespace %s, with %s\n", name, template.Namespace, counted(int(status.ParameterCount), "parameter"))
	return nil
}

type templateWait struct {
	objectWait
	source    string // NAMESPACE/NAME of the VM
	namespace string // of the request
	timeout   time.Duration
	status    *sspv1alpha1.VirtualMachineTemplateRequestStatus
}

func (w *templateWait) create(ctx context.Context, r *sspv1alpha1.VirtualMachineTemplateRequest, dryRun bool) error {
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(r)
	if err != nil {
		return fmt.Errorf("cannot encode the request: %w", err)
	}
	delete(object, "status")
	options := metav1.CreateOptions{}
	if dryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	created, err := w.objects.Create(ctx, &unstructured.Unstructured{Object: object}, options)
	switch {
	case err == nil:
		w.name, w.version = created.GetName(), created.GetResourceVersion()
		return nil
	case unknownPath(err):
		return fmt.Errorf("cannot make a template of VM %s: this cluster does not serve %s: install virtwright's chart (%w)", w.source, sspv1alpha1.GroupVersion, err)
	}
	return answered(fmt.Errorf("cannot make a template of VM %s: %w", w.source, err))
}

func (w *templateWait) await(ctx context.Context) (*sspv1alpha1.VirtualMachineTemplateRequestStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	w.reached, w.shown = w.check, "request "+w.namespace+"/"+w.name
	err := w.until(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = unfinished(w.timedOut())
	}
	return w.status, err
}

func (w *templateWait) timedOut() error {
	state := w.last
	if state == "" {
		state = "not reconciled yet (does virtwright's manager run?)"
	}
	return fmt.Errorf("timed out after %s waiting for a template of VM %s: request %s/%s is %s; it stays: kubectl get vmtreq %s -n %s",
		w.timeout, w.source, w.namespace, w.name, state, w.name, w.namespace)
}

func (w *templateWait) check(_ context.Context, object *unstructured.Unstructured) (bool, error) {
	r, err := decoded[sspv1alpha1.VirtualMachineTemplateRequest](object)
	if err != nil {
		return false, err
	}
	conditions := r.Status.Conditions
	ready := meta.FindStatusCondition(conditions, sspv1alpha1.ConditionReady)
	switch {
	case ready == nil:
	case ready.Status == metav1.ConditionTrue:
		w.status = &r.Status
	case meta.IsStatusConditionFalse(conditions, sspv1alpha1.ConditionProgressing):
		return false, declined(fmt.Errorf("cannot make a template of VM %s: %s: %s (request %s/%s)", w.source, ready.Reason, ready.Message, w.namespace, w.name))
	case ready.Reason == sspv1alpha1.ReasonReconciling: // no delay to report
		w.last = notReady(ready, "")
	case ready.Reason == sspv1alpha1.ReasonFormatUnavailable:
		w.news(notReady(ready, "; --format "+sspv1alpha1.FormatConfigMap+" works in every cluster"))
	default:
		w.news(notReady(ready, ""))
	}
	return w.status != nil, nil
}

func notReady(ready *metav1.Condition, hint string) string {
	return fmt.Sprintf("not ready (%s: %s%s)", ready.Reason, ready.Message, hint)
}
