package presets

import (
	"fmt"
	"maps"
	"math/rand"
	"slices"
	"strings"

	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/presets/vmschema"
)

// A generator creates random partial VMs from the schema, with few names and values, so that they
// collide.
type generator struct {
	*rand.Rand
	// sparseness is the chance in 100 that an optional field is left out.
	sparseness int
	// computes makes one scalar in four a CEL expression, of those that mayFail too.
	computes, mayFail bool
	// forEvery adds an element for every element to half of the lists.
	forEvery bool
}

var (
	names      = []string{"a", "b", "root"}
	words      = []string{"x", "y", "virtio"}
	quantities = []any{"1Gi", "1024Mi", "2Gi", "1000m", "1", int64(1), int64(2)}
)

func pick[T any](g generator, from []T) T { return from[g.Intn(len(from))] }

func (g generator) vm() map[string]any {
	out := map[string]any{}
	if meta := g.metadata(); len(meta) > 0 {
		out["metadata"] = meta
	}
	if g.Intn(8) > 0 {
		spec, _ := g.value(vmschema.VM().Fields["spec"], provenance.Of("spec")).(map[string]any)
		delete(spec, "instancetype")
		delete(spec, "preference")
		out["spec"] = spec
	}
	return out
}

func (g generator) metadata() map[string]any {
	meta := map[string]any{}
	for _, name := range []string{"labels", "annotations"} {
		if g.Intn(3) == 0 {
			meta[name] = map[string]any{pick(g, names): pick(g, words), "example.com/" + pick(g, names): pick(g, words)}
		}
	}
	return meta
}

// busy are objects that are always present.
var busy = []string{"spec", "template", "domain", "devices", "disks", "volumes", "interfaces", "networks", "cpu", "memory"}

func (g generator) value(s *vmschema.Schema, p provenance.Path) any {
	switch s.Shape {
	case vmschema.Object:
		if len(p) > 1 && p[len(p)-1].Name == "metadata" {
			return g.metadata()
		}
		return g.object(s, p)
	case vmschema.Map:
		return map[string]any{pick(g, names): g.value(s.Elem, p), "example.com/" + pick(g, names): g.value(s.Elem, p)}
	case vmschema.Keyed:
		return g.list(s, p)
	case vmschema.Atomic:
		return []any{g.value(s.Elem, p)}
	}
	return g.scalar(s)
}

func (g generator) object(s *vmschema.Schema, p provenance.Path) map[string]any {
	out := map[string]any{}
	fields := slices.Sorted(maps.Keys(s.Fields))
	g.Shuffle(len(fields), func(i, j int) { fields[i], fields[j] = fields[j], fields[i] })
	for _, name := range fields {
		if name == "status" || slices.ContainsFunc(s.Alternatives[name], func(r string) bool { return out[r] != nil }) {
			continue
		}
		chance := 100 - g.sparseness
		if slices.Contains(busy, name) {
			chance = 85
		}
		if g.Intn(100) < chance {
			out[name] = g.value(s.Fields[name], p.Field(name))
		}
	}
	return out
}

func (g generator) list(s *vmschema.Schema, p provenance.Path) []any {
	var out []any
	for _, i := range g.Perm(len(names))[:1+g.Intn(2)] {
		e, _ := g.value(s.Elem, p.Element(names[i])).(map[string]any)
		for _, k := range s.Keys {
			setDotted(e, k.Field, g.keyValue(s, k.Field, names[i]))
		}
		out = append(out, e)
	}
	if g.forEvery && s.Keys[0].NoStar && g.Intn(2) == 0 {
		if e, _ := g.value(s.Elem, p.With(every)).(map[string]any); len(e) > 1 {
			setDotted(e, s.Keys[0].Field, EveryElement)
			out = append(out, e)
		}
	}
	return out
}

// keyValue is a key that fits the type of its field.
func (g generator) keyValue(s *vmschema.Schema, field, name string) any {
	if g.computes && len(s.Keys) == 1 && s.Elem.At(provenance.Of(strings.Split(field, ".")...)).Shape == vmschema.String && g.Intn(4) == 0 {
		return map[string]any{ComputedKey: "'" + name + "'"}
	}
	p, _ := provenance.ParsePath(field)
	if at := s.Elem.At(p); at != nil && at.Shape == vmschema.Integer {
		return int64(slices.Index(names, name))
	}
	return name
}

func setDotted(to map[string]any, dotted string, value any) {
	p, _ := provenance.ParsePath(dotted)
	for _, seg := range p[:len(p)-1] {
		sub, ok := to[seg.Name].(map[string]any)
		if !ok {
			sub = map[string]any{}
			to[seg.Name] = sub
		}
		to = sub
	}
	to[p[len(p)-1].Name] = value
}

func (g generator) scalar(s *vmschema.Schema) any {
	if g.computes && g.Intn(4) == 0 {
		return map[string]any{ComputedKey: g.expression(s)}
	}
	switch s.Shape {
	case vmschema.String:
		return pick(g, words)
	case vmschema.Bool:
		return g.Intn(2) == 0
	case vmschema.Integer:
		return int64(g.Intn(4))
	case vmschema.Number:
		return float64(g.Intn(4)) + 0.5
	case vmschema.Quantity:
		return pick(g, quantities)
	}
	return pick(g, words)
}

// expression returns an expression of the type of s.
func (g generator) expression(s *vmschema.Schema) string {
	choices := []string{"'x'", "has(object.spec.template.spec.domain.cpu) ? 'x' : 'y'"}
	failing := "object.metadata.labels.a"
	switch s.Shape {
	case vmschema.Bool:
		choices, failing = []string{"true", "has(object.spec.template.spec.volumes)"}, "object.spec.template.spec.domain.cpu.realtime.mask == 'x'"
	case vmschema.Integer, vmschema.Number, vmschema.Quantity:
		choices, failing = []string{"2", "size(object.spec.template)"}, "object.spec.template.spec.domain.cpu.cores + 1"
	}
	if g.mayFail {
		choices = append(choices, failing)
	}
	return pick(g, choices)
}

// presetSpec is a random preset of one scope that compiles.
func (g generator) preset(i int) *Compiled {
	for {
		c := g.tryPreset(i)
		if c != nil {
			return c
		}
	}
}

func (g generator) tryPreset(i int) *Compiled {
	sparse := generator{Rand: g.Rand, sparseness: 97, computes: g.Intn(6) == 0, forEvery: g.Intn(3) == 0}
	spec := map[string]any{"priority": int64(g.Intn(3))}
	kind := g.Intn(6)
	if kind != 0 {
		sparse.mayFail = true
		spec["defaults"] = sparse.vm()
		sparse.mayFail = false
	}
	if kind < 3 {
		spec["overrides"] = sparse.vm()
	}
	if kind == 4 {
		spec["remove"] = []any{"spec.template.spec.domain.devices.disks[a]", "spec.template.spec.domain.cpu.model", "spec.template.spec.domain.devices.rng"}
	}
	if g.Intn(4) == 0 {
		spec["match"] = map[string]any{"labels": map[string]any{"matchLabels": map[string]any{pick(g, names): pick(g, words)}}}
	}
	namespace := ""
	if g.Intn(2) == 0 {
		namespace = "ns"
	}
	return compileSpec(namespace, fmt.Sprintf("p%d", i), spec)
}
