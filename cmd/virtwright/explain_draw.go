package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/virtwright/virtwright/cmd/virtwright/internal/annotated"
	"github.com/virtwright/virtwright/cmd/virtwright/internal/offline"
)

// explanations prints explanations as tables, JSON, a page or a picture.
type explanations struct {
	printer
	// all also lists presets that did not match in tables.
	all      bool
	sections []annotated.Section
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
	draw := map[string]func(io.Writer, []annotated.Section) error{
		"html": annotated.WriteHTML, "svg": annotated.WriteSVG, "yaml": writeAnnotatedYAML,
	}[p.output]
	if err := draw(p.out, p.sections); err != nil {
		return fmt.Errorf("cannot print the explanations: %w", err)
	}
	return nil
}

// addSection adds a VM, as virtwright expand prints it.
func (p *explanations) addSection(m offline.VM, section annotated.Section) error {
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
func (p *explanations) addRejected(m offline.VM, err error) error {
	if p.output == "html" {
		p.sections = append(p.sections, annotated.Section{Title: m.String(), Where: m.Where.String(), Problems: reasonsOf(err)})
	}
	return err
}

// reasonsOf returns the problems of a rejection.
func reasonsOf(err error) []string {
	if err == nil {
		return nil
	}
	rejection, ok := errors.AsType[*offline.Rejection](err)
	if !ok {
		return []string{err.Error()}
	}
	var out []string
	for _, problem := range rejection.Problems {
		out = append(out, problem.String())
	}
	return out
}

func outdatedRows(changes []offline.Change) []annotated.Outdated {
	var out []annotated.Outdated
	for _, o := range changes {
		out = append(out, annotated.Outdated{Path: o.Path, Stored: orNone(o.Stored), Reapplied: orNone(o.Reapplied), By: o.By()})
	}
	return out
}
