package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/virtwright/virtwright/simulate"
)

const validateHelp = `Report virtual machines and presets that a cluster would reject, with the same messages: unknown
fields, wrong types, VMs that cannot start, fields that only controllers may set, and name
collisions between VMs.

The input is the same as for expand, and VirtualMachines in version v1alpha2. Presets of the input
are applied and also validated. Objects are validated as if they were created in order.
ValidatingAdmissionPolicies are evaluated like in an API server. Objects of other kinds are counted
and ignored, unless the kind looks misspelt.

Each problem is a line on standard output. Warnings are printed to standard error. docs/rules.md
describes each rule; a message ends with the name of its rule.`

const validateExamples = `  # Would a cluster accept these VMs with these presets?
  {{program}} validate -f examples/vms -f examples/presets -f examples/namespaces.yaml

  # Would the current cluster accept this VM?
  {{program}} validate -f examples/vms/web.yaml --live

  # Only presets
  {{program}} validate -f examples/presets

  # With feature gates of the cluster
  cat examples/vms/tiny.yaml | {{program}} validate -f - -f examples/presets --feature-gates HostDisk=true,NUMA=false

  # Alongside KubeVirt, as JSON
  {{program}} validate -f examples/vms/desktop.yaml --mode addon -o json`

func newValidate(shown string, s streams) *cobra.Command {
	o := &settings{source: source{needs: needs{filesOnly: true}}}
	c := &cobra.Command{
		Use: "validate [-f FILE...] [TYPE/NAME...]", Short: "Report objects that a cluster would reject", Long: validateHelp,
		Example: validateExamples, Args: named,
	}
	o.setUp(c, shown, []string{"text", "json"}, func(ctx context.Context, args []string) error { return validate(ctx, o, s, args) })
	o.declareValidation(c)
	c.ValidArgsFunction = o.connection.complete(0)
	return c
}

func validate(ctx context.Context, o *settings, s streams, args []string) error {
	objects, known, err := o.read(ctx, s, args)
	if err != nil {
		return err
	}
	report, err := simulate.Review(ctx, objects, known)
	if err != nil {
		return err
	}
	if len(report.Verdicts) == 0 {
		return fmt.Errorf("no object to validate in %s%s", o.described(args), leftKinds(report.Left))
	}
	v := newValidated(report)
	if o.output == "json" {
		err = printJSON(s.out, v)
	} else {
		err = v.text(s)
	}
	if err == nil && v.Summary.Rejected > 0 {
		err = errPrinted
	}
	return err
}

func leftKinds(left []simulate.Leftover) string {
	if len(left) == 0 {
		return ""
	}
	kinds := sets.New[string]()
	for _, l := range left {
		kinds.Insert(l.Kind)
	}
	return ", only objects of unsupported kinds: " + strings.Join(sets.List(kinds), ", ")
}

type validated struct {
	Objects []validatedObject `json:"objects"`
	// Left are objects of ignored kinds.
	Left    []simulate.Leftover `json:"left"`
	Notes   []string            `json:"notes"`
	Summary validatedSummary    `json:"summary"`
}

type validatedObject struct {
	File     string `json:"file"`
	Document int    `json:"document"`
	// Item counts the items of a list, from 1.
	Item       int                `json:"item,omitempty"`
	APIVersion string             `json:"apiVersion"`
	Kind       string             `json:"kind"`
	Namespace  string             `json:"namespace,omitempty"`
	Name       string             `json:"name"`
	Rejected   bool               `json:"rejected"`
	Problems   []simulate.Problem `json:"problems"`
	Warnings   []string           `json:"warnings"`

	shown, where string
}

type validatedSummary struct {
	Objects  int `json:"objects"`
	Rejected int `json:"rejected"`
	Problems int `json:"problems"`
	Warnings int `json:"warnings"`
	Left     int `json:"left"`
}

func newValidated(report *simulate.Report) *validated {
	out := &validated{Left: orEmpty(report.Left), Notes: orEmpty(report.Notes), Objects: []validatedObject{}}
	for i := range report.Verdicts {
		v := &report.Verdicts[i]
		out.Objects = append(out.Objects, validatedObject{
			File: v.Where.File, Document: v.Where.Document, Item: v.Where.Item,
			APIVersion: v.APIVersion, Kind: v.Kind, Namespace: v.Namespace, Name: v.Name,
			Rejected: len(v.Problems) > 0, Problems: orEmpty(v.Problems), Warnings: orEmpty(v.Warnings),
			shown: v.String(), where: v.Where.String(),
		})
		if len(v.Problems) > 0 {
			out.Summary.Rejected++
		}
		out.Summary.Problems += len(v.Problems)
		out.Summary.Warnings += len(v.Warnings)
	}
	out.Summary.Objects = len(out.Objects)
	for _, l := range report.Left {
		out.Summary.Left += l.Count
	}
	return out
}

// orEmpty replaces nil, which would become null in JSON.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

func (v *validated) text(s streams) error {
	note(s, v.Notes)
	for _, l := range v.Left {
		fmt.Fprintln(s.err, "Note:", l)
	}
	var warnings warningGroups
	for i := range v.Objects {
		o := &v.Objects[i]
		if o.Name == "" { // only the position identifies it
			o.File = o.where
		}
		for _, w := range o.Warnings {
			warnings.add(o.File+": "+o.shown, oneLine(w))
		}
		for _, p := range o.Problems {
			if _, err := fmt.Fprintf(s.out, "%s: %s: %s\n", o.File, o.shown, oneLine(p.String())); err != nil {
				return err
			}
		}
	}
	for _, g := range warnings {
		fmt.Fprintf(s.err, "warning: %s: %s\n", g.about(), g.text)
	}
	_, err := fmt.Fprintln(s.out, v.Summary)
	return err
}

func oneLine(text string) string { return simulate.OneLine(text) }

// String formats the last line of the output.
func (s validatedSummary) String() string {
	text := fmt.Sprintf("%s: %s", counted(s.Objects, "object"), "all fine")
	if s.Rejected > 0 {
		text = fmt.Sprintf("%s: %d fine, %d rejected with %s", counted(s.Objects, "object"), s.Objects-s.Rejected, s.Rejected, counted(s.Problems, "problem"))
	}
	if s.Warnings > 0 {
		text += ", " + counted(s.Warnings, "warning")
	}
	if s.Left > 0 {
		text += fmt.Sprintf("; ignored %d of other kinds", s.Left)
	}
	return text
}

func counted(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprint(n, " ", noun)
}
