// Package playground evaluates VMs and presets that are given as text, like the commands expand,
// explain, validate and render, for the web page that `virtwright playground` serves.
package playground

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/virtwright/virtwright/domain"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/simulate"
	"github.com/virtwright/virtwright/simulate/manifest"
	"github.com/virtwright/virtwright/simulate/originreport"
	"github.com/virtwright/virtwright/templates/portable"
	"github.com/virtwright/virtwright/validation"
)

// Limits keep the page responsive. They are far above what a person edits.
const (
	// maxText is the largest size of each text, in bytes.
	maxText  = 1 << 20
	maxVMs   = 20
	maxShown = 200 // problems of each text
)

// Names of the texts in problems.
const (
	inVM      = "vm"
	inPresets = "presets"
)

// Values of Input.Mode.
const (
	standalone = "standalone"
	addon      = "addon"
)

// Input is the state of the page. Both texts are YAML or JSON with any number of documents.
type Input struct {
	// VM has VMs and VMIs.
	VM string `json:"vm"`
	// Presets has presets, namespaces, profiles, exceptions, instancetypes and policies.
	Presets string `json:"presets"`
	// Mode is standalone (the default) or addon.
	Mode string `json:"mode"`
	// Sparse is the number of the VM to make sparse, from 1; 0 for none. If there are fewer, it is
	// the last one. It takes a while.
	Sparse int `json:"sparse"`
}

// Output is the result for all VMs of an Input. Its lists are not nil.
type Output struct {
	VMs      []VM      `json:"vms"`
	Problems []Problem `json:"problems"`
	// Tests are the cases of VirtwrightTests.
	Tests []Test `json:"tests"`
	// Notes name ignored objects and missing information.
	Notes []string `json:"notes"`
	// More counts the VMs of the Input that are not in VMs.
	More int `json:"more"`
	// Sparse is that of the Input.
	Sparse int `json:"sparse"`
}

// VM is the result for one VM or VMI.
type VM struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Lines are Expanded with the origin of each line, and removed fields.
	Lines []originreport.Line `json:"lines"`
	// Legend counts the fields of each origin.
	Legend []originreport.Entry `json:"legend"`
	// Expanded is the output of `virtwright expand`; empty if presets cannot be applied.
	Expanded string `json:"expanded"`
	// Sparse is the output of `virtwright sparsify -o yaml` if it was asked for; empty if the VM is
	// rejected. Stay is the number of its fields besides the name.
	Sparse  string   `json:"sparse"`
	Stay    int      `json:"stay"`
	Presets []Preset `json:"presets"`
	// Domain is the output of `virtwright render`; empty if the VM is rejected.
	Domain   string   `json:"domain"`
	Warnings []string `json:"warnings"`
}

// Preset reports whether and why a preset matched a VM.
type Preset struct {
	Preset    string `json:"preset"`
	Namespace string `json:"namespace,omitempty"`
	Mode      string `json:"mode"`
	Matched   bool   `json:"matched"`
	Reason    string `json:"reason"`
	// In and Line are the place of its name, as in Problem.
	In   string `json:"in"`
	Line int    `json:"line"`
}

// Problem is an error or a warning at a line of an input text.
type Problem struct {
	// In is vm or presets.
	In string `json:"in"`
	// Line and Column are counted from 1.
	Line   int `json:"line"`
	Column int `json:"column"`
	// Severity is error or warning.
	Severity string `json:"severity"`
	Field    string `json:"field,omitempty"`
	Message  string `json:"message"`
}

// Evaluator evaluates inputs. It keeps compiled presets for the next input. The zero value is ready
// to use, by one caller at a time.
type Evaluator struct{ memory simulate.Memory }

type evaluation struct {
	Output
	memory *simulate.Memory
	// more counts the problems that are not shown.
	more  int
	texts map[string]*manifest.Text
	// presets are their positions.
	presets map[presets.PresetName]manifest.Position
}

// Evaluate expands, explains, validates and renders the VMs of the input, with the default settings
// of the command line. A broken document does not hide the results of others. Evaluate does not
// panic.
func (of *Evaluator) Evaluate(ctx context.Context, in Input) Output {
	e := &evaluation{Output: Output{VMs: []VM{}, Problems: []Problem{}, Tests: []Test{}, Notes: []string{}, Sparse: in.Sparse}, memory: &of.memory, texts: map[string]*manifest.Text{}}
	if e.fits(in) {
		e.guarded(inVM, func() { e.run(ctx, in) })
	}
	slices.SortStableFunc(e.Problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(b.In, a.In), a.Line-b.Line)
	})
	if e.more > 0 {
		e.Notes = append(e.Notes, fmt.Sprintf("%d more problems are not shown", e.more))
	}
	return e.Output
}

// guarded reports a panic as a problem, so that a bug does not end the page.
func (e *evaluation) guarded(in string, do func()) {
	defer func() {
		if reason := recover(); reason != nil {
			e.add(Problem{In: in, Line: 1, Column: 1, Message: fmt.Sprintf("virtwright has a bug, please report it: %v", reason)}, false)
		}
	}()
	do()
}

func (e *evaluation) add(p Problem, warning bool) {
	if e.isFull(p.In) {
		e.more++
		return
	}
	p.Severity = "error"
	if warning {
		p.Severity = "warning"
	}
	e.Problems = append(e.Problems, p)
}

// isFull reports whether a text has as many problems as are shown, so that the problems of one text
// do not hide those of the other.
func (e *evaluation) isFull(in string) bool {
	shown := 0
	for i := range e.Problems {
		if e.Problems[i].In == in {
			shown++
		}
	}
	return shown == maxShown
}

func (e *evaluation) fits(in Input) bool {
	for name, text := range map[string]string{inVM: in.VM, inPresets: in.Presets} {
		if len(text) > maxText {
			e.add(Problem{In: name, Line: 1, Column: 1, Message: fmt.Sprintf("Too long: may not be more than %d bytes", maxText)}, false)
		}
	}
	if in.Mode != "" && in.Mode != standalone && in.Mode != addon {
		e.add(Problem{In: inVM, Line: 1, Column: 1, Message: fmt.Sprintf("mode: Unsupported value: %q: supported values: %q, %q", in.Mode, standalone, addon)}, false)
	}
	return len(e.Problems) == 0
}

func (e *evaluation) run(ctx context.Context, in Input) {
	objects := append(e.read(inPresets, in.Presets), e.read(inVM, in.VM)...)
	c, issues := simulate.Open(ctx, objects, e.settings(in.Mode))
	e.report(issues)
	e.ignored(c, objects)
	e.presets = simulate.PresetPositions(objects, "default")
	vms := c.VMs[:min(len(c.VMs), maxVMs)]
	if e.More = len(c.VMs) - len(vms); e.More > 0 {
		e.Notes = append(e.Notes, fmt.Sprintf("only the first %d of %d VMs are read", maxVMs, len(c.VMs)))
	}
	for _, m := range vms {
		e.guarded(m.Where.File, func() { e.inspect(ctx, c, m) })
	}
	if at := min(in.Sparse, len(vms)) - 1; at >= 0 && len(e.VMs) == len(vms) {
		e.guarded(inVM, func() { e.sparsify(ctx, c, vms[at], &e.VMs[at]) })
	}
	for _, text := range slices.Concat(c.Notes, c.Unlabelled(nil), c.Missing()) {
		e.Notes = append(e.Notes, withoutFlags.Replace(text))
	}
	e.guarded(inPresets, func() { e.test(ctx, objects, in.Mode) })
}

// ignored reports objects of kinds that are ignored: as a note, or as a warning if they stand where
// a VM is expected.
func (e *evaluation) ignored(c *simulate.Cluster, objects []manifest.Object) {
	for _, l := range c.Left {
		if l.File != inVM || len(c.VMs) > 0 {
			e.Notes = append(e.Notes, l.String())
			continue
		}
		first := slices.IndexFunc(objects, func(o manifest.Object) bool {
			return o.Where.File == l.File && o.APIVersion == l.APIVersion && o.Kind == l.Kind
		})
		e.report([]simulate.Issue{{Where: objects[first].Where, Warning: true, Problem: simulate.Problem{
			Field: "kind", Message: fmt.Sprintf("ignored %d of kind %s (%s): paste a VirtualMachine or a VirtualMachineInstance", l.Count, l.Kind, l.APIVersion),
		}}})
	}
}

// withoutFlags replaces the flags of the command line in notes.
var withoutFlags = strings.NewReplacer(" to -f, or set --namespace-labels", " to the presets", "no preset in -f; presets of a cluster may", "no preset; presets may")

// settings equal those of the command line without flags.
func (e *evaluation) settings(mode string) simulate.Settings {
	out := simulate.Settings{Engine: &presets.Engine{}, Rules: &validation.Config{Addon: mode == addon, Architecture: "amd64"}, Namespace: "default", Memory: e.memory}
	if mode != addon {
		out.Engine.Platform = &presets.Platform{}
	}
	return out
}

func (e *evaluation) read(name, text string) []manifest.Object {
	e.texts[name] = manifest.NewText(name, []byte(text))
	objects, problems := e.texts[name].Objects()
	for i := range objects {
		e.asNew(&objects[i])
	}
	for _, err := range problems {
		at := simulate.Issue{Where: manifest.Position{File: name}, Problem: simulate.Problem{Message: err.Error()}}
		if document, ok := errors.AsType[*manifest.DocumentError](err); ok {
			at.Where, at.Message = document.Where, document.Message
			if document.Line > 0 {
				e.add(Problem{In: name, Line: document.Line, Column: 1, Message: document.Message}, false)
				continue
			}
		}
		e.report([]simulate.Issue{at})
	}
	return objects
}

// asNew makes a VM that was copied from a cluster a new one.
func (e *evaluation) asNew(o *manifest.Object) {
	if !simulate.IsVM(*o) {
		return
	}
	if copied, err := simulate.AsNew(*o, ""); err == nil { // otherwise it is reported when it is read
		if raw, err := json.Marshal(copied); err == nil {
			o.JSON = raw
		}
	}
}

// report adds issues at the lines of their fields.
func (e *evaluation) report(issues []simulate.Issue) {
	for _, i := range issues {
		p := Problem{In: cmp.Or(i.Where.File, inVM), Field: i.Field, Message: i.Message}
		if e.isFull(p.In) { // finding lines is slow
			e.more++
			continue
		}
		p.Line, p.Column = e.texts[p.In].Locate(i.Where, i.Field, i.IsUnknownField())
		p.Line, p.Column = max(p.Line, 1), max(p.Column, 1)
		e.add(p, i.Warning)
	}
}

func (e *evaluation) inspect(ctx context.Context, c *simulate.Cluster, m simulate.VM) {
	x := c.Inspect(ctx, m)
	e.report(x.Issues)
	e.Notes = append(e.Notes, x.Notes...)
	out := VM{Kind: string(m.Kind), Namespace: m.Namespace, Name: m.Name, Lines: []originreport.Line{}, Legend: []originreport.Entry{}, Presets: []Preset{}, Warnings: append([]string{}, x.Warnings...)}
	if x.Explanation != nil {
		for _, p := range x.Explanation.Presets {
			at := e.presets[presets.PresetName{Namespace: p.Namespace, Ref: p.Preset}]
			line, _ := e.texts[cmp.Or(at.File, inPresets)].Locate(at, "metadata.name", false)
			out.Presets = append(out.Presets, Preset{p.Preset, p.Namespace, string(p.Mode), p.Matched, p.Reason, at.File, line})
		}
	}
	cannot := func(err error) {
		if err != nil {
			e.report([]simulate.Issue{{Where: m.Where, Problem: simulate.Problem{Message: err.Error()}}})
		}
	}
	if x.Object != nil {
		text, err := portable.YAML(x.Object)
		cannot(err)
		out.Expanded = string(text)
		if x.Explanation != nil {
			out.Lines = originreport.VM{Kind: m.Kind, Object: x.Object, YAML: out.Expanded, Explanation: x.Explanation, Damaged: x.Explanation.Result == nil && m.Damaged() != nil}.Lines()
			out.Legend = originreport.Legend(out.Lines)
		}
	}
	if x.Plan != nil {
		text, err := domain.Render(&x.Plan.Host.Domain)
		cannot(err)
		out.Domain = text
		for _, d := range x.Plan.Host.Decisions {
			if d.Degraded {
				out.Warnings = append(out.Warnings, d.String())
			}
		}
	}
	e.VMs = append(e.VMs, out)
}

// sparsify adds the sparse manifest, unless the VM is rejected, which its problems say.
func (e *evaluation) sparsify(ctx context.Context, c *simulate.Cluster, m simulate.VM, to *VM) {
	out, err := c.Sparsify(ctx, m)
	var text []byte
	if err == nil {
		text, err = portable.YAML(out.Object)
	}
	if _, isRejected := errors.AsType[*simulate.Rejection](err); isRejected {
		return
	}
	if err != nil {
		e.Notes = append(e.Notes, err.Error())
		return
	}
	to.Sparse, to.Stay = string(text), len(out.Kept)
}
