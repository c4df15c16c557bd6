package presets

import (
	"maps"
	"slices"

	"github.com/virtwright/virtwright/presets/provenance"
)

// setAt sets p in w, making what is missing on the way. The fields that tell a
// missing element apart come from the same element of like. Where something on the way
// is no container, nothing is set.
func (w *resolution) setAt(p provenance.Path, value any, like map[string]any) {
	obj, s := w.root, vmSchema()
	for i := 0; i < len(p)-1; i++ {
		step := s.step(p[i])
		if step == nil {
			return
		}
		switch step.shape {
		case shapeKeyed:
			element, ok := elementIn(obj, p[:i+2], step, like)
			if !ok {
				return
			}
			i++
			obj, s = element, step.elem
			if i == len(p)-1 {
				return // the element itself, made with its keys
			}
		default:
			sub, ok := obj[p[i].Name].(map[string]any)
			if !ok {
				if obj[p[i].Name] != nil {
					return
				}
				sub = map[string]any{}
				obj[p[i].Name] = sub
			}
			obj, s = sub, step
		}
	}
	obj[p[len(p)-1].Name] = value
}

// elementIn finds or makes the element at p, whose list lies in obj.
func elementIn(obj map[string]any, p provenance.Path, list *schema, like map[string]any) (map[string]any, bool) {
	name := p[len(p)-2].Name
	elements, ok := obj[name].([]any)
	if !ok && obj[name] != nil {
		return nil, false
	}
	if i := indexOf(elements, list.keys, p[len(p)-1].Name); i >= 0 {
		element, ok := elements[i].(map[string]any)
		return element, ok
	}
	model, _ := lookup(like, vmSchema(), p).(map[string]any)
	element := map[string]any{}
	for _, k := range list.keys {
		copyDotted(element, model, k.field)
	}
	obj[name] = append(slices.Clip(elements), element)
	return element, true
}

// unshare copies the containers that p leads through, so that a change there changes no
// object that w shares them with.
func (w *resolution) unshare(p provenance.Path) {
	w.root = maps.Clone(w.root)
	s := vmSchema()
	var holder any = w.root
	for _, seg := range p[:len(p)-1] {
		switch at := holder.(type) {
		case map[string]any:
			if at[seg.Name] == nil {
				return
			}
			at[seg.Name] = cloneContainer(at[seg.Name])
			holder = at[seg.Name]
		case []any:
			i := indexOf(at, s.keys, seg.Name)
			if i < 0 {
				return
			}
			at[i] = cloneContainer(at[i])
			holder = at[i]
		}
		if s = s.step(seg); s == nil || holder == nil {
			return
		}
	}
}

func cloneContainer(v any) any {
	switch v := v.(type) {
	case map[string]any:
		return maps.Clone(v)
	case []any:
		return slices.Clone(v)
	}
	return v
}

// unset takes away what lies at p.
func (w *resolution) unset(p provenance.Path) {
	last := p[len(p)-1]
	switch at := lookup(w.root, vmSchema(), p[:len(p)-1]).(type) {
	case map[string]any:
		delete(at, last.Name)
	case []any:
		parent, _ := lookup(w.root, vmSchema(), p[:len(p)-2]).(map[string]any)
		name := p[len(p)-2].Name
		list := vmSchema().at(p[:len(p)-1])
		if list == nil || parent == nil {
			return
		}
		i := indexOf(at, list.keys, last.Name)
		if i < 0 {
			return
		}
		parent[name] = slices.Delete(at, i, i+1)
	}
}
