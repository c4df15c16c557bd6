package presets

import (
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtwright/virtwright/presets/provenance"
)

// NameOrigins adds to problems of an object, which is decoded JSON, the presets that set the
// fields that the problems name.
func NameOrigins(kind Kind, object map[string]any, problems field.ErrorList) field.ErrorList {
	w, err := newResolution(kind, object)
	if err != nil {
		return problems
	}
	if w.rec, err = provenance.Decode(w.storedProvenance()); err != nil {
		return problems
	}
	out := slices.Clone(problems)
	for i, e := range out {
		if preset := w.presetOf(w.pathOf(e.Field)); preset != "" && !strings.Contains(e.Detail, "(preset "+preset+")") {
			named := *e
			named.Detail = strings.TrimSpace(named.Detail + " (set by preset " + preset + ")")
			out[i] = &named
		}
	}
	return out
}

// presetOf returns the preset that set all leaves at and beneath p; empty where there is
// none.
func (w *resolution) presetOf(p provenance.Path) string {
	s := vmSchema().at(p)
	v := lookup(w.root, vmSchema(), p)
	if p == nil || s == nil || v == nil {
		return ""
	}
	preset, mixed := "", false
	listLeaves(v, s, p, func(leaf provenance.Path, _ any) {
		by, ok := w.rec.SourceOf(leaf)
		switch {
		case !ok || by.Preset == "" || by.Role == provenance.Platform:
			mixed = true
		case preset == "":
			preset = by.Preset
		case preset != by.Preset:
			mixed = true
		}
	})
	if mixed {
		return ""
	}
	return preset
}

// pathOf is the path, in VM form, of the field that a problem of the object names: list
// elements are named there by their positions. It is nil for what is no field of the object.
func (w *resolution) pathOf(text string) provenance.Path {
	if w.instance != nil {
		text = "spec.template." + text
	}
	var out provenance.Path
	s, v := vmSchema(), any(w.root)
	for text != "" {
		var name string
		name, text = nextName(text)
		seg := provenance.Segment{Name: name}
		if list, ok := v.([]any); ok {
			i, err := strconv.Atoi(name)
			if s.shape != shapeKeyed || err != nil || i < 0 || i >= len(list) {
				return out // the list is one value
			}
			seg = provenance.Segment{Name: keyOf(list[i], s), Kind: provenance.Element}
			v = list[i]
		} else {
			fields, _ := v.(map[string]any)
			v = fields[name]
		}
		if s = s.step(seg); s == nil {
			return nil
		}
		out = append(out, seg)
	}
	return out
}

// nextName splits the first name off a path such as a.b[0].c or a[b.c/d].
func nextName(text string) (name, rest string) {
	if inner, ok := strings.CutPrefix(text, "["); ok {
		name, rest, _ = strings.Cut(inner, "]")
		return name, strings.TrimPrefix(rest, ".")
	}
	i := strings.IndexAny(text, ".[")
	if i < 0 {
		return text, ""
	}
	return text[:i], strings.TrimPrefix(text[i:], ".")
}
