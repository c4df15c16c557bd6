package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/virtwright/virtwright/cmd/virtwright/internal/offline"
	"github.com/virtwright/virtwright/domain"
)

const renderHelp = `Print the libvirt domains that virtual machines become, given these presets and profiles.

The input is as for expand, with FrontendProfiles and BackendProfiles beside presets. A
VirtualMachine is rendered as the instance that it would launch. Stage frontend is what the
guest sees, with a comment for each thing that only a host can say; stage backend (the default) is
the complete domain, as libvirt defines and starts it.

What a host would say is assumed: hardware virtualization for the guest's architecture and
whatever devices the instance asks for. --facts takes it from a file instead; what stands
there replaces what is assumed, field by field.

XML goes to standard output, warnings and what the guest must do without to standard error;
with --decisions, everything that the backend decided.`

const renderExamples = `  # The domain of a VM that presets have made whole
  {{program}} render -f examples/vms/web.yaml -f examples/presets -f examples/namespaces.yaml

  # What its guest sees, whatever the host
  {{program}} render -f examples/vms/web.yaml -f examples/presets -f examples/namespaces.yaml --stage frontend

  # Under profiles, and why each thing is as it is
  {{program}} render -f examples/vms/tiny.yaml -f examples/presets -f examples/profiles --decisions`

const (
	stageFrontend = "frontend"
	stageBackend  = "backend"
)

// rendering is how domains are printed.
type rendering struct {
	settings
	stage     string
	facts     string
	decisions bool
}

func newRender(shown string, s streams) *cobra.Command {
	outputs := []string{"xml"}
	o := &rendering{}
	c := &cobra.Command{
		Use:     "render [-f FILE...] [TYPE/NAME...]",
		Short:   "Print the libvirt domains that virtual machines become",
		Long:    renderHelp,
		Example: strings.ReplaceAll(renderExamples, "{{program}}", shown),
		Args:    named,
		RunE: func(c *cobra.Command, args []string) error {
			if err := errors.Join(o.check(c, args, outputs...), oneOf("--stage", o.stage, stageFrontend, stageBackend)); err != nil {
				return err
			}
			return o.render(c.Context(), s, args)
		},
	}
	o.declare(c, outputs...)
	o.declareJudging(c)
	f := c.Flags()
	f.StringVar(&o.stage, "stage", stageBackend, "frontend: what the guest sees; backend: the complete domain")
	f.StringVar(&o.facts, "facts", "", "file with facts about a host, in YAML or JSON")
	f.BoolVar(&o.decisions, "decisions", false, "tell everything that the backend decided, and by which profiles")
	offer(c, "stage", []string{stageFrontend, stageBackend})
	return c
}

func (o *rendering) render(ctx context.Context, s streams, args []string) error {
	stated, err := o.readFacts()
	if err != nil {
		return err
	}
	c, err := o.cluster(ctx, s, args)
	if err != nil {
		return err
	}
	var problems []error
	for _, m := range c.Machines {
		plan, warnings, err := c.Plan(ctx, m, stated)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		warn(s, len(c.Machines) > 1, m, warnings)
		o.tell(s, c, m, plan)
		text, err := o.text(plan)
		if err != nil {
			return fmt.Errorf("cannot print %s: %w", m, err)
		}
		if len(c.Machines) > 1 {
			text = comment(m.String()) + text
		}
		if _, err := fmt.Fprint(s.out, text); err != nil {
			return fmt.Errorf("cannot print %s: %w", m, err)
		}
	}
	note(s, c.Missing())
	return errors.Join(problems...)
}

// text is the domain of a plan after the stage that was asked for.
func (o *rendering) text(plan *domain.Plan) (string, error) {
	if o.stage == stageBackend {
		return domain.Render(&plan.Whole.Domain)
	}
	text, err := domain.Render(&plan.Partial.Domain)
	if err != nil {
		return "", err
	}
	for _, l := range plan.Partial.Late {
		text += comment("late-bound: " + l.String())
	}
	return text, nil
}

// comment is text as a line of XML, in whose comments no two hyphens may stand
// together.
func comment(text string) string {
	for strings.Contains(text, "--") {
		text = strings.ReplaceAll(text, "--", "- -")
	}
	return "<!-- " + text + " -->\n"
}

// tell writes what the guest must do without, and all else that was decided
// where that is asked for.
func (o *rendering) tell(s streams, c *offline.Cluster, m offline.Machine, plan *domain.Plan) {
	about := ""
	if len(c.Machines) > 1 {
		about = m.String() + ": "
	}
	if o.decisions {
		fmt.Fprintf(s.err, "Note: %sfrontend profiles: %s; backend profiles: %s\n", about, names(plan.FrontendProfiles), names(plan.BackendProfiles))
	}
	for _, d := range plan.Whole.Decisions {
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

// readFacts reads what a file says of a host; nil where none is named.
func (o *rendering) readFacts() (*domain.HostFacts, error) {
	if o.facts == "" {
		return nil, nil
	}
	raw, err := os.ReadFile(o.facts)
	if err != nil {
		return nil, fmt.Errorf("--facts: %w", err)
	}
	stated := struct {
		domain.HostFacts
		KVM *bool `json:"kvm"`
	}{}
	if err := yaml.UnmarshalStrict(raw, &stated); err != nil {
		return nil, fmt.Errorf("--facts %s: %w", o.facts, err)
	}
	stated.HostFacts.KVM = ptr.Deref(stated.KVM, true)
	return &stated.HostFacts, nil
}
