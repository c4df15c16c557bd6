package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	apivalidation "k8s.io/apimachinery/pkg/util/validation"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/fleet/learn"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/simulate"
)

const learnHelp = `Find presets that make existing virtual machines sparse. The presets are printed in mode Audit, as
YAML. Existing presets stay.

A preset selects VMs by what they have in common: labels, their namespace and its labels, their
instancetype and preference; at most three of these. It sets defaults for fields that all of these
VMs have, so that no VM changes: a VM with another value keeps it. Values that come from the name of
a VM, from its labels or from those of its namespace are computed. Fields that may hold secrets, the
run strategy, the instancetype and the preference are left to the VMs.

Each VM is checked with the webhooks: the cluster stores the same object for the sparse VM as before.

` + liveHelp + `

-o table shows what each preset selects and saves, and fields with an unusual value. --write creates
a folder with the presets and the sparse VMs. --propose-labels prints kubectl commands that label
VMs which have values in common, but no label by which a preset could select them. With these
labels, presets save more.`

const learnExamples = `  # Presets for the VMs of a folder, with the labels of their namespaces
  {{program}} learn -f vms -f namespaces.yaml

  # What presets would save in a cluster
  {{program}} learn -A -o table

  # Commands for labels with which presets would save more
  {{program}} learn -A --propose-labels

  # A folder for Git, with presets and sparse VMs
  {{program}} learn -A --write fleet`

// mostUnusual is the number of rows of fields with an unusual value.
const mostUnusual = 20

type learnCommand struct {
	settings
	options learn.Options
	folder  string
}

func newLearn(shown string, s streams) *cobra.Command {
	o := &learnCommand{settings: settings{without: []string{"reapply", "warnings"}}}
	c := &cobra.Command{
		Use: "learn [-f FILE...] [TYPE/NAME...] [--write FOLDER]", Short: "Find presets that make existing virtual machines sparse",
		Long: learnHelp, Example: learnExamples, Args: named,
	}
	o.setUp(c, shown, []string{"yaml", "json", "table"}, func(ctx context.Context, args []string) error { return o.run(ctx, s, args) }, o.checkLimits, o.checkWrite)
	o.declareValidation(c)
	o.declareLimits(c)
	c.Flags().StringVar(&o.folder, "write", "", "new `folder` for presets and sparse VMs; print a table")
	c.Flags().BoolVar(&o.options.Labels, "propose-labels", false, "print kubectl commands that label VMs, so that presets can select them")
	c.ValidArgsFunction = o.connection.complete(0)
	return c
}

func (o *learnCommand) declareLimits(c *cobra.Command) {
	c.Flags().IntVar(&o.options.Presets, "max-presets", 0, "largest number of presets, with --namespaced in each namespace; 0 for no limit")
	c.Flags().IntVar(&o.options.Support, "min-support", 3, "a preset sets a field only if that saves the field in at least so many VMs")
	c.Flags().BoolVar(&o.options.Namespaced, "namespaced", false, "learn a VirtualMachinePreset for each namespace, instead of ClusterVirtualMachinePresets")
}

func (o *learnCommand) checkLimits(*cobra.Command) error {
	var problems []error
	if o.options.Presets < 0 {
		problems = append(problems, fmt.Errorf("--max-presets %d: must be 0 or more", o.options.Presets))
	}
	if o.options.Support < 2 {
		problems = append(problems, fmt.Errorf("--min-support %d: must be 2 or more, because a preset for one VM saves nothing", o.options.Support))
	}
	return errors.Join(problems...)
}

func (o *learnCommand) checkWrite(c *cobra.Command) error {
	if o.folder != "" && c.Flags().Changed("output") {
		return errors.New("--write and -o are mutually exclusive")
	}
	if o.options.Labels && (o.folder != "" || c.Flags().Changed("output")) {
		return errors.New("--propose-labels prints commands: use it without --write and -o")
	}
	if err := o.checkFolder(); err != nil {
		return fmt.Errorf("--write %w", err)
	}
	return nil
}

func (o *learnCommand) checkFolder() error {
	if o.folder == "" {
		return nil
	}
	if _, err := os.Lstat(o.folder); err == nil {
		return fmt.Errorf("%s: exists: name a new folder", o.folder)
	}
	parent := filepath.Dir(filepath.Clean(o.folder))
	if info, err := os.Stat(parent); err != nil || !info.IsDir() {
		return fmt.Errorf("%s: %s is not a folder: create it first", o.folder, parent)
	}
	return nil
}

func (o *learnCommand) run(ctx context.Context, s streams, args []string) error {
	objects, known, err := o.read(ctx, s, args)
	if err != nil {
		return err
	}
	vms := 0
	for _, object := range objects {
		if simulate.IsVM(object) {
			vms++
		}
	}
	if vms == 0 {
		return fmt.Errorf("no VirtualMachine or VirtualMachineInstance in %s", o.described(args))
	}
	o.options.Judge = o.folder != "" || o.output == "table"
	passes := 2
	if o.options.Labels {
		passes = 4
	}
	shown := newProgress(s, "made sparse", passes*vms)
	report, err := simulate.Learn(ctx, objects, known, o.options, shown.at)
	shown.clear()
	if err != nil {
		return err
	}
	note(s, report.Notes)
	if isPart := !o.all || o.selector != ""; isPart && o.live(args) && !o.options.Namespaced && len(report.Presets) > 0 && !o.options.Labels {
		note(s, []string{"the presets also select VMs of the cluster that were not read: use -A to learn from all VMs, or --namespaced for presets of a namespace"})
	}
	problems := []error{o.show(s, report)}
	for _, x := range report.VMs {
		problems = append(problems, x.Err)
	}
	return errors.Join(problems...)
}

func (o *learnCommand) show(s streams, report *simulate.LearnReport) error {
	if o.options.Labels {
		return printProposals(s, report)
	}
	if len(report.Presets) == 0 {
		note(s, []string{"no preset would save anything: nothing is learned"})
		return nil
	}
	for _, p := range report.Presets {
		if compiled, problems := presets.Compile(p.Object); len(problems) == 0 && len(compiled.Sensitive()) > 0 {
			note(s, []string{fmt.Sprintf("the author of %s needs the verb escalate: it sets %s", compiled.Ref, strings.Join(compiled.Sensitive(), ", "))})
		}
	}
	if o.folder != "" {
		if err := o.write(report); err != nil {
			return err
		}
	}
	if o.folder != "" || o.output == "table" {
		return printLearned(s, report)
	}
	list := &listWriter{out: s.out, output: o.output}
	for _, p := range report.Presets {
		text, err := presetText(o.output, p.Object)
		if err = errors.Join(err, list.add(text)); err != nil {
			return err
		}
	}
	return list.end()
}

// presetText renders a preset without its status.
func presetText(output string, preset v1alpha1.Preset) (string, error) {
	raw, err := json.Marshal(preset)
	if err != nil {
		return "", err
	}
	var object map[string]any
	if err := json.Unmarshal(raw, &object); err != nil {
		return "", err
	}
	delete(object, "status")
	return rendered(output, object)
}

func printLearned(s streams, report *simulate.LearnReport) error {
	var rows [][]string
	before, after, own := 0, 0, 0
	for _, p := range report.Presets {
		rows = append(rows, []string{presets.RefOf(p.Object), strconv.Itoa(p.VMs), strconv.Itoa(p.Fields), strconv.Itoa(p.Saved), cmp.Or(p.Selects, "all VMs")})
		own += p.Cost()
	}
	if err := printTable(s.out, []string{"PRESET", "VMS", "FIELDS", "SAVED", "SELECTS"}, rows); err != nil {
		return err
	}
	learned, rejected := 0, 0
	for _, x := range report.VMs {
		if x.Err == nil {
			learned++
			before, after = before+x.Before, after+x.After
		} else if x.Before > 0 { // it is rejected with the presets
			rejected++
		}
	}
	if len(rows) > 0 {
		fmt.Fprintln(s.out)
	}
	summary := [][]string{
		{"VMs", strconv.Itoa(learned)},
		{"fields of VMs now", strconv.Itoa(before)},
		{"fields of sparse VMs", strconv.Itoa(after)},
		{"presets with their conditions and fields", strconv.Itoa(own)},
	}
	if total := after + own; rejected == 0 && 0 < report.Least && report.Least <= total {
		summary = append(summary, []string{"lower bound of both", fmt.Sprintf("%d (gap %.1f %%)", report.Least, 100*(float64(total)/float64(report.Least)-1))})
	}
	if h := report.HeldOut; h.VMs > 0 {
		summary = append(summary, []string{"given to VMs that presets were not learned from", fmt.Sprintf("%d of %d fields, and %d that these do not have (%s)", h.Saved, h.Fields, h.Added, counted(h.VMs, "VM"))})
	}
	if err := align(s.out, summary, columnGap, maxFirst); err != nil {
		return err
	}
	return printUnusual(s, report.Unusual)
}

func printUnusual(s streams, all []learn.Unusual) error {
	if len(all) == 0 {
		return nil
	}
	var rows [][]string
	for _, u := range all[:min(len(all), mostUnusual)] {
		rows = append(rows, []string{u.Namespace, u.Name, u.Path.String(), fmt.Sprintf("%d of %d VMs have the value of %s", u.Same, u.VMs, u.Preset)})
	}
	fmt.Fprintln(s.out)
	if err := printTable(s.out, []string{"NAMESPACE", "NAME", "UNUSUAL-FIELD", "BECAUSE"}, rows); err != nil {
		return err
	}
	if more := len(all) - len(rows); more > 0 {
		note(s, []string{fmt.Sprintf("%d more fields are unusual", more)})
	}
	return nil
}

// write creates the folder at once, so that an interrupt leaves no half of it.
func (o *learnCommand) write(report *simulate.LearnReport) error {
	files, err := learnedFiles(report)
	if err != nil {
		return err
	}
	next, err := os.MkdirTemp(filepath.Dir(filepath.Clean(o.folder)), ".learn-*")
	if err != nil {
		return cannotWrite(o.folder, err)
	}
	if err := errors.Join(writeFiles(next, files), os.Chmod(next, 0o755), os.Rename(next, o.folder)); err != nil {
		return cannotWrite(o.folder, errors.Join(err, os.RemoveAll(next)))
	}
	return nil
}

func writeFiles(folder string, files map[string]string) error {
	for name, text := range files {
		at := filepath.Join(folder, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(text), 0o644)); err != nil {
			return err
		}
	}
	return nil
}

// learnedFiles returns the texts of presets and VMs by the names of their files.
func learnedFiles(report *simulate.LearnReport) (map[string]string, error) {
	out := map[string]string{}
	var problems []error
	add := func(text string, err error, folder, namespace, name string) {
		at := filepath.Join(folder, namespace, name)
		for i := 2; out[at+".yaml"] != ""; i++ {
			at = filepath.Join(folder, namespace, name+"-"+strconv.Itoa(i))
		}
		out[at+".yaml"] = text
		problems = append(problems, err)
	}
	for _, p := range report.Presets {
		text, err := presetText("yaml", p.Object)
		add(text, err, "presets", p.Object.GetNamespace(), p.Object.GetName())
	}
	for _, x := range report.VMs {
		if x.Err != nil || x.IsOwned() {
			continue
		}
		name := x.Name
		if len(apivalidation.IsDNS1123Subdomain(name)) > 0 {
			name = "generated" // the API server chooses the name
		}
		text, err := rendered("yaml", x.Object)
		add(text, err, "vms", x.Namespace, name)
	}
	return out, errors.Join(problems...)
}
