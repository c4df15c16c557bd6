package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

const (
	verbStart   = "start"
	verbStop    = "stop"
	verbRestart = "restart"
)

// verbs are the subresources of VMs and VMIs that the commands ask for.
var verbs = map[string]struct {
	past, kind, short string
	// goal is what --wait waits for; empty if the command cannot wait.
	goal, example string
}{
	verbStart:    {"started", "VM", "Start virtual machines", "runs", "  # Start a VM paused, to attach a debugger\n  {{program}} {{verb}} web -n shop --paused"},
	verbStop:     {"stopped", "VM", "Stop virtual machines", "has stopped", forceExample},
	verbRestart:  {"restarted", "VM", "Stop virtual machines and start them again", "runs as a new VMI", forceExample},
	"reset":      {"reset", "VMI", "Reset virtual machines that run, as their reset button does", "", ""},
	"softreboot": {"soft-rebooted", "VMI", "Ask the guests of virtual machines to reboot, by agent or ACPI", "", ""},
}

const powerHelp = `%s.

The command sends the cluster a request for each VM, as virtctl does (PUT …/%s/NAME/{{verb}}
of subresources.kubevirt.io/v1). Choose VMs by name (NAME, or vm/NAME), by label (-l), or take all
(--all). With -A, -l and --all apply to all namespaces. Up to 8 requests are sent at the same time.

Each VM is a line on standard output. The last line counts, unless one VM is named. Refusals are on
standard error.

%s

Exit codes: 0 when all requests were accepted, 1 when the cluster refuses one, 2 for wrong usage and
when the cluster cannot be asked, 3 when a wait timed out or ended early.`

const waitHelp = `The cluster answers at once. With --wait the command returns when each VM %s. Until then, each
change of its status is a line on standard error, with the reason.`

const resetHelp = `The cluster answers at once, and the agent of the node acts later. The VMI stays the same: changes of
the VM's spec take effect when the VM restarts.`

const powerExamples = `  # One VM
  {{program}} {{verb}} web -n shop

  # All VMs with a label, in all namespaces
  {{program}} {{verb}} -l app=web -A

`

const forceExample = "  # Do not ask the guest to shut down\n  {{program}} {{verb}} web -n shop --force --grace-period 0"

// forceWanted has virtctl's words.
const forceWanted = "Must both use --force=true and set --grace-period."

// inDryRun ends a message with kubectl's words, where nothing was changed.
func inDryRun(dry bool) string {
	if dry {
		return " (dry run)"
	}
	return ""
}

// power is a call of one of the verbs.
type power struct {
	targets
	verb    string
	paused  bool
	force   bool
	grace   int64
	graced  bool // grace was given
	dryRun  bool
	wait    bool
	timeout time.Duration
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
		Example:           strings.TrimSpace(text.Replace(powerExamples + v.example)),
		ValidArgsFunction: p.connection.completeNames,
		RunE: func(c *cobra.Command, args []string) error {
			p.graced = c.Flags().Changed("grace-period")
			if err := p.check(args); err != nil {
				return err
			}
			return p.run(c.Context(), s)
		},
	}
	p.declare(c)
	f := c.Flags()
	f.BoolVar(&p.dryRun, "dry-run", false, "ask whether the request would be accepted, and change nothing")
	if v.goal != "" {
		f.BoolVar(&p.wait, "wait", false, "return when each VM "+v.goal)
		f.DurationVar(&p.timeout, "timeout", 5*time.Minute, "how long to wait, with --wait")
	}
	switch verb {
	case verbStart:
		f.BoolVar(&p.paused, "paused", false, "start each VM with its processors stopped")
	case verbStop, verbRestart:
		f.BoolVar(&p.force, "force", false, "overrule the time that the VM's spec gives the guest; needs --grace-period")
		f.Int64Var(&p.grace, "grace-period", -1, "seconds that the guest may take to shut down; needs --force")
	}
	return c
}

// resource is the resource that the verb is a subresource of.
func (p *power) resource() string {
	return map[string]string{"VM": "virtualmachines", "VMI": "virtualmachineinstances"}[p.kind()]
}

func (p *power) kind() string { return verbs[p.verb].kind }

// check reads the names of VMs, and fails where arguments and flags contradict each other.
func (p *power) check(args []string) error {
	switch {
	case p.everywhere && !p.all && p.selector == "":
		return errors.New("-A needs -l or --all")
	case p.graced && p.grace < 0:
		return fmt.Errorf("cannot leave the guest %d seconds: --grace-period must be 0 or more", p.grace)
	case p.force != p.graced:
		return fmt.Errorf("%s", forceWanted)
	case p.wait && p.dryRun:
		return errors.New("a dry run changes nothing to wait for: give --wait or --dry-run")
	case p.wait && p.timeout <= 0:
		return fmt.Errorf("cannot wait for %s: --timeout must be longer than 0", p.timeout)
	}
	return p.read(p.verb, typed(args), []string{"vm", strings.ToLower(p.kind())}, false, "-l, --all")
}

// run sends the requests, and waits for all VMs at the same time.
func (p *power) run(ctx context.Context, s streams) error {
	config, chosen, err := p.choose(ctx, kubevirtv1.GroupVersion.WithResource(p.resource()), nil)
	if err != nil {
		return err
	}
	c, err := newClusterClient(config)
	if err != nil {
		return err
	}
	type answer struct {
		before types.UID
		err    error
	}
	report := &powerReport{power: p, s: s, failed: map[int]int{}}
	var waits errgroup.Group
	inOrder(chosen, func(vm types.NamespacedName) (a answer) {
		if p.wait {
			a.before, a.err = p.outgoing(ctx, c, vm)
		}
		if a.err == nil {
			a.err = p.request(ctx, c, vm)
		}
		return a
	}, func(vm types.NamespacedName, a answer) {
		if a.err != nil {
			report.fail(a.err)
			return
		}
		report.line(s.out, "%s %s was scheduled to %s%s", p.kind(), p.shown(vm), p.verb, inDryRun(p.dryRun))
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
	_ = waits.Wait() // each error is in the report
	report.summary(len(chosen))
	return report.worst
}

// shown is a VM in lines of the output.
func (p *power) shown(vm types.NamespacedName) string {
	if p.everywhere {
		return vm.String()
	}
	return vm.Name
}

// powerReport prints what a call does, for several VMs at the same time.
type powerReport struct {
	*power
	s  streams
	mu sync.Mutex
	// failed counts errors by exit code; worst is one of the highest rank.
	failed map[int]int
	worst  error
}

func (r *powerReport) line(to io.Writer, format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(to, format+"\n", args...)
}

// fail prints and counts an error. An error that is no answer of the cluster outranks a refusal.
func (r *powerReport) fail(err error) {
	r.line(r.s.err, "%s %v", styleOf(r.s.err).paint(red, "Error:"), err)
	r.mu.Lock()
	defer r.mu.Unlock()
	rank := map[int]int{exitWaited: 1, exitRefused: 2, exitUsage: 3}
	r.failed[exitCode(err)]++
	if r.worst == nil || rank[exitCode(err)] > rank[exitCode(r.worst)] {
		r.worst = told{err}
	}
}

// summary counts several VMs.
func (r *powerReport) summary(chosen int) {
	if len(r.names) == 1 {
		return
	}
	parts := []string{""} // completed below
	for _, code := range []int{exitRefused, exitWaited, exitUsage} {
		if n := r.failed[code]; n > 0 {
			chosen -= n
			parts = append(parts, fmt.Sprint(n, map[int]string{exitRefused: " refused", exitWaited: " not finished", exitUsage: " failed"}[code]))
		}
	}
	parts[0] = verbs[r.verb].past + " " + counted(chosen, "VM")
	r.line(r.s.out, "%s%s", strings.Join(parts, "; "), inDryRun(r.dryRun))
}

// body is the request: StartOptions, StopOptions, RestartOptions and so on of KubeVirt. They differ in the name of the
// grace period.
func (p *power) body() ([]byte, error) {
	options := map[string]any{}
	if p.paused {
		options["paused"] = true
	}
	if p.force {
		options[map[string]string{verbStop: "gracePeriod", verbRestart: "gracePeriodSeconds"}[p.verb]] = p.grace
	}
	if p.dryRun {
		options["dryRun"] = []string{metav1.DryRunAll}
	}
	return json.Marshal(options)
}
