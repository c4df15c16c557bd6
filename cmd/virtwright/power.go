package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// The verbs.
const (
	verbStart   = "start"
	verbStop    = "stop"
	verbRestart = "restart"
)

const powerHelp = `The cluster that the kubeconfig names is asked to %[1]s the machine (PUT …/virtualmachines/NAME/%[1]s
of subresources.kubevirt.io/v1, as virtctl does); its answer comes at once. With --wait the
command returns when %[2]s, and tells every change of its status on standard
error until then, with what it waits for.

Exit codes: 0 when the request was accepted (with --wait: when that is so), 1 when the cluster
refuses it, 2 for wrong usage and when the cluster cannot be asked, 3 when it was accepted and
the machine does not get there in time.`

const startExamples = `  # Start a machine, and wait until it runs
  {{program}} start web -n shop --wait

  # Start it paused, as for attaching a debugger
  {{program}} start web -n shop --paused`

const stopExamples = `  # Ask the guest to shut down, and wait until it has
  {{program}} stop web -n shop --wait --timeout 10m

  # Do not ask
  {{program}} stop web -n shop --force --grace-period 0`

const restartExamples = `  # Stop the machine and start it with its present spec
  {{program}} restart web -n shop --wait

  # What would the cluster say?
  {{program}} restart web -n shop --dry-run`

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
	verb, name string
	connection connection
	paused     bool
	force      bool
	grace      int64 // negative: not given
	graced     bool  // grace was given, whatever it says
	dryRun     bool
	wait       bool
	timeout    time.Duration
}

func newStart(shown string, s streams) *cobra.Command {
	p := &power{verb: verbStart, grace: -1}
	c := p.command(shown, s, "Start a virtual machine", startExamples)
	c.Flags().BoolVar(&p.paused, "paused", false, "start the machine with its processors stopped")
	return c
}

func newStop(shown string, s streams) *cobra.Command {
	p := &power{verb: verbStop}
	c := p.command(shown, s, "Stop a virtual machine", stopExamples)
	p.declareForce(c)
	return c
}

func newRestart(shown string, s streams) *cobra.Command {
	p := &power{verb: verbRestart}
	c := p.command(shown, s, "Stop a virtual machine and start it again", restartExamples)
	p.declareForce(c)
	return c
}

func (p *power) command(shown string, s streams, short, examples string) *cobra.Command {
	goal := map[string]string{verbStart: "the machine runs", verbStop: "the machine has stopped", verbRestart: "the machine runs anew"}[p.verb]
	c := &cobra.Command{
		Use:               p.verb + " NAME",
		Short:             short,
		Long:              short + ".\n\n" + fmt.Sprintf(powerHelp, p.verb, goal),
		Example:           strings.ReplaceAll(examples, "{{program}}", shown),
		Args:              oneName(p.verb),
		ValidArgsFunction: p.connection.complete,
		RunE: func(c *cobra.Command, args []string) error {
			p.name, p.graced = args[0], c.Flags().Changed("grace-period")
			return p.run(c.Context(), s)
		},
	}
	p.connection.declare(c)
	c.Flags().BoolVar(&p.dryRun, "dry-run", false, "ask whether it would be accepted, and change nothing")
	c.Flags().BoolVar(&p.wait, "wait", false, "return when "+goal)
	c.Flags().DurationVar(&p.timeout, "timeout", 5*time.Minute, "how long to wait, with --wait")
	return c
}

func (p *power) declareForce(c *cobra.Command) {
	c.Flags().BoolVar(&p.force, "force", false, "do not leave the guest the time that its spec gives it; needs --grace-period")
	c.Flags().Int64Var(&p.grace, "grace-period", -1, "seconds that the guest may take to shut down; needs --force")
}

// check fails where the flags contradict each other.
func (p *power) check() error {
	switch {
	case p.graced && p.grace < 0:
		return fmt.Errorf("cannot leave the guest %d seconds: --grace-period must be 0 or more", p.grace)
	case p.force != p.graced:
		return fmt.Errorf("%s", forceWanted)
	case p.wait && p.dryRun:
		return errors.New("cannot wait for what a dry run does not do: give --wait or --dry-run")
	case p.timeout <= 0:
		return fmt.Errorf("cannot wait for %s: --timeout must be longer than 0", p.timeout)
	}
	return nil
}

func (p *power) run(ctx context.Context, s streams) error {
	if err := p.check(); err != nil {
		return err
	}
	c, err := p.connection.connect()
	if err != nil {
		return err
	}
	var before types.UID
	if p.wait {
		if before, err = p.outgoing(ctx, c); err != nil {
			return err
		}
	}
	if err := p.request(ctx, c); err != nil {
		return err
	}
	fmt.Fprintf(s.out, "VM %s was scheduled to %s%s\n", p.name, p.verb, inDryRun(p.dryRun))
	if !p.wait {
		return nil
	}
	return p.await(ctx, c, before, s.err)
}

// body is what is asked for, in KubeVirt's words.
func (p *power) body() ([]byte, error) {
	var grace *int64
	if p.grace >= 0 {
		grace = &p.grace
	}
	var dryRun []string
	if p.dryRun {
		dryRun = []string{metav1.DryRunAll}
	}
	switch p.verb {
	case verbStart:
		return json.Marshal(kubevirtv1.StartOptions{Paused: p.paused, DryRun: dryRun})
	case verbStop:
		return json.Marshal(kubevirtv1.StopOptions{GracePeriod: grace, DryRun: dryRun})
	default:
		return json.Marshal(kubevirtv1.RestartOptions{GracePeriodSeconds: grace, DryRun: dryRun})
	}
}
