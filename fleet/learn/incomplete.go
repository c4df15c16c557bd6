package learn

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets/provenance"
)

// mostAttempts limits how often other choices are looked for instead.
const mostAttempts = 20

// leave drops the fields that choices for all VMs, or for namespaces, must leave to others: VMs to
// come would be invalid with them alone. It reports whether there are any. A part of an element
// makes a VM invalid that lacks the element, so all of it is left.
func (c *chooser) leave(ctx context.Context) (left bool, err error) {
	if c.Incomplete == nil {
		return false, nil
	}
	fields, err := c.incomplete(ctx)
	if err != nil {
		return false, err
	}
	for is, fields := range fields {
		c.mark(is, fields)
	}
	for is := range fields {
		for _, path := range slices.Sorted(maps.Keys(is.values)) {
			if c.withheld[path] {
				c.drop(is, path)
				left = true
			}
		}
	}
	return left, nil
}

// withheldTexts returns the fields that choices for all VMs do not give, as text.
func (f *fleet) withheldTexts() (out []string) {
	for path := range f.withheld {
		out = append(out, f.paths[path].String())
	}
	return out
}

// mark marks the fields of a choice that belong to incomplete elements.
func (c *chooser) mark(is *choice, fields []provenance.Path) {
	for path := range is.values {
		if c.lacksTemplate(is, path) {
			fields = append(fields, c.paths[path])
		}
	}
	for path := range is.values {
		if slices.ContainsFunc(fields, func(p provenance.Path) bool { return c.concerns(p, c.paths[path]) }) {
			c.withheld[path] = true
		}
	}
}

// incomplete returns, of each choice for all VMs or for namespaces that adds elements to lists, the
// fields that require others.
func (c *chooser) incomplete(ctx context.Context) (map[*choice][]provenance.Path, error) {
	names, out := newNamer(nil), map[*choice][]provenance.Path{}
	var adding []*choice
	var of, others []v1alpha1.Preset
	for _, is := range c.order {
		if len(is.values) == 0 {
			continue
		}
		preset, err := c.build(is, names.name(c.terms(is)))
		switch {
		case err != nil:
			return nil, err
		case c.selectsAll(is.terms) && c.addsElements(is):
			adding, of = append(adding, is), append(of, preset.Object)
		default:
			others = append(others, preset.Object)
		}
	}
	if len(of) == 0 {
		return out, nil
	}
	fields, err := c.Incomplete(ctx, of, others)
	for i, is := range adding {
		if err == nil {
			out[is] = fields[i]
		}
	}
	return out, err
}

// selectsAll reports whether a selector reads nothing that authors of VMs write.
func (c *chooser) selectsAll(terms []int) bool {
	return !slices.ContainsFunc(terms, func(i int) bool { return c.features[i].kind != namespace && c.features[i].kind != namespaceLabel })
}

// addsElements reports whether a choice gives elements that need no partner, unlike disks.
func (c *chooser) addsElements(is *choice) bool {
	for path := range is.values {
		p := c.paths[path]
		i := p.ElementIndex()
		if i > 0 && !slices.Contains([]string{"disks", "interfaces", "networks", "filesystems"}, p[i-1].Name) {
			return true
		}
	}
	return false
}

// lacksTemplate reports whether a field names a DataVolume that the VMs have from a template of
// their own, and the choice does not give this template: other VMs would wait for it.
func (c *chooser) lacksTemplate(is *choice, path int) bool {
	name, isText := c.values[is.values[path]].(string)
	if !isText || !isNameOfDataVolume(c.paths[path]) {
		return false
	}
	template := templates.Element(name)
	gives := func(o *choice) bool {
		for path := range o.values {
			if c.paths[path].HasPrefix(template) {
				return !slices.ContainsFunc(o.terms, func(term int) bool { return !slices.Contains(is.terms, term) })
			}
		}
		return false
	}
	return slices.ContainsFunc(c.paths, func(p provenance.Path) bool { return p.HasPrefix(template) }) && !slices.ContainsFunc(c.order, gives)
}

func isNameOfDataVolume(p provenance.Path) bool {
	n := len(volumes) + 1
	return p.HasPrefix(volumes) && len(p) > n && p[n:].Equal(provenance.Of("dataVolume", "name"))
}

var (
	volumes   = provenance.Of("spec", "template", "spec", "volumes")
	templates = provenance.Of("spec", "dataVolumeTemplates")
)

// concerns reports whether a field of a VM is another one, or in the same element of a list.
func (c *chooser) concerns(p, other provenance.Path) bool {
	i := other.ElementIndex()
	if i < 0 || len(p) <= i {
		return p.Equal(other)
	}
	return p[:i].Equal(other[:i]) && (p[i] == other[i] || p[i].Name == strings.ReplaceAll(other[i].Name, nameMark, c.Example))
}
