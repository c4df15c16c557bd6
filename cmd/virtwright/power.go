package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

const (
	verbStart   = "start"
	verbStop    = "stop"
	verbRestart = "restart"
)

// verbs are the subresources of VMs and VMIs, by name of the command.
var verbs = map[string]struct {
	past, kind, short string
	// goal of --wait; empty if the command cannot wait.
	goal, example string
}{
	verbStart:    {"started", "VM", "Start virtual machines", "runs", "  # Start a VM paused, to attach a debugger\n  {{program}} {{verb}} web -n shop --paused"},
	verbStop:     {"stopped", "VM", "Stop virtual machines", "has stopped", forceExample},
	verbRestart:  {"restarted", "VM", "Restart virtual machines", "runs as a new VMI", forceExample},
	"pause":      {"paused", "VMI", "Pause virtual machines: stop their CPUs", "", ""},
	"unpause":    {"unpaused", "VMI", "Unpause virtual machines", "", ""},
	"reset":      {"reset", "VMI", "Reset running virtual machines, like a reset button", "", ""},
	"softreboot": {"soft-rebooted", "VMI", "Reboot the guests of virtual machines, by guest agent or ACPI", "", ""},
}

const powerHelp = `%s.

The command sends a request for each VM, like virtctl (PUT …/%s/NAME/{{verb}}
of subresources.kubevirt.io/v1). Select VMs by name (NAME, vm/NAME, or vm NAME...), by label (-l), or
select all (--all). With -A, -l and --all apply to all namespaces. Up to 8 requests are sent concurrently.
Each VM is a line on standard output. The last line is a summary, unless you name one VM. Rejections
are printed to standard error.

%s

Exit codes: 0 all requests were accepted, 1 the cluster rejects a request, 2 wrong usage or no
response of the cluster, 3 a wait timed out or ended early.`

const waitHelp = `The cluster responds immediately. With --wait, the command waits until each VM %s. Each change of its
status is printed to standard error, with the reason.`

const resetHelp = `The cluster responds when the operation is done. The VMI is not recreated: changes of the VM's spec
take effect when the VM restarts.`

const powerExamples = `  # One VM
  {{program}} {{verb}} web -n shop

  # All VMs with a label, in all namespaces
  {{program}} {{verb}} -l app=web -A

`

const forceExample = "  # Do not wait for the guest to shut down\n  {{program}} {{verb}} web -n shop --force --grace-period 0"

type power struct {
	targets
	verb       string
	paused     bool
	force      bool
	grace      int64
	dryRun     dryRun
	wait       bool
	graceGiven bool
	timeout    time.Duration
}

func newPower(verb, shown string, s streams) *cobra.Command {
	p := &power{verb: verb}
	v := verbs[verb]
	help := resetHelp
	if v.goal != "" {
		help = fmt.Sprintf(waitHelp, v.goal)
	}
	text := strings.NewReplacer("{{program}}", shown, "{{verb}}", verb)
	c := &cobra.Command{
		Use:               verb + " {NAME... | -l SELECTOR | --all}",
		Short:             v.short,
		Long:              text.Replace(fmt.Sprintf(powerHelp, v.short, p.resource(), help)),
		Example:           strings.TrimRight(text.Replace(powerExamples+v.example), "\n"),
		ValidArgsFunction: p.connection.complete(0),
		RunE: func(c *cobra.Command, args []string) error {
			p.graceGiven = c.Flags().Changed("grace-period")
			if err := p.check(args); err != nil {
				return err
			}
			return p.run(c.Context(), s)
		},
	}
	p.declare(c)
	p.dryRun.declare(c, "print the VMs, and send no request", "let the cluster check the request, without effect")
	f := c.Flags()
	if v.goal != "" {
		f.BoolVar(&p.wait, "wait", false, "wait until each VM "+v.goal)
		f.DurationVar(&p.timeout, "timeout", 5*time.Minute, "maximum time to wait, with --wait")
	}
	switch verb {
	case verbStart:
		f.BoolVar(&p.paused, "paused", false, "start each VM with its CPUs stopped")
	case verbStop, verbRestart:
		f.BoolVar(&p.force, "force", false, "override the grace period of the VM's spec; requires --grace-period")
		f.Int64Var(&p.grace, "grace-period", -1, "seconds for the guest to shut down; requires --force")
	}
	return c
}

func (p *power) resource() string {
	return map[string]string{"VM": "virtualmachines", "VMI": "virtualmachineinstances"}[p.kind()]
}

func (p *power) kind() string { return verbs[p.verb].kind }

func (p *power) check(args []string) error {
	switch {
	case p.everywhere && !p.all && p.selector == "":
		return errors.New("-A requires -l or --all")
	case p.graceGiven && p.grace < 0:
		return fmt.Errorf("--grace-period %d: must be greater than or equal to 0", p.grace)
	case p.force != p.graceGiven:
		return errors.New("--force and --grace-period must be set together")
	case p.wait && p.dryRun.on():
		return errors.New("--wait and --dry-run are mutually exclusive")
	case p.wait && p.timeout <= 0:
		return fmt.Errorf("--timeout %s: must be greater than 0", p.timeout)
	}
	return errors.Join(p.dryRun.check(), p.read(p.verb, args, []string{"vm", strings.ToLower(p.kind())}, false, "-l, --all"))
}

// run sends the requests and waits for all VMs concurrently.
func (p *power) run(ctx context.Context, s streams) error {
	config, chosen, err := p.choose(ctx, kubevirtv1.GroupVersion.WithResource(p.resource()), nil)
	if err != nil {
		return err
	}
	c, err := newClusterClient(config)
	if err != nil {
		return err
	}
	p.noteNone(s, len(chosen))
	type answer struct {
		before observation
		err    error
	}
	report := &powerReport{power: p, s: s, failed: map[int]int{}}
	var waits errgroup.Group
	inOrder(chosen, func(vm types.NamespacedName) (a answer) {
		if p.wait {
			a.before, a.err = p.observeBefore(ctx, c, vm)
		}
		if a.err == nil && p.dryRun != dryRunClient {
			a.err = p.request(ctx, c, vm)
		}
		return a
	}, func(vm types.NamespacedName, a answer) {
		if a.err != nil {
			report.fail(a.err)
			return
		}
		report.line(s.out, "%s %s was scheduled to %s%s", p.kind(), p.shown(vm), p.verb, p.dryRun.suffix())
		if !p.wait {
			return
		}
		waits.Go(func() error {
			tell := func(state string) { report.line(s.err, "VM %s: %s", p.shown(vm), state) }
			if err := p.await(ctx, c, vm, a.before, tell); err != nil {
				report.fail(err)
			}
			return nil
		})
	})
	_ = waits.Wait() // the report has the errors
	report.summary(len(chosen))
	return report.worst
}

func (p *power) shown(vm types.NamespacedName) string {
	if p.everywhere {
		return vm.String()
	}
	return vm.Name
}

type powerReport struct {
	*power
	s  streams
	mu sync.Mutex
	// failed counts errors by exit code; worst is the most severe error.
	failed map[int]int
	worst  error
}

func (r *powerReport) line(to io.Writer, format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(to, format+"\n", args...)
}

// fail prints and counts an error. A failed request is more severe than a rejection.
func (r *powerReport) fail(err error) {
	r.line(r.s.err, "%s %v", styleOf(r.s.err).paint(red, "Error:"), err)
	r.mu.Lock()
	defer r.mu.Unlock()
	rank := map[int]int{exitWaited: 1, exitRejected: 2, exitUsage: 3}
	r.failed[exitCode(err)]++
	if r.worst == nil || rank[exitCode(err)] > rank[exitCode(r.worst)] {
		r.worst = exitError{err, exitCode(err), true}
	}
}

func (r *powerReport) summary(chosen int) {
	if len(r.names) == 1 {
		return
	}
	parts := []string{""} // set below
	for _, code := range []int{exitRejected, exitWaited, exitUsage} {
		if n := r.failed[code]; n > 0 {
			chosen -= n
			parts = append(parts, fmt.Sprint(n, map[int]string{exitRejected: " rejected", exitWaited: " not finished", exitUsage: " failed"}[code]))
		}
	}
	parts[0] = verbs[r.verb].past + " " + counted(chosen, "VM")
	r.line(r.s.out, "%s%s", strings.Join(parts, "; "), r.dryRun.suffix())
}

// StartOptions, StopOptions and RestartOptions use different names for the grace period.
func (p *power) body() ([]byte, error) {
	options := map[string]any{}
	if p.paused {
		options["paused"] = true
	}
	if p.force {
		options[map[string]string{verbStop: "gracePeriod", verbRestart: "gracePeriodSeconds"}[p.verb]] = p.grace
	}
	if p.dryRun == dryRunServer {
		options["dryRun"] = []string{metav1.DryRunAll}
	}
	return json.Marshal(options)
}

const subresources = kubevirtv1.SubresourceGroupName + "/v1"

func (p *power) request(ctx context.Context, c *clusterClient, vm types.NamespacedName) error {
	body, err := p.body()
	if err != nil {
		return fmt.Errorf("cannot write the request: %w", err)
	}
	err = c.verbs.Put().AbsPath("/apis", subresources, "namespaces", vm.Namespace, p.resource(), vm.Name, p.verb).
		SetHeader("Content-Type", "application/json").
		SetHeader("Accept", "application/json, */*"). // KubeVirt's routes know only */*
		Body(body).Do(ctx).Error()
	switch {
	case err == nil:
		return nil
	case !unknownPath(err) && !apierrors.IsServiceUnavailable(err):
		return p.rejected(vm, err)
	case p.kind() == "VMI":
		return p.notServed(vm, nil, err)
	}
	stored, read := c.vm(ctx, vm)
	if apierrors.IsNotFound(read) && !unknownPath(read) {
		return p.rejected(vm, read)
	}
	return p.notServed(vm, stored, err)
}

// unknownPath reports whether a server does not serve the path. A missing object has another error.
func unknownPath(err error) bool {
	return apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

func (p *power) rejected(vm types.NamespacedName, err error) error {
	return answered(fmt.Errorf("cannot %s %s %s: %w", p.verb, p.kind(), vm, err))
}

// answered marks an error as declined if the cluster rejected the request.
func answered(err error) error {
	if isRejection(err) {
		return declined(err)
	}
	return err
}

// isRejection reports whether the cluster rejected a request, so that a retry does not help.
func isRejection(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	code := status.Status().Code
	return code >= http.StatusBadRequest && code < http.StatusInternalServerError && code != http.StatusTooManyRequests
}

// notServed explains why the API is missing. Stored is nil if the VM cannot be read.
func (p *power) notServed(vm types.NamespacedName, stored *kubevirtv1.VirtualMachine, err error) error {
	why := "is not served by this cluster: virtwright's chart or KubeVirt installs it"
	if !unknownPath(err) {
		why = "is currently not available: kubectl get apiservice v1." + kubevirtv1.SubresourceGroupName + " -o yaml shows the reason"
	}
	hint := p.alternative(vm.Namespace, stored)
	if hint != "" {
		hint = "\nIf a lifecycle controller runs, use this command instead:\n  " + hint
	}
	return fmt.Errorf("cannot %s %s %s: %s %s (%w)%s", p.verb, p.kind(), vm, subresources, why, err, hint)
}

// alternative returns a command with a similar effect that does not need the API; empty for none.
func (p *power) alternative(namespace string, vm *kubevirtv1.VirtualMachine) string {
	if vm == nil {
		return ""
	}
	strategy, err := vm.RunStrategy()
	if err != nil {
		return ""
	}
	to := map[string]kubevirtv1.VirtualMachineRunStrategy{verbStart: kubevirtv1.RunStrategyAlways, verbStop: kubevirtv1.RunStrategyHalted}[p.verb]
	switch {
	case p.verb == verbRestart && strategy == kubevirtv1.RunStrategyAlways:
		return fmt.Sprintf("kubectl delete vmi %s -n %s", vm.Name, namespace)
	case p.verb == verbRestart, strategy == to:
		return ""
	}
	field := fmt.Sprintf(`"runStrategy":%q`, to)
	if vm.Spec.RunStrategy == nil && vm.Spec.Running != nil {
		field = fmt.Sprintf(`"running":%t`, to == kubevirtv1.RunStrategyAlways)
	}
	return fmt.Sprintf("kubectl patch vm %s -n %s --type merge -p '{\"spec\":{%s}}'", vm.Name, namespace, field)
}
