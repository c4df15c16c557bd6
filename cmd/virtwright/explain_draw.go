package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/virtwright/virtwright/simulate"
	"github.com/virtwright/virtwright/simulate/originreport"
)

// explanations prints explanations as tables, JSON, a page or a picture.
type explanations struct {
	printer
	// all also lists presets that did not match in tables.
	all      bool
	sections []originreport.Section
}

// drawn reports whether the output shows the VMs as YAML.
func (p *explanations) drawn() bool {
	return p.output == "html" || p.output == "svg" || p.output == "yaml"
}

func (p *explanations) write() error {
	switch {
	case p.output == "table":
		return p.tables()
	case !p.drawn():
		return p.print()
	case len(p.sections) == 0:
		return nil
	}
	draw := map[string]func(io.Writer, []originreport.Section) error{
		"html": originreport.WriteHTML, "svg": originreport.WriteSVG, "yaml": writeAnnotatedYAML,
	}[p.output]
	if err := draw(p.out, p.sections); err != nil {
		return fmt.Errorf("cannot print the explanations: %w", err)
	}
	return nil
}

// sparsify adds the sparse manifest of a VM to its section.
func (p *explanations) sparsify(ctx context.Context, c *simulate.Cluster, m simulate.VM, to *originreport.Section) {
	out, err := c.Sparsify(ctx, m)
	if err == nil {
		to.Sparse, err = rendered("yaml", out.Object)
	}
	if err != nil {
		note(p.streams, []string{fmt.Sprintf("there is no sparse manifest: %v", err)})
		return
	}
	to.Stay = len(out.Kept)
}

// addSection adds a VM, as virtwright expand prints it.
func (p *explanations) addSection(m simulate.VM, section originreport.Section) error {
	if section.Object == nil {
		return nil
	}
	text, err := rendered("yaml", section.Object)
	if err != nil {
		return fmt.Errorf("cannot print %s: %w", m, err)
	}
	section.YAML, section.Title, section.Where = text, m.String(), m.Where.String()
	p.sections = append(p.sections, section)
	return nil
}

// addRejected adds a VM that presets reject, which has no origins.
func (p *explanations) addRejected(m simulate.VM, err error) error {
	if p.output == "html" {
		p.sections = append(p.sections, originreport.Section{Title: m.String(), Where: m.Where.String(), Problems: reasonsOf(err)})
	}
	return err
}

// reasonsOf returns the problems of a rejection.
func reasonsOf(err error) []string {
	if err == nil {
		return nil
	}
	rejection, ok := errors.AsType[*simulate.Rejection](err)
	if !ok {
		return []string{err.Error()}
	}
	return problemTexts(rejection.Problems)
}

func outdatedRows(changes []simulate.Change) []originreport.Outdated {
	var out []originreport.Outdated
	for _, o := range changes {
		out = append(out, originreport.Outdated{Path: o.Path, Stored: orNone(o.Stored), Reapplied: orNone(o.Reapplied), By: o.By()})
	}
	return out
}
