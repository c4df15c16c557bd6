package fleet

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/presets/spelling"
)

// unpaired reports elements without a partner in the presets, such as disks without volumes, whose
// names are probably wrong. Others may complete an element of the VM's author.
func (a *analysis) unpaired() {
	for _, m := range a.members {
		alone := a.withoutPartner(m)
		reported := map[*part]bool{}
		for _, p := range alone {
			if reported[p] {
				continue
			}
			lacks := fmt.Sprintf("no preset sets %s %q", singular(p.Partners[0]), elementName(p))
			if near := a.nearPartner(p); near != nil {
				reported[near] = true // one finding for both halves
				a.report(unpairedElement, m, Finding{Field: p.Field, Message: fmt.Sprintf("%s; did you mean %q?", lacks, elementName(near))})
			} else if half := otherHalf(p, alone); half != nil {
				reported[half] = true
				a.report(unpairedElement, m, Finding{Field: p.Field, Message: fmt.Sprintf(
					"%s or %s %q; did you mean one name for both?", lacks, singular(half.Partners[0]), elementName(half))})
			} else if isAddedAlone(p) {
				a.report(selectsNothing, m, Finding{Field: p.Field, Message: fmt.Sprintf("%s: the element is added only to VMs whose author sets it", lacks)})
			}
		}
	}
}

// isAddedAlone reports whether a preset probably wants to add an element that needs a partner. A
// volume gets a disk, VMs often have a network called default, and a default may complete elements.
func isAddedAlone(p *part) bool {
	return p.Role == provenance.Override && singular(listOf(p)) != "volume" && elementName(p) != "default"
}

// withoutPartner returns the names of the preset's elements without a partner in any preset.
func (a *analysis) withoutPartner(m *member) []*part {
	var out []*part
	for _, p := range m.parts {
		hasPartner := func(list provenance.Path) bool {
			return slices.ContainsFunc(a.under[list.Element(elementName(p)).String()], func(c claim) bool { return len(c.Partners) > 0 && (c.acts() || !m.acts()) })
		}
		isKnown := func(o *part) bool { return o.path == p.path }
		if len(p.Partners) > 0 && !slices.ContainsFunc(p.Partners, hasPartner) && !slices.ContainsFunc(out, isKnown) {
			out = append(out, p)
		}
	}
	return out
}

// nearPartner returns the name of an element that could be the partner, if p misspells it.
func (a *analysis) nearPartner(p *part) *part {
	at := map[string]*part{}
	for _, list := range p.Partners {
		for _, c := range a.under[list.String()] {
			if len(c.Partners) > 0 {
				at[elementName(c.part)] = c.part
			}
		}
	}
	near := spelling.Typos(elementName(p), maps.Keys(at))
	if len(near) == 0 {
		return nil
	}
	return at[near[0]]
}

// otherHalf returns the only element of a preset that could be the partner of p, if p is the only
// one for it.
func otherHalf(p *part, alone []*part) *part {
	var same, others []*part
	for _, o := range alone {
		switch {
		case slices.Equal(listOf(o), listOf(p)):
			same = append(same, o)
		case slices.ContainsFunc(p.Partners, func(list provenance.Path) bool { return slices.Equal(list, listOf(o)) }):
			others = append(others, o)
		}
	}
	if len(same) != 1 || len(others) != 1 {
		return nil
	}
	return others[0]
}

// listOf returns the list of the element that p names.
func listOf(p *part) provenance.Path { return p.Path[:len(p.Path)-2] }

func elementName(p *part) string { return p.Path[len(p.Path)-2].Name }

func singular(list provenance.Path) string { return strings.TrimSuffix(list[len(list)-1].Name, "s") }
