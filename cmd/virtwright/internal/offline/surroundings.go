package offline

import (
	"context"
	"slices"
	"strings"

	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/validation/names"
	"github.com/virtwright/virtwright/webhooks"
)

// unnamed reports whether the API server is yet to make up a name.
func unnamed(name string) bool { return name == "" || strings.HasSuffix(name, "*") }

// others are the machines that were judged before, as far as they could be read.
type others struct {
	all []names.Machine
	// asked is the machine that is judged.
	asked *names.Machine
}

var _ webhooks.Names = (*others)(nil)

// Confirm says the same again.
func (o *others) Confirm(_ context.Context, _ *names.Machine, seen names.Surroundings) (names.Surroundings, error) {
	return seen, nil
}

// add takes in the machine that was judged under the name that messages show.
func (o *others) add(name string) {
	if o.asked != nil {
		o.asked.Name = name
		o.all, o.asked = append(o.all, *o.asked), nil
	}
}

// Around is what m may collide with.
func (o *others) Around(_ context.Context, m *names.Machine) (names.Surroundings, error) {
	o.asked = m
	out := names.Surroundings{Disks: map[string][]names.Machine{}, Uses: map[names.Identifier]names.Use{}}
	for i := range o.all {
		other := &o.all[i]
		here := other.Namespace == m.Namespace
		if here && other.Name == m.Name && !unnamed(m.Name) {
			named(&out, other)
			continue // an instance and its VM are one
		}
		for _, disk := range other.DataVolumes {
			if here && disk != "" {
				out.Disks[disk] = append(out.Disks[disk], *other)
			}
		}
		share(out.Uses, m, other)
	}
	for id, use := range out.Uses {
		slices.Sort(use.Here)
		use.Here = slices.Compact(use.Here)
		out.Uses[id] = use
	}
	return out, nil
}

func named(out *names.Surroundings, other *names.Machine) {
	if other.Kind == presets.VirtualMachine {
		out.VM = other
		return
	}
	out.Instance = other
}

// share notes which identifiers of m another machine has too.
func share(uses map[names.Identifier]names.Use, m, other *names.Machine) {
	for _, id := range m.Identifiers {
		same := func(i names.Identifier) bool { return i.What == id.What && i.Value == id.Value }
		if !slices.ContainsFunc(other.Identifiers, same) {
			continue
		}
		use := uses[id]
		if other.Namespace == m.Namespace {
			use.Here = append(use.Here, other.Name)
		} else {
			use.Elsewhere++
		}
		uses[id] = use
	}
}
