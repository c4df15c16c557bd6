package presets

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/virtwright/virtwright/presets/provenance"
)

// A Part is one thing that a preset does to the VMs that it matches.
type Part struct {
	// Role is Default, Override, Remove or Forbid.
	Role provenance.Role
	// Path in the VM. One of Forbid may have patterns.
	Path provenance.Path
	// Value that the preset gives, as decoded JSON; nil for Remove, Forbid and computed values.
	Value any
	// Field of the preset that says it, such as spec.overrides.spec.running.
	Field string
	// Choices are the one-ofs that the part takes a side in. Two parts contend for a choice if
	// they have an entry in common.
	Choices []string
	// IsKey says that the value is the key of an element, and Computed that it is computed.
	IsKey, Computed bool
}

// Parts lists what the preset does, in the order of its fields: overrides, removals, defaults,
// forbid rules.
func (c *Compiled) Parts() []Part {
	out := partsOf(c.overrides, provenance.Override, "spec.overrides.")
	for i, r := range c.removes {
		out = append(out, Part{Role: provenance.Remove, Path: r.path, Field: fmt.Sprintf("spec.remove[%d]", i)})
	}
	out = append(out, partsOf(c.defaults, c.defaultRole(), "spec.defaults.")...)
	for i, f := range c.forbids {
		out = append(out, Part{Role: provenance.Forbid, Path: f.path, Field: fmt.Sprintf("spec.forbid[%d].path", i)})
	}
	return out
}

func partsOf(root *fieldNode, role provenance.Role, prefix string) []Part {
	var out []Part
	visitLeaves(root, func(leaf *fieldNode) {
		p := Part{Role: role, Path: leaf.at, Field: prefix + leaf.path, IsKey: leaf.isKey, Computed: leaf.computed != nil}
		if !p.Computed {
			p.Value = leaf.value
		}
		eachRival(leaf.at, func(chosen, rival provenance.Path) bool {
			sides := []string{chosen.String(), rival.String()}
			slices.Sort(sides)
			p.Choices = append(p.Choices, strings.Join(sides, "|"))
			return false
		})
		out = append(out, p)
	})
	return out
}

// Selectors returns the label selectors for VMs and for namespaces; nil selects all.
func (c *Compiled) Selectors() (vms, namespaces labels.Selector) { return c.labels, c.namespaces }

// Conditions lists the expressions of the preset's conditions.
func (c *Compiled) Conditions() []string {
	var out []string
	for _, condition := range c.conditions {
		out = append(out, condition.text)
	}
	return out
}
