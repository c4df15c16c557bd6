package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/simulate"
	"github.com/virtwright/virtwright/simulate/manifest"
)

const adoptHelp = `Introduce presets for the virtual machines of a cluster, step by step. The command prints how far it
is and what you do next. Run it again after each step. It only reads the cluster.

  learn    find presets and sparse VMs, and write them to FOLDER, as virtwright learn does
  lint     no preset has an error
  plan     in mode Enforce, the presets change and reject no VM
  audit    the cluster has the presets, in mode Audit at first
  enforce  the presets have mode Enforce, in FOLDER and in the cluster
  sparse   the sparse manifests replace those of the VMs: no VM changes, but presets give its fields

If FOLDER exists, it is not learned again. You can change, rename and delete its presets.
--enforce sets mode Enforce in its files, when all steps before that are done.`

const adoptExamples = `  # Presets for all VMs of a cluster
  {{program}} adopt fleet -A

  # Presets for one namespace
  {{program}} adopt fleet -n shop --namespaced

  # Set mode Enforce in the files of the folder
  {{program}} adopt fleet -A --enforce`

type adoptCommand struct {
	learnCommand
	enforce bool
}

// A step is a row of the output.
type step struct {
	name, detail string
	done         bool
	// next is what to do if it is not done.
	next string
	// show prints why it is not done.
	show func(streams) error
}

func newAdopt(shown string, s streams) *cobra.Command {
	o := &adoptCommand{learnCommand: learnCommand{settings: settings{without: slices.Concat(flagsForReapply, []string{"output"})}}}
	c := &cobra.Command{
		Use: "adopt FOLDER [-A | -n NAMESPACE]", Short: "Introduce presets for the virtual machines of a cluster, step by step",
		Long: adoptHelp, Example: adoptExamples, Args: oneFolder,
	}
	o.setUp(c, shown, []string{"table"}, func(ctx context.Context, _ []string) error { return o.run(ctx, s) }, o.checkLimits, onlyCluster)
	o.declareValidation(c)
	o.declareLimits(c)
	c.Flags().BoolVar(&o.enforce, "enforce", false, "set mode Enforce in the files of FOLDER")
	for _, flag := range slices.Concat(otherSources, []string{"recursive", "live"}) {
		c.Flags().Lookup(flag).Hidden = true
	}
	run := c.RunE
	c.RunE = func(c *cobra.Command, args []string) error {
		o.folder = args[0]
		return run(c, nil)
	}
	return c
}

func oneFolder(_ *cobra.Command, args []string) error {
	if len(args) != 1 || args[0] == "" || strings.HasPrefix(args[0], "-") {
		return fmt.Errorf("name one FOLDER, for example fleet: got %q", args)
	}
	if info, err := os.Stat(args[0]); err == nil && !info.IsDir() {
		return fmt.Errorf("%s is not a folder", args[0])
	}
	return nil
}

var otherSources = []string{"filename", "kustomize", "selector"}

// onlyCluster rejects flags for other sources than the cluster.
func onlyCluster(c *cobra.Command) error {
	var problems []error
	for _, flag := range otherSources {
		if c.Flags().Changed(flag) {
			problems = append(problems, fmt.Errorf("--%s: adopt compares FOLDER with all VMs of a namespace or a cluster: use learn, plan and sparsify instead", flag))
		}
	}
	return errors.Join(problems...)
}

func (o *adoptCommand) run(ctx context.Context, s streams) error {
	o.forceLive = true
	if _, _, err := o.connection.config(); err != nil {
		return err
	}
	var rejected error // VMs that are not learned from
	if !exists(o.folder) {
		if err := o.checkFolder(); err != nil { // before the work
			return err
		}
		if o.enforce {
			return fmt.Errorf("cannot set mode Enforce: there is no folder %s", o.folder)
		}
		if rejected = o.learnCommand.run(ctx, s, nil); !exists(o.folder) {
			return rejected
		}
		fmt.Fprintln(s.out)
	}
	steps, found, err := o.steps(ctx, s)
	if err != nil {
		return errors.Join(rejected, err)
	}
	if !o.enforce {
		return cmp.Or(rejected, printSteps(s, steps))
	}
	if at := nextStep(steps); at >= 0 && !slices.ContainsFunc(steps[:at+1], func(x step) bool { return x.name == "enforce" }) {
		_ = printSteps(s, steps) // the other error has the same exit code
		return declined(fmt.Errorf("cannot set mode Enforce: step %s is not done", steps[at].name))
	}
	if err := setEnforce(found.Presets); err != nil {
		return fmt.Errorf("cannot set mode Enforce: %w", err)
	}
	if steps, _, err = o.steps(ctx, s); err != nil {
		return err
	}
	return printSteps(s, steps)
}

func exists(file string) bool {
	_, err := os.Lstat(file)
	return !errors.Is(err, os.ErrNotExist)
}

func (o *adoptCommand) steps(ctx context.Context, s streams) ([]step, *simulate.Adoption, error) {
	o.files, o.withVMs = []string{o.folder}, true
	own, err := o.manifests(s, math.MaxInt)
	if err != nil {
		return nil, nil, err
	}
	if !slices.ContainsFunc(own, simulate.IsPreset) {
		return nil, nil, fmt.Errorf("no preset in %s: name a folder that learn has written, or a new one", o.folder)
	}
	_, namespace, err := o.connection.config()
	if err != nil {
		return nil, nil, err
	}
	namespaces := simulate.NewSurvey(own, namespace).Namespaces
	if *o.connection.flags.Namespace != "" && !slices.Contains(namespaces, namespace) {
		return nil, nil, fmt.Errorf("no VirtualMachine of namespace %s in %s", namespace, presets.EscapeLine(o.folder))
	}
	o.all = o.all || slices.ContainsFunc(own, func(m manifest.Object) bool { return m.Kind == v1alpha1.KindClusterVirtualMachinePreset }) ||
		slices.ContainsFunc(namespaces, func(n string) bool { return n != namespace })
	cluster, err := o.stored(ctx, s, nil, own)
	if err != nil {
		return nil, nil, err
	}
	known, err := o.clusterSettings(s, nil)
	if err != nil {
		return nil, nil, err
	}
	given := slices.DeleteFunc(slices.Clone(own), func(m manifest.Object) bool { return !simulate.IsPreset(m) })
	if given, err = simulate.Enforce(given); err != nil {
		return nil, nil, err
	}
	lint, err := simulate.Lint(ctx, simulate.Replace(cluster, given, o.namespace), known)
	if err != nil {
		return nil, nil, err
	}
	files := sets.New[string]()
	for _, m := range given {
		files.Insert(m.Where.File)
	}
	lint.Findings = slices.DeleteFunc(lint.Findings, func(f simulate.LintFinding) bool { return !files.Has(f.Where.File) })
	report := newLinted(located(lint.Findings, nil), len(given))
	first := []step{
		{name: "learn", done: true, detail: counted(len(given), "preset") + " in " + presets.EscapeLine(o.folder)},
		{
			name: "lint", done: report.Summary.Errors == 0, detail: report.Summary.String(), next: "correct the presets in " + inFolder(o.folder, "presets"),
			show: func(s streams) error { return report.print("text", s) },
		},
	}
	if report.Summary.Errors > 0 {
		return first, nil, nil // such presets need not be valid
	}
	found, err := simulate.Adopt(ctx, own, cluster, known)
	if err != nil {
		return nil, nil, err
	}
	return append(first, stepsOf(o.folder, found)...), found, nil
}

// inFolder returns a path as a word of a shell command.
func inFolder(folder, name string) string {
	return presets.EscapeLine(shellQuoted(filepath.Join(folder, name)))
}

func stepsOf(folder string, a *simulate.Adoption) []step {
	all, applied, active, enforced := len(a.Presets), 0, 0, 0
	for _, p := range a.Presets {
		applied, active, enforced = applied+count(p.IsApplied), active+count(p.IsActive), enforced+count(p.IsEnforced)
	}
	presetsAt := inFolder(folder, "presets")
	apply := "kubectl apply -R -f " + presetsAt
	enforce := apply
	if enforced < all {
		enforce = "see how many VMs the presets would act on (kubectl get vmpreset,cvmpreset -A), then run the command again with --enforce"
	}
	changed, rejected := a.Plan.Counts()
	changed += rejected
	return []step{
		{
			name: "plan", done: changed+len(a.Plan.Warned)+len(a.Plan.Conflicts) == 0, detail: fmt.Sprintf("%d of %s change", changed, counted(a.Plan.VMs, "VM")),
			next: "change the presets in " + presetsAt + ", or learn them again in another folder",
			show: func(s streams) error {
				p := &planPrinter{streams: s, output: "table"}
				return p.print(a.Plan)
			},
		},
		{name: "audit", done: applied == all, detail: fmt.Sprintf("%d of %s in the cluster", applied, counted(all, "preset")), next: apply},
		{name: "enforce", done: active == all, detail: fmt.Sprintf("%d of %s in mode Enforce in the cluster", active, counted(all, "preset")), next: enforce},
		sparseStep(inFolder(folder, "vms"), a),
	}
}

// maxReasons is how many VMs with another manifest are explained.
const maxReasons = 10

func sparseStep(vmsAt string, a *simulate.Adoption) step {
	out := step{
		name: "sparse", detail: fmt.Sprintf("%d of %s get fields from presets", len(a.Sparse), counted(len(a.Sparse)+len(a.Full), "VM")), done: len(a.Full) == 0,
		next: "replace the manifests of the VMs by those of " + vmsAt + " where you apply them from, or: kubectl replace -R -f " + vmsAt,
	}
	switch stale := slices.Concat(a.Changed, a.Unknown); {
	case len(stale) > 0:
		out.done, out.detail = false, "the manifests do not give the stored VMs: "+someVMs(stale)
		out.next = "correct the presets, or write what virtwright sparsify prints for these VMs to " + vmsAt + ", and delete the files of VMs that do not exist"
		out.show = func(s streams) error {
			if len(a.Reasons) == 0 {
				return nil
			}
			shown := a.Reasons[:min(len(a.Reasons), maxReasons)]
			_, err := fmt.Fprintln(s.out, presets.Escape(strings.Join(shown, "\n")))
			return err
		}
	case len(a.Sparse)+len(a.Full) == 0 && len(a.Left) > 0:
		out.done, out.next = false, "write what virtwright sparsify prints for the VMs to "+vmsAt
	}
	if len(a.Left) > 0 {
		out.detail += "; not in the folder: " + someVMs(a.Left)
	}
	if len(a.Owned) > 0 {
		out.detail += "; left to the objects that own them: " + someVMs(a.Owned)
	}
	return out
}

func count(is bool) int {
	if is {
		return 1
	}
	return 0
}

// nextStep returns the index of the first step that is not done; -1 if all are.
func nextStep(steps []step) int {
	return slices.IndexFunc(steps, func(x step) bool { return !x.done })
}

func printSteps(s streams, steps []step) error {
	var rows [][]string
	at := nextStep(steps)
	for i, x := range steps {
		status := "done"
		if at >= 0 && i >= at {
			status = "-"
		}
		if i == at {
			status = "next"
		}
		rows = append(rows, []string{x.name, status, x.detail})
	}
	if err := printTable(s.out, []string{"STEP", "STATUS", "DETAIL"}, rows); err != nil {
		return err
	}
	if at < 0 {
		return nil
	}
	if steps[at].show != nil {
		fmt.Fprintln(s.out)
		if err := steps[at].show(s); err != nil {
			return err
		}
	}
	if _, err := fmt.Fprintf(s.out, "\nNext: %s\n", steps[at].next); err != nil || steps[at].show == nil {
		return err
	}
	return errPrinted
}

// setEnforce sets mode Enforce where the presets have their mode.
func setEnforce(of []simulate.AdoptedPreset) error {
	at := map[string][]manifest.Position{}
	for _, p := range of {
		if !p.IsEnforced {
			at[p.Where.File] = append(at[p.Where.File], p.Where)
		}
	}
	var problems []error
	for _, file := range slices.Sorted(maps.Keys(at)) {
		problems = append(problems, replaceFile(file, func(content []byte) (out []byte, err error) {
			for _, where := range at[file] {
				if content, err = setMode(content, where); err != nil {
					return nil, err
				}
			}
			return content, nil
		}))
	}
	return errors.Join(problems...)
}

// setMode replaces the mode of one preset in a file.
func setMode(content []byte, at manifest.Position) ([]byte, error) {
	lines := strings.SplitAfter(string(content), "\n")
	if line, column := manifest.NewText(at.File, content).Locate(at, "spec.mode", false); line > 0 {
		characters := []rune(lines[line-1])
		before, after := string(characters[:column-1]), string(characters[column-1:])
		for _, old := range []v1alpha1.Mode{v1alpha1.ModeAudit, v1alpha1.ModeWarn} {
			if quote, rest, ok := strings.Cut(after, string(old)); ok && len(quote) <= 1 {
				lines[line-1] = before + quote + string(v1alpha1.ModeEnforce) + rest
				return []byte(strings.Join(lines, "")), nil
			}
		}
	}
	return nil, fmt.Errorf("%s: spec.mode cannot be edited: change it to Enforce yourself", at)
}

// shellQuoted returns a word of a shell command.
func shellQuoted(word string) string {
	isPlain := func(r rune) bool {
		return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("._-/+:@", r)
	}
	if strings.IndexFunc(word, func(r rune) bool { return !isPlain(r) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
