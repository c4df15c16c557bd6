package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/cmd/virtwright/internal/kustomize"
	"github.com/virtwright/virtwright/simulate"
	"github.com/virtwright/virtwright/simulate/manifest"
)

const planHelp = `Show the effects of a change of presets on VMs before you apply it: what changes in each preset, VMs
that would be created differently or rejected, presets that would conflict, and running VMs that
would need a restart. A change loosens if fewer VMs may be changed or rejected: for example, a
weaker mode or a removed forbid or require.

Exceptions, and labels of namespaces that both sides have, are compared like presets. A policy that
is deleted, or loses its last binding, loosens.

The presets of -f are compared with those of the cluster, of a folder (--base-dir), or of a git
revision of the same files (--base-ref). The VMs are those of the cluster and those of -f. -n limits
them to a namespace, and -l selects them by label. With --base-dir and --base-ref, a cluster is read
only if you select one (--live, -A, --context).

Presets change a stored VM only when it is reapplied (virtwright.dev/reapply). The plan compares the
VM after a reapply with the old presets and after a reapply with the new presets, so that existing
differences are ignored.

-o rollout prints a PresetRollout for changed cluster presets that have none, with steps sized by the
VMs that change.

Exit codes: 0 no VM changes, 1 a VM changes or a change loosens, 2 wrong usage or input, 4 a VM would
be rejected, or presets would conflict. With --fail-on loosening, also 4 if a change loosens.`

const planExamples = `  # Before kubectl apply -f presets/
  {{program}} plan -f presets/

  # In a pull request, without a cluster, as a comment
  {{program}} plan -f presets/ -f vms/ --base-ref origin/main -o markdown

  # Fail if a change loosens a preset, even if no VM changes
  {{program}} plan -f presets/ -f vms/ --base-ref origin/main --fail-on loosening

  # A PresetRollout for the change
  {{program}} plan -f presets/ -o rollout

  # The effect of deleting presets, VM by VM
  {{program}} plan -f presets/ --prune -o diff`

type planCommand struct {
	settings
	baseDir, baseRef string
	prune            bool
	dryRun           dryRun
	failOn           string
	// inNamespace is true if only the VMs of -n are compared.
	inNamespace bool
}

func newPlan(shown string, s streams) *cobra.Command {
	o := &planCommand{}
	o.withVMs, o.without = true, flagsForReapply[:2]
	c := &cobra.Command{
		Use:   "plan -f FILE... [--base-dir FOLDER | --base-ref REVISION]",
		Short: "Show the effects of a change of presets on VMs", Long: planHelp, Example: planExamples, Args: flagsForFiles,
	}
	run := func(ctx context.Context, _ []string) error { return o.run(ctx, s) }
	o.setUp(c, shown, []string{"table", "diff", "markdown", "json", "rollout"}, run, o.checkBase)
	c.Flags().Lookup("namespace").Usage = "namespace of objects without one, and the only one with VMs (default: all)"
	c.Flags().Lookup("selector").Usage = "only VMs with these labels, like kubectl -l"
	o.declareValidation(c)
	c.Flags().StringVar(&o.baseDir, "base-dir", "", "folder with the old presets")
	c.Flags().StringVar(&o.baseRef, "base-ref", "", "git revision of -f with the old presets")
	c.Flags().BoolVar(&o.prune, "prune", false, "also plan the deletion of presets of the cluster that are not in -f")
	o.dryRun.declare(c, "the same", "also validate the presets and each changed VM by a dry run of the API server")
	c.Flags().StringVar(&o.failOn, "fail-on", failOnRejection, "rejection: exit code 4 if a VM would be rejected or presets would conflict; loosening: also if a change loosens")
	offer(c, "fail-on", []string{failOnRejection, failOnLoosening})
	return c
}

func (o *planCommand) checkBase(c *cobra.Command) error {
	problems := []error{o.dryRun.check(), oneOf("--fail-on", o.failOn, failOnRejection, failOnLoosening)}
	fromFiles := o.baseDir != "" || o.baseRef != ""
	if len(o.files) == 0 && o.kustomize == "" {
		problems = append(problems, errors.New("-f is required: name files or folders with the new presets"))
	}
	if o.baseDir != "" && o.baseRef != "" {
		problems = append(problems, errors.New("--base-dir and --base-ref are mutually exclusive"))
	}
	if o.baseRef != "" && o.kustomize != "" {
		problems = append(problems, errors.New("--base-ref and -k are mutually exclusive: use --base-dir with another checkout"))
	}
	if o.prune && fromFiles {
		problems = append(problems, errors.New("--prune cannot be used with --base-dir and --base-ref, which always plan the deletion of missing presets"))
	}
	o.allowMissing = o.baseRef != "" // deleted files delete their presets
	o.forceLive = o.forceLive || !fromFiles || o.dryRun == dryRunServer
	o.inNamespace = c.Flags().Changed("namespace") && !o.all
	o.all = o.all || o.live(nil) && !o.inNamespace
	return errors.Join(problems...)
}

// Values of --fail-on.
const (
	failOnRejection = "rejection"
	failOnLoosening = "loosening"
)

var (
	errPlanFails   = exitError{errors.New("a VM would be rejected, or presets would conflict"), exitPlan, true}
	errPlanLoosens = exitError{errors.New("a change loosens what presets change or reject (--fail-on loosening)"), exitPlan, false}
)

func (o *planCommand) run(ctx context.Context, s streams) error {
	if o.output == "rollout" { // must not propose a second rollout of a preset
		o.required = []string{v1alpha1.ResourcePresetRollouts}
	}
	x, err := o.comparison(ctx, s)
	if err != nil {
		return badInput(err)
	}
	p := &planPrinter{streams: s, output: o.output}
	serverCheck := o.serverCheck()
	x.Visit = func(c simulate.Compared) {
		p.visit(c)
		serverCheck.visit(c)
	}
	shown := newProgress(s, "compared", 0)
	x.Progress = func(done, total int) {
		shown.total = total
		shown.at(done)
	}
	plan, err := x.Plan(ctx)
	shown.clear()
	if err != nil {
		return badInput(err)
	}
	if plan.Incomplete {
		x.Notes = append(x.Notes, "too many pairs of presets, or too many findings, to compare conflicts")
	}
	if plan.VMs == 0 {
		x.Notes = append(x.Notes, "no VM in "+o.described(nil)+": only presets are compared")
	}
	note(s, x.Notes)
	if err := serverCheck.run(ctx, o, x, plan); err != nil {
		return err
	}
	p.proposed = x.ProposedRollout
	if err := p.print(plan); err != nil {
		return fmt.Errorf("cannot print the plan: %w", err)
	}
	switch {
	case plan.Fails():
		return errPlanFails
	case o.failOn == failOnLoosening && plan.Loosens():
		return errPlanLoosens
	case plan.Differs():
		return errPrinted
	}
	return nil
}

// badInput returns an error with the exit code for input, even for rejected presets.
func badInput(err error) error { return errors.New(err.Error()) }

func (o *planCommand) comparison(ctx context.Context, s streams) (*simulate.Comparison, error) {
	files, cluster, err := o.sources(ctx, s, nil)
	switch {
	case errors.Is(err, errNoCluster):
		return nil, fmt.Errorf("cannot compare with a cluster: %w; --base-dir or --base-ref compares with files", err)
	case err != nil:
		return nil, err
	}
	known, err := o.clusterSettings(s, nil)
	if err != nil {
		return nil, err
	}
	presets, others := split(files)
	x := &simulate.Comparison{Settings: known}
	if x.Selector, err = labels.Parse(o.selector); err != nil {
		return nil, err // unreachable: validated before
	}
	if o.inNamespace {
		x.Namespace = o.namespace
	}
	if !slices.ContainsFunc(slices.Concat(files, cluster), simulate.IsRule) && o.baseDir == "" && o.baseRef == "" {
		return nil, fmt.Errorf("no preset or policy in %s", o.described(nil))
	}
	if o.baseDir == "" && o.baseRef == "" {
		was, is := simulate.Relabelled(cluster, files)
		x.Before = simulate.Replace(cluster, simulate.Replace(others, was, o.namespace), o.namespace)
		if o.prune {
			cluster = slices.DeleteFunc(cluster, simulate.IsPreset)
		}
		x.After = simulate.Replace(cluster, simulate.Replace(files, is, o.namespace), o.namespace)
		return x, nil
	}
	base, err := o.base()
	if err != nil {
		return nil, err
	}
	old, _ := split(base)
	was := slices.DeleteFunc(base, func(m manifest.Object) bool { return !simulate.IsNamespace(m) })
	x.Before = simulate.Replace(simulate.Without(cluster, presets, o.namespace), slices.Concat(old, simulate.Replace(others, was, o.namespace)), o.namespace)
	x.After = simulate.Replace(simulate.Without(cluster, old, o.namespace), simulate.Replace(was, files, o.namespace), o.namespace)
	return x, nil
}

func (o *planCommand) base() ([]manifest.Object, error) {
	if o.baseDir == "" {
		return manifest.ReadRevision(o.baseRef, o.files, o.recursive)
	}
	if _, err := os.Stat(o.baseDir); err != nil {
		return nil, fmt.Errorf("cannot read --base-dir: %w", err)
	}
	if o.kustomize != "" && kustomize.Contains(o.baseDir) {
		return kustomize.Build(o.baseDir)
	}
	old := manifest.Sources{Stdin: strings.NewReader(""), Names: []string{o.baseDir}, Recursive: o.recursive, AllowMissing: true}
	return old.Objects(math.MaxInt)
}

func split(objects []manifest.Object) (presets, others []manifest.Object) {
	for _, o := range objects {
		if simulate.IsPlanned(o) {
			presets = append(presets, o)
		} else {
			others = append(others, o)
		}
	}
	return presets, others
}
