package presets

import (
	"errors"
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/presets/tree"
	"github.com/virtwright/virtwright/presets/vmschema"
)

// decode parses a JSON object. Integers stay integers.
func decode(what string, raw []byte) (map[string]any, error) {
	var out map[string]any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &out); err != nil {
		return nil, &Malformed{What: what, Err: err}
	}
	if out == nil {
		return nil, &Malformed{What: what, Err: errors.New("must be a JSON object, not null")}
	}
	return out, nil
}

func load(kind Kind, raw []byte) (*mergeState, error) {
	return loadDecoded(kind, raw, nil)
}

// loadDecoded is load for raw that is already decoded, unless obj is nil.
func loadDecoded(kind Kind, raw []byte, obj map[string]any) (*mergeState, error) {
	if obj == nil {
		var err error
		if obj, err = decode("object", raw); err != nil {
			return nil, err
		}
	}
	r, err := newMergeState(kind, obj)
	if err != nil {
		return nil, err
	}
	if tree.MayHaveHugeQuantity(raw) {
		if problems := vmschema.VM().HugeQuantities(r.root, ""); len(problems) > 0 {
			return nil, r.rejection(problems)
		}
	}
	var sent provenance.Path
	if r.sentVMI != nil {
		sent = vmschema.Template
	}
	r.decimalOps = decimalsToStrings(vmschema.Value(r.root, sent), vmschema.VM().At(sent))
	return r, nil
}

func newMergeState(kind Kind, obj map[string]any) (*mergeState, error) {
	r := &mergeState{root: obj, record: provenance.New()}
	if kind == VirtualMachineInstance {
		r.sentVMI, r.root = obj, wrap(obj)
	}
	if problems := checkRequiredParents(r.root); len(problems) > 0 {
		return nil, r.rejection(problems)
	}
	return r, nil
}

// wrap returns the VM form of a VMI: a VM of the same name with the VMI as its template.
func wrap(instance map[string]any) map[string]any {
	template, identity := map[string]any{}, map[string]any{}
	copyFields(template, instance, "metadata", "spec")
	copyFields(identity, tree.AsObject(instance["metadata"]), "name", "generateName", "namespace")
	return map[string]any{
		"apiVersion": instance["apiVersion"], "kind": string(VirtualMachine),
		"metadata": identity, "spec": map[string]any{"template": template},
	}
}

func (r *mergeState) unwrap() map[string]any {
	if r.sentVMI == nil {
		return r.root
	}
	out := maps.Clone(r.sentVMI)
	copyFields(out, tree.AsObject(vmschema.Value(r.root, vmschema.Template)), "metadata", "spec")
	return out
}

func copyFields(to, from map[string]any, names ...string) {
	for _, name := range names {
		if from[name] != nil {
			to[name] = from[name]
		}
	}
}

// requiredParentPaths are the objects that the engine expects to be objects.
var requiredParentPaths = []provenance.Path{
	provenance.Of("metadata"), vmLabels, vmAnnotations, provenance.Of("spec"),
	vmschema.Template, vmschema.TemplateMetadata, vmschema.TemplateLabels, vmschema.TemplateAnnotations,
	vmschema.TemplateSpec, vmschema.TemplateSpec.Field("domain"), vmschema.TemplateSpec.Field("domain").Field("devices"),
}

// checkRequiredParents reports wrong types here because the API server validates the schema only
// after mutation.
func checkRequiredParents(root map[string]any) field.ErrorList {
	var errs field.ErrorList
	for _, p := range requiredParentPaths {
		if v := vmschema.Value(root, p); v != nil && !tree.IsObject(v) {
			errs = append(errs, field.TypeInvalid(field.NewPath(p.String()), v, "must be an object"))
		}
	}
	return errs
}

// withRequiredParents adds the objects that every VM has, so that a condition may use
// has(object.spec.template.spec.domain.devices.tpm) on any VM. It shares existing objects.
func withRequiredParents(root map[string]any) map[string]any {
	out, _ := withField(root, []string{"spec", "template", "spec", "domain", "devices"})
	return out
}

// withField returns obj with an object at names, and whether that required a copy.
func withField(obj map[string]any, names []string) (map[string]any, bool) {
	if len(names) == 0 {
		if obj == nil {
			return map[string]any{}, true
		}
		return obj, false
	}
	filled, changed := withField(tree.AsObject(obj[names[0]]), names[1:])
	if !changed {
		return obj, false
	}
	out := make(map[string]any, len(obj)+1)
	maps.Copy(out, obj)
	out[names[0]] = filled
	return out, true
}

// rejection converts paths in VM form to paths of the object that was sent.
func (r *mergeState) rejection(problems field.ErrorList) *Rejection {
	if r.sentVMI != nil {
		for _, e := range problems {
			rest := strings.TrimPrefix(e.Field, "spec.template.")
			if strings.HasPrefix(rest, "spec") || strings.HasPrefix(rest, "metadata") {
				e.Field = rest
			}
		}
	}
	return &Rejection{Problems: problems}
}
