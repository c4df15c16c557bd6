package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/fleet"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/simulate"
)

const (
	namedVMs     = 5
	namedObjects = 20
	namedEdits   = 12
	shownValue   = 60
)

type planPrinter struct {
	streams
	output  string
	diffs   []vmDiff
	secrets map[any]int
	// proposed is printed by the output rollout.
	proposed *simulate.ProposedRollout
}

type vmDiff struct{ vm, text string }

func (p *planPrinter) visit(c simulate.Compared) {
	if p.output != "diff" || c.Before == nil || c.After == nil {
		return
	}
	name := c.Namespace + "/" + c.Name
	before, after := p.withoutRecord(c.Before), p.withoutRecord(c.After)
	text, err := unified([]byte(before), []byte(after), name+" (now)", name+" (with the new presets)")
	if err == nil && text != "" {
		p.diffs = append(p.diffs, vmDiff{name, hiddenValue.ReplaceAllString(text, "(hidden)")})
	}
}

// hiddenValue replaces a secret while lines are compared.
var hiddenValue = regexp.MustCompile(`\(hidden\)#\d+`)

// hide replaces secrets beneath a path. Equal secrets get equal texts.
func (p *planPrinter) hide(path string, v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name := range v {
			v[name] = p.hide(path+"."+name, v[name])
		}
	case []any:
		for i := range v {
			v[i] = p.hide(path, v[i])
		}
	default:
		if !presets.MayHoldSecret(path) {
			return v
		}
		if p.secrets == nil {
			p.secrets = map[any]int{}
		}
		if _, known := p.secrets[v]; !known {
			p.secrets[v] = len(p.secrets)
		}
		return fmt.Sprint("(hidden)#", p.secrets[v])
	}
	return v
}

func (p *planPrinter) withoutRecord(raw []byte) string {
	var object map[string]any
	if json.Unmarshal(raw, &object) != nil {
		return ""
	}
	delete(object, "status")
	p.hide("", object)
	if metadata, ok := object["metadata"].(map[string]any); ok {
		for _, name := range []string{"managedFields", "resourceVersion", "generation", "uid", "creationTimestamp"} {
			delete(metadata, name)
		}
		if annotations, ok := metadata["annotations"].(map[string]any); ok {
			delete(annotations, v1alpha1.AnnotationProvenance)
			delete(annotations, v1alpha1.AnnotationReapply)
			if len(annotations) == 0 {
				delete(metadata, "annotations")
			}
		}
	}
	text, err := yamlOf(object)
	if err != nil {
		return ""
	}
	return string(text)
}

func (p *planPrinter) print(plan *fleet.Plan) error {
	switch p.output {
	case "rollout":
		return printProposedRollout(p.streams, p.proposed)
	case "json":
		return printJSON(p.out, newPlanned(plan))
	case "markdown":
		_, err := fmt.Fprint(p.out, markdown(plan))
		return err
	}
	var text strings.Builder
	planText(&text, styleOf(p.out), plan)
	slices.SortFunc(p.diffs, func(a, b vmDiff) int { return cmp.Compare(a.vm, b.vm) })
	for _, d := range p.diffs {
		text.WriteString("\n" + styleOf(p.out).difference(d.text))
	}
	_, err := fmt.Fprint(p.out, text.String())
	return err
}

type planned struct {
	*fleet.Plan
	Conflicts []plannedFinding `json:"conflicts"`
	Solved    []plannedFinding `json:"solved"`
}

type plannedFinding struct {
	ID        string `json:"id"`
	Namespace string `json:"namespace,omitempty"`
	Preset    string `json:"preset"`
	Other     string `json:"other"`
	Message   string `json:"message"`
}

func newPlanned(plan *fleet.Plan) planned {
	plan.Admitted = orEmpty(plan.Admitted)
	convert := func(found []fleet.Finding) []plannedFinding {
		out := make([]plannedFinding, 0, len(found))
		for _, f := range found {
			out = append(out, plannedFinding{f.ID, f.Preset.Namespace, f.Preset.Ref, f.Other.Ref, f.Message})
		}
		return out
	}
	return planned{plan, convert(plan.Conflicts), convert(plan.Solved)}
}
