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

	"github.com/virtwright/virtwright/cmd/virtwright/internal/manifest"
	"github.com/virtwright/virtwright/cmd/virtwright/internal/offline"
)

const planHelp = `Show what a change of presets would do to VMs, before it is applied: which VMs would be created
differently, or refused, which presets would conflict, and which running VMs would need a restart.

The presets of -f are compared with those of the cluster, of a folder (--base-dir), or of a git
revision of the same files (--base-ref). The VMs are those of the cluster and those of -f, in all
namespaces or in that of -n, with all labels or with those of -l. With --base-dir and --base-ref no cluster is read unless you choose one
(--live, -A, --context).

A preset acts on a stored VM only when a reapply asks for it (virtwright.dev/reapply). The plan
compares the VM after a reapply with the old presets with the VM after a reapply with the new ones,
so that what differs already today is left out.

Exit codes: 0 nothing changes for VMs, 1 something changes, 2 wrong usage or input, 4 a VM would be
refused, or presets would conflict.`

const planExamples = `  # Before kubectl apply -f presets/
  {{program}} plan -f presets/

  # In a pull request, without a cluster, as a comment
  {{program}} plan -f presets/ -f vms/ --base-ref origin/main -o markdown

  # What the deletion of presets would do, VM by VM
  {{program}} plan -f presets/ --prune -o diff`

// planning are the flags of plan.
type planning struct {
	settings
	baseDir, baseRef string
	prune            bool
	dryRun           string
	// inNamespace says that only the VMs of -n are wanted.
	inNamespace bool
}

func newPlan(shown string, s streams) *cobra.Command {
	outputs := []string{"table", "diff", "markdown", "json"}
	o := &planning{}
	o.withVMs = true
	c := &cobra.Command{
		Use:     "plan -f FILE... [--base-dir FOLDER | --base-ref REVISION]",
		Short:   "Show what a change of presets would do to VMs",
		Long:    planHelp,
		Example: strings.ReplaceAll(planExamples, "{{program}}", shown),
		Args:    flagsForFiles,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := errors.Join(o.check(c, nil, outputs...), o.checkBase(c)); err != nil {
				return err
			}
			return o.run(c.Context(), s)
		},
	}
	o.declare(c, outputs...)
	o.declareJudging(c)
	c.Flags().StringVar(&o.baseDir, "base-dir", "", "folder with the old presets")
	c.Flags().StringVar(&o.baseRef, "base-ref", "", "git revision of -f with the old presets")
	c.Flags().BoolVar(&o.prune, "prune", false, "also plan the deletion of presets of the cluster that -f does not have")
	c.Flags().StringVar(&o.dryRun, "dry-run", "none", "none; or server: have the API server judge the presets, and each VM that would change, without storing anything")
	offer(c, "dry-run", []string{"none", "server"})
	return c
}

// checkBase reports flags that exclude each other, and chooses what is read of a cluster.
func (o *planning) checkBase(c *cobra.Command) error {
	problems := []error{oneOf("--dry-run", o.dryRun, "none", "server")}
	fromFiles := o.baseDir != "" || o.baseRef != ""
	if len(o.files) == 0 && o.kustomize == "" {
		problems = append(problems, errors.New("-f is missing: name files or folders with the new presets"))
	}
	if o.baseDir != "" && o.baseRef != "" {
		problems = append(problems, errors.New("--base-dir and --base-ref exclude each other"))
	}
	if o.baseRef != "" && o.kustomize != "" {
		problems = append(problems, errors.New("--base-ref and -k exclude each other: use --base-dir with another checkout"))
	}
	if o.prune && fromFiles {
		problems = append(problems, errors.New("--prune is for presets of a cluster: with --base-dir and --base-ref, presets that -f does not have are deleted anyway"))
	}
	o.mayLack = o.baseRef != "" // what is gone deletes its presets
	o.forceLive = o.forceLive || !fromFiles || o.dryRun == "server"
	o.inNamespace = c.Flags().Changed("namespace") && !o.all
	o.all = o.all || o.live(nil) && !o.inNamespace
	return errors.Join(problems...)
}

// errPlanFails says that the plan, which is printed, would refuse a VM or make presets conflict.
var errPlanFails = errors.New("a VM would be refused, or presets would conflict")

func (o *planning) run(ctx context.Context, s streams) error {
	x, err := o.comparison(ctx, s)
	if err != nil {
		return badInput(err)
	}
	p := &planPrinter{streams: s, output: o.output}
	referee := o.referee()
	x.Visit = func(c offline.Compared) {
		p.visit(c)
		referee.visit(c)
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
		x.Notes = append(x.Notes, "there are too many pairs of presets, or too many findings, to compare conflicts")
	}
	if plan.VMs == 0 {
		x.Notes = append(x.Notes, "there is no VM in "+o.described(nil)+": only presets are compared")
	}
	note(s, x.Notes)
	if err := referee.judge(ctx, o, x, plan); err != nil {
		return err
	}
	if err := p.print(plan); err != nil {
		return fmt.Errorf("cannot print the plan: %w", err)
	}
	switch {
	case plan.Fails():
		return errPlanFails
	case plan.Differs():
		return errTold
	}
	return nil
}

// badInput is an error with the exit code for input, also where presets are refused.
func badInput(err error) error { return errors.New(err.Error()) }

// comparison reads both sets of presets, and the VMs.
func (o *planning) comparison(ctx context.Context, s streams) (*offline.Comparison, error) {
	files, cluster, err := o.sources(ctx, s, nil)
	if err != nil {
		return nil, err
	}
	known, err := o.known(s, nil)
	if err != nil {
		return nil, err
	}
	presets, others := split(files)
	x := &offline.Comparison{Settings: known}
	if x.Selector, err = labels.Parse(o.selector); err != nil {
		return nil, err // unreachable: it is checked
	}
	if o.inNamespace {
		x.Namespace = o.namespace
	}
	if !slices.ContainsFunc(slices.Concat(files, cluster), offline.IsPreset) && o.baseDir == "" && o.baseRef == "" {
		return nil, fmt.Errorf("there is no preset in %s", o.described(nil))
	}
	if o.baseDir == "" && o.baseRef == "" {
		x.Before = offline.Replace(cluster, others, o.namespace)
		if o.prune {
			cluster = slices.DeleteFunc(cluster, offline.IsPreset)
		}
		x.After = offline.Replace(cluster, files, o.namespace)
		return x, nil
	}
	base, err := o.base()
	if err != nil {
		return nil, err
	}
	old, _ := split(base)
	x.Before = offline.Replace(offline.Without(cluster, presets, o.namespace), append(old, others...), o.namespace)
	x.After = offline.Replace(offline.Without(cluster, old, o.namespace), files, o.namespace)
	return x, nil
}

// base reads the old presets of files.
func (o *planning) base() ([]manifest.Object, error) {
	if o.baseDir == "" {
		return manifest.ReadRevision(o.baseRef, o.files, o.recursive)
	}
	if _, err := os.Stat(o.baseDir); err != nil {
		return nil, fmt.Errorf("cannot read --base-dir: %w", err)
	}
	if o.kustomize != "" && manifest.IsKustomization(o.baseDir) {
		return manifest.Kustomize(o.baseDir)
	}
	old := manifest.Sources{Stdin: strings.NewReader(""), Names: []string{o.baseDir}, Recursive: o.recursive, MayLack: true}
	return old.Objects(math.MaxInt)
}

// split returns presets, with exceptions from them, and other objects.
func split(objects []manifest.Object) (presets, others []manifest.Object) {
	for _, o := range objects {
		if offline.IsPreset(o) || offline.IsException(o) {
			presets = append(presets, o)
		} else {
			others = append(others, o)
		}
	}
	return presets, others
}

// counts is a number of VMs in words.
func counts(n int) string { return counted(n, "VM") }
