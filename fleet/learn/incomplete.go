package learn

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets/provenance"
)

// mostAttempts limits how often choices are made again.
const mostAttempts = 20

// leave finds the fields that choices for all VMs, or for namespaces, must leave to others: VMs to
// come would be invalid with them alone. It reports true if there are none. A part of an element
// makes a VM invalid that lacks the element, so all of it is left.
func (c *chooser) leave(ctx context.Context, chosen []*choice) (complete bool, err error) {
	if c.Incomplete == nil || len(chosen) == 0 {
		return true, nil
	}
	fields, err := c.incomplete(ctx, chosen)
	if err != nil {
		return false, err
	}
	before := len(c.left)
	for _, is := range slices.DeleteFunc(slices.Clone(chosen), func(is *choice) bool { return !c.selectsAll(is.terms) }) {
		for path := range is.values {
			if c.lacksTemplate(is, path, chosen) {
				fields[is] = append(fields[is], c.paths[path])
			}
		}
		for path := range is.values {
			if slices.ContainsFunc(fields[is], func(p provenance.Path) bool { return c.concerns(p, c.paths[path]) }) {
				c.left[path] = true
			}
		}
	}
	return len(c.left) == before, nil
}

// without returns the choices without the fields that they must leave to others.
func (c *chooser) without(chosen []*choice) []*choice {
	for _, is := range chosen {
		if !c.selectsAll(is.terms) {
			continue
		}
		maps.DeleteFunc(is.values, func(path, _ int) bool { return c.left[path] })
	}
	return slices.DeleteFunc(chosen, func(is *choice) bool { return len(is.values) == 0 })
}

// incomplete returns the fields that require others, of each choice that adds elements to lists.
func (c *chooser) incomplete(ctx context.Context, chosen []*choice) (map[*choice][]provenance.Path, error) {
	names, out := newNamer(nil), map[*choice][]provenance.Path{}
	var adding []*choice
	var of, others []v1alpha1.Preset
	for _, is := range chosen {
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
		i := slices.IndexFunc(p, func(s provenance.Segment) bool { return s.Kind == provenance.Element })
		if i > 0 && !slices.Contains([]string{"disks", "interfaces", "networks", "filesystems"}, p[i-1].Name) {
			return true
		}
	}
	return false
}

// lacksTemplate reports whether a field names a DataVolume that the VMs have from a template of
// their own, and the choice does not give this template: other VMs would wait for it.
func (c *chooser) lacksTemplate(is *choice, path int, chosen []*choice) bool {
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
	return slices.ContainsFunc(c.paths, func(p provenance.Path) bool { return p.HasPrefix(template) }) && !slices.ContainsFunc(chosen, gives)
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
	i := slices.IndexFunc(other, func(s provenance.Segment) bool { return s.Kind == provenance.Element })
	if i < 0 || len(p) <= i {
		return p.Equal(other)
	}
	return p[:i].Equal(other[:i]) && (p[i] == other[i] || p[i].Name == strings.ReplaceAll(other[i].Name, nameMark, c.Example))
}
