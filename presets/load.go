package presets

import (
	"errors"
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"github.com/virtwright/virtwright/presets/provenance"
)

// decode reads a JSON object. Whole numbers stay whole.
func decode(what string, raw []byte) (map[string]any, error) {
	var out map[string]any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &out); err != nil {
		return nil, &Malformed{What: what, Err: err}
	}
	if out == nil {
		return nil, &Malformed{What: what, Err: errors.New("want a JSON object, not null")}
	}
	return out, nil
}

// load decodes an object into VM form.
func load(kind Kind, raw []byte) (*resolution, error) {
	obj, err := decode("object", raw)
	if err != nil {
		return nil, err
	}
	w, err := newResolution(kind, obj)
	if err == nil && suspicious(raw) {
		if problems := hugeQuantities(w.root, vmSchema(), ""); len(problems) > 0 {
			return nil, w.refusal(problems)
		}
	}
	if err == nil {
		w.decimals()
	}
	return w, err
}

func newResolution(kind Kind, obj map[string]any) (*resolution, error) {
	w := &resolution{root: obj, rec: provenance.New()}
	if kind == VirtualMachineInstance {
		w.instance, w.root = obj, wrap(obj)
	}
	if problems := checkSpine(w.root); len(problems) > 0 {
		return nil, w.refusal(problems)
	}
	return w, nil
}

// wrap puts an instance into VM form. Its identity is the VM's as well.
func wrap(instance map[string]any) map[string]any {
	template := map[string]any{}
	identity := map[string]any{}
	for _, name := range []string{"metadata", "spec"} {
		if v, ok := instance[name]; ok {
			template[name] = v
		}
	}
	if fields, ok := instance["metadata"].(map[string]any); ok {
		for _, name := range []string{"name", "generateName", "namespace"} {
			if v, ok := fields[name]; ok {
				identity[name] = v
			}
		}
	}
	return map[string]any{
		"apiVersion": instance["apiVersion"], "kind": string(VirtualMachine),
		"metadata": identity, "spec": map[string]any{"template": template},
	}
}

// unwrap is the inverse of wrap for w as it is now.
func (w *resolution) unwrap() map[string]any {
	if w.instance == nil {
		return w.root
	}
	out := make(map[string]any, len(w.instance)+1)
	maps.Copy(out, w.instance)
	template, _ := lookup(w.root, vmSchema(), provenance.Of("spec", "template")).(map[string]any)
	for _, name := range []string{"metadata", "spec"} {
		if v, ok := template[name]; ok {
			out[name] = v
		}
	}
	return out
}

// spinePaths are the objects that every part of the engine descends through.
var spinePaths = []provenance.Path{
	provenance.Of("metadata"), provenance.Of("metadata", "labels"), provenance.Of("metadata", "annotations"),
	provenance.Of("spec"), provenance.Of("spec", "template"),
	provenance.Of("spec", "template", "metadata"), provenance.Of("spec", "template", "metadata", "labels"),
	provenance.Of("spec", "template", "metadata", "annotations"),
	provenance.Of("spec", "template", "spec"), provenance.Of("spec", "template", "spec", "domain"),
	provenance.Of("spec", "template", "spec", "domain", "devices"),
}

// checkSpine refuses an object whose very shape is wrong, which the API
// server's schema would find out only after mutation.
func checkSpine(root map[string]any) field.ErrorList {
	var errs field.ErrorList
	for _, p := range spinePaths {
		v := any(root)
		for _, seg := range p {
			fields, ok := v.(map[string]any)
			if !ok {
				v = nil
				break
			}
			v = fields[seg.Name]
		}
		if _, ok := v.(map[string]any); v != nil && !ok {
			errs = append(errs, field.TypeInvalid(field.NewPath(p.String()), v, "must be an object"))
		}
	}
	return errs
}

// withSpine is root with the objects that every VM has, so that a condition
// may say has(object.spec.template.spec.domain.devices.tpm) of a VM that has
// not even a spec. It shares what is there.
func withSpine(root map[string]any) map[string]any {
	out, _ := withField(root, []string{"spec", "template", "spec", "domain", "devices"})
	return out
}

// withField returns obj with an object at names, and whether that took a copy.
func withField(obj map[string]any, names []string) (map[string]any, bool) {
	if len(names) == 0 {
		if obj == nil {
			return map[string]any{}, true
		}
		return obj, false
	}
	sub, _ := obj[names[0]].(map[string]any)
	filled, changed := withField(sub, names[1:])
	if !changed {
		return obj, false
	}
	out := make(map[string]any, len(obj)+1)
	maps.Copy(out, obj)
	out[names[0]] = filled
	return out, true
}

// refusal turns paths in VM form into paths of the object that was sent.
func (w *resolution) refusal(problems field.ErrorList) *Refusal {
	if w.instance != nil {
		for _, e := range problems {
			for _, part := range []string{"spec", "metadata"} {
				if rest, ok := strings.CutPrefix(e.Field, "spec.template."+part); ok {
					e.Field = part + rest
					break
				}
			}
		}
	}
	return &Refusal{Problems: problems}
}
