package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/virtwright/virtwright/domain"
	"github.com/virtwright/virtwright/simulate"
)

const renderHelp = `Print the libvirt domains of virtual machines with these presets and profiles.

The input is the same as for expand, plus FrontendProfiles and BackendProfiles. For a
VirtualMachine, the domain of its VirtualMachineInstance is printed. Stage frontend is the part that
the guest sees, with a comment for each value that depends on the host. Stage backend (the default)
is the complete domain that libvirt starts.

The facts of the host are assumed: hardware virtualization for the guest's architecture, unless a
BackendProfile allows software emulation, and all devices that the VirtualMachineInstance requests.
--facts reads facts from a file, which replace the assumed ones field by field.

XML is printed to standard output. Warnings, and features that the guest does not get, are printed
to standard error; with --decisions, all decisions of the backend.`

const renderExamples = `  # The domain of a VM that presets have expanded
  {{program}} render -f examples/vms/web.yaml -f examples/presets -f examples/namespaces.yaml

  # The part that the guest sees, independent of the host
  {{program}} render -f examples/vms/web.yaml -f examples/presets -f examples/namespaces.yaml --stage frontend

  # With profiles and all decisions
  {{program}} render -f examples/vms/tiny.yaml -f examples/presets -f examples/profiles --decisions`

const (
	stageFrontend = "frontend"
	stageBackend  = "backend"
)

type renderCommand struct {
	settings
	stage     string
	facts     string
	decisions bool
}

func newRender(shown string, s streams) *cobra.Command {
	o := &renderCommand{}
	c := &cobra.Command{
		Use: "render [-f FILE...] [TYPE/NAME...]", Short: "Print the libvirt domains of virtual machines", Long: renderHelp,
		Example: renderExamples, Args: named,
	}
	o.setUp(c, shown, []string{"xml"}, func(ctx context.Context, args []string) error { return o.render(ctx, s, args) }, o.checkStage)
	o.declareValidation(c)
	c.ValidArgsFunction = o.connection.complete(0)
	f := c.Flags()
	f.StringVar(&o.stage, "stage", stageBackend, "frontend: the part that the guest sees; backend: the complete domain")
	f.StringVar(&o.facts, "facts", "", "file with facts about a host, in YAML or JSON")
	f.BoolVar(&o.decisions, "decisions", false, "print all decisions of the backend, and the profiles")
	offer(c, "stage", []string{stageFrontend, stageBackend})
	return c
}

func (o *renderCommand) checkStage(*cobra.Command) error {
	return oneOf("--stage", o.stage, stageFrontend, stageBackend)
}

func (o *renderCommand) render(ctx context.Context, s streams, args []string) error {
	stated, err := o.readFacts()
	if err != nil {
		return err
	}
	c, err := o.cluster(ctx, s, args)
	if err != nil {
		return err
	}
	var problems []error
	for _, m := range c.VMs {
		plan, warnings, err := c.Plan(ctx, m, stated)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		warn(s, len(c.VMs) > 1, m, warnings)
		o.report(s, c, m, plan)
		text, err := o.text(plan)
		if err != nil {
			return fmt.Errorf("cannot print %s: %w", m, err)
		}
		if len(c.VMs) > 1 {
			text = comment(m.String()) + text
		}
		if _, err := fmt.Fprint(s.out, references(text)); err != nil {
			return fmt.Errorf("cannot print %s: %w", m, err)
		}
	}
	note(s, c.Missing())
	return errors.Join(problems...)
}

func (o *renderCommand) text(plan *domain.Plan) (string, error) {
	if o.stage == stageBackend {
		return domain.Render(&plan.Host.Domain)
	}
	text, err := domain.Render(&plan.Guest.Domain)
	if err != nil {
		return "", err
	}
	for _, l := range plan.Guest.Placeholders {
		text += comment("late-bound: " + l.String())
	}
	return text, nil
}

// references replaces characters that terminals obey and XML allows.
func references(text string) string {
	return obeyed.ReplaceAllStringFunc(text, func(c string) string { return fmt.Sprintf("&#x%X;", []rune(c)[0]) })
}

var obeyed = regexp.MustCompile(`[\x{7F}-\x{9F}\x{61C}\x{200E}\x{200F}\x{202A}-\x{202E}\x{2066}-\x{2069}]`)

// comment formats text as an XML comment, which must not contain two adjacent hyphens.
func comment(text string) string {
	for strings.Contains(text, "--") {
		text = strings.ReplaceAll(text, "--", "- -")
	}
	return "<!-- " + text + " -->\n"
}

// report prints features that the guest does not get and, with --decisions, all other decisions.
func (o *renderCommand) report(s streams, c *simulate.Cluster, m simulate.VM, plan *domain.Plan) {
	about := ""
	if len(c.VMs) > 1 {
		about = m.String() + ": "
	}
	if o.decisions {
		fmt.Fprintf(s.err, "Note: %sfrontend profiles: %s; backend profiles: %s\n", about, names(plan.FrontendProfiles), names(plan.BackendProfiles))
	}
	for _, d := range plan.Host.Decisions {
		switch {
		case d.Degraded:
			fmt.Fprintf(s.err, "Warning: %s%s\n", about, d)
		case o.decisions:
			fmt.Fprintf(s.err, "Note: %s%s\n", about, d)
		}
	}
}

func names(all []string) string {
	if len(all) == 0 {
		return "none"
	}
	return strings.Join(all, ", ")
}

func (o *renderCommand) readFacts() (*simulate.StatedFacts, error) {
	if o.facts == "" {
		return nil, nil
	}
	raw, err := os.ReadFile(o.facts)
	if err != nil {
		return nil, fmt.Errorf("--facts: %w", err)
	}
	stated := &simulate.StatedFacts{}
	if err := yaml.UnmarshalStrict(raw, stated); err != nil {
		return nil, fmt.Errorf("--facts %s: %w", o.facts, err)
	}
	return stated, nil
}
