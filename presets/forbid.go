package presets

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtwright/virtwright/presets/provenance"
)

// A violation is one thing in an object that a preset forbids.
type violation struct {
	path   provenance.Path
	value  any
	preset *Compiled
	rule   forbid
}

func (v violation) problem() *field.Error {
	message := v.rule.message
	if message == "" {
		message = "must not be set"
	}
	return field.Forbidden(field.NewPath(v.path.String()), fmt.Sprintf("%s (preset %s)", message, v.preset.Ref))
}

// forbidden checks the forbid rules of presets on the result.
func (w *resolution) forbidden(presets []*Compiled) field.ErrorList {
	var errs field.ErrorList
	for _, v := range w.violations(presets) {
		errs = append(errs, v.problem())
	}
	return errs
}

func (w *resolution) violations(presets []*Compiled) []violation {
	var out []violation
	for _, c := range presets {
		for _, f := range c.forbids {
			if w.instance != nil && ownerOf(f.path)&beyondTemplate != 0 {
				continue
			}
			expand(w.root, vmSchema(), f.path, nil, func(p provenance.Path, value any) {
				out = append(out, violation{path: p, value: value, preset: c, rule: f})
			})
		}
	}
	return out
}

// expand calls visit for each thing at pattern in v. Empty lists count as nothing.
func expand(v any, s *schema, pattern, at provenance.Path, visit func(provenance.Path, any)) {
	if list, ok := v.([]any); v == nil || ok && len(list) == 0 || s == nil {
		return
	}
	if len(pattern) == 0 {
		visit(at, v)
		return
	}
	seg := pattern[0]
	switch value := v.(type) {
	case map[string]any:
		expand(value[seg.Name], s.step(seg), pattern[1:], at.With(seg), visit)
	case []any:
		expandElements(value, s, pattern, func(key string, fields map[string]any) {
			expand(fields, s.elem, pattern[1:], at.With(provenance.Segment{Name: key, Kind: provenance.Element}), visit)
		})
	}
}

// expandElements calls visit for each element that the head of pattern names.
func expandElements(list []any, s *schema, pattern provenance.Path, visit func(string, map[string]any)) {
	for _, e := range list {
		fields, _ := e.(map[string]any)
		key, missing := elementKey(s.keys, fields)
		if missing == "" && (pattern[0].Kind == provenance.Every || pattern[0].Name == key) {
			visit(key, fields)
		}
	}
}
