package webhooks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/presets/tree"
)

// copies validates objects from which KubeVirt's controllers create VMs and VMIs: pools, replica
// sets, clones and restores. The controller writes the copy, so the webhooks cannot see its author;
// what only the author's rights permit is checked here.
type copies struct {
	Authorizer authorizer
	Engine     *presets.Engine
	Snapshots  presetSource
	Namespaces namespaceGetter
	// Instancetypes may be nil.
	Instancetypes instancetypeGetter
}

// copiedKinds are the controllers that copy the metadata of their template.
var copiedKinds = []schema.GroupKind{
	{Group: "kubevirt.io", Kind: "VirtualMachine"},
	{Group: "kubevirt.io", Kind: "VirtualMachineInstanceReplicaSet"},
	{Group: "pool.kubevirt.io", Kind: "VirtualMachinePool"},
}

// isCopy reports whether an object is controlled by one of copiedKinds, so that the presets that it
// names were checked on its owner.
func isCopy(object map[string]any) bool {
	owner := metav1.GetControllerOfNoCopy(&unstructured.Unstructured{Object: object})
	return owner != nil && slices.Contains(copiedKinds, schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind).GroupKind())
}

// copying returns the hooks of the objects that copies validates.
func (r Registration) copying() []hook {
	templates := matchCondition{Name: "names-presets", Expression: fmt.Sprintf(
		`[object.?spec.?template, object.?spec.?virtualMachineTemplate, object.?spec.?virtualMachineTemplate.?spec.?template].exists(t, %q in t.?metadata.?annotations.orValue({}))`,
		v1alpha1.AnnotationPresets)}
	patches := matchCondition{Name: "has-patches", Expression: `object.?spec.?patches.orValue([]).size() > 0`}
	copied := func(group, resource string, relevant matchCondition) hook {
		return hook{
			path: pathValidateCopies, group: group, versions: []string{"*"}, resource: resource, scope: namespacedScope,
			operations: onWrite, conditions: []matchCondition{notDeleted(), specChanged(), relevant},
		}
	}
	return []hook{
		copied("kubevirt.io", "virtualmachineinstancereplicasets", templates),
		copied("pool.kubevirt.io", "virtualmachinepools", templates),
		copied("clone.kubevirt.io", "virtualmachineclones", patches),
		copied("snapshot.kubevirt.io", "virtualmachinerestores", patches),
	}
}

// A copied object is one of those that copies validates.
type copied struct {
	Spec struct {
		Template               map[string]any `json:"template"`
		VirtualMachineTemplate map[string]any `json:"virtualMachineTemplate"`
		Patches                []string       `json:"patches"`
	} `json:"spec"`
}

var _ handler = copies{}

// Handle answers one request.
func (c copies) Handle(ctx context.Context, req Request) Response {
	var now, old copied
	if err := json.Unmarshal(req.Object.Raw, &now); err != nil {
		return malformed(fmt.Errorf("cannot read the %s: %w", req.Kind.Kind, err))
	}
	if req.OldObject.Raw != nil && json.Unmarshal(req.OldObject.Raw, &old) != nil {
		old = copied{} // nothing in it counts as checked
	}
	problems := patchProblems(now.Spec.Patches)
	if slices.Equal(now.Spec.Patches, old.Spec.Patches) {
		problems = nil
	}
	more, err := c.named(ctx, req, now, old)
	if err != nil {
		return unavailable(ctx, req, err)
	}
	if problems = append(problems, more...); len(problems) > 0 {
		return invalid(req, problems)
	}
	return allowed()
}

// named rejects presets that a template names and that the user may not use.
func (c copies) named(ctx context.Context, req Request, now, old copied) (field.ErrorList, error) {
	kind, template, at := now.template()
	oldKind, oldTemplate, _ := old.template()
	n := naming{root: at, now: presets.NamedPresets(kind, template), before: presets.NamedPresets(oldKind, oldTemplate)}
	if c.Authorizer == nil || len(n.now) == 0 {
		return nil, nil
	}
	snapshot := c.Snapshots.Snapshot()
	if snapshot == nil {
		return nil, errors.New("presets are not loaded yet")
	}
	reapplied := annotation(template, v1alpha1.AnnotationReapply) != annotation(oldTemplate, v1alpha1.AnnotationReapply)
	var had, has []provenance.Source
	var unknown error
	if len(n.before) > 0 && !reapplied && !tree.Equal(template, oldTemplate) {
		var before error
		had, before = c.sources(ctx, snapshot, req, oldKind, oldTemplate)
		if has, unknown = c.sources(ctx, snapshot, req, kind, template); before != nil {
			unknown = nil
		}
	}
	n.usesAnew = func(ref string) bool { return reapplied || unknown != nil || gives(ref, had, has) }
	return n.check(ctx, c.Authorizer, snapshot, req)
}

// sources returns the presets that give values to a copy of a template, and to the instance that it
// would run.
func (c copies) sources(ctx context.Context, snapshot *presets.Snapshot, req Request, kind presets.Kind, template map[string]any) ([]provenance.Source, error) {
	namespace, err := c.Namespaces.Get(ctx, req.Namespace)
	if err != nil {
		return nil, err
	}
	metadata := map[string]any{}
	maps.Copy(metadata, tree.AsObject(template["metadata"]))
	metadata["name"], metadata["namespace"] = req.Name+"-0", req.Namespace // as a pool names its first VM
	raw, err := json.Marshal(map[string]any{
		"apiVersion": kubevirtv1.GroupVersion.String(), "kind": string(kind), "metadata": metadata, "spec": template["spec"],
	})
	if err != nil {
		return nil, err
	}
	return c.Engine.Sources(ctx, snapshot, presets.Request{
		Kind: kind, Object: raw, Namespace: namespace, Instancetypes: cachedInstancetypes(ctx, c.Instancetypes, req.Namespace),
	})
}

// template returns the template, what it is made into, and its field.
func (c copied) template() (kind presets.Kind, object map[string]any, at *field.Path) {
	if c.Spec.VirtualMachineTemplate != nil {
		return presets.VirtualMachine, c.Spec.VirtualMachineTemplate, field.NewPath("spec", "virtualMachineTemplate")
	}
	return presets.VirtualMachineInstance, c.Spec.Template, field.NewPath("spec", "template")
}

// patchProblems rejects JSON patches of a copy that write what only controllers write, or what
// requires a permission of its author.
func patchProblems(patches []string) field.ErrorList {
	var problems field.ErrorList
	for i, text := range patches {
		at := field.NewPath("spec", "patches").Index(i)
		var operation jsonpatch.Operation
		if err := json.Unmarshal([]byte(text), &operation); err != nil {
			problems = append(problems, field.Invalid(at, tree.Truncate(text, presets.MaxWarningBytes), "must be one operation of a JSON patch, as an object"))
			continue
		}
		if !mayPatch(operation) {
			problems = append(problems, field.Forbidden(at,
				"patches may write labels, annotations and fields in spec; they must not write other metadata or annotations that begin with "+
					v1alpha1.AnnotationPrefix+", because KubeVirt's controller creates the copy, not you"))
		}
	}
	return problems
}

// mayPatch reports whether a user's patch may be applied to a VM that a controller creates.
func mayPatch(operation jsonpatch.Operation) bool {
	path, err := operation.Path()
	if err != nil {
		return false
	}
	switch kind := operation.Kind(); kind {
	case "test":
		return true
	case "move", "copy":
		from, err := operation.From()
		return err == nil && isSpec(from) && isSpec(path) && !strings.EqualFold(path, "/spec/template")
	case "remove": // KubeVirt removes the annotations that a clone filters, also virtwright's
		return isSpec(path) || isUserMetadata(path, restoreKeys)
	}
	var value any
	if raw := operation["value"]; raw != nil && json.Unmarshal(*raw, &value) != nil {
		return false
	}
	return (isSpec(path) || isUserMetadata(path, restoreKeys, v1alpha1.AnnotationPrefix)) && !writesReserved(value)
}

// tokens returns the unescaped reference tokens of a JSON pointer (RFC 6901).
func tokens(pointer string) []string {
	parts := strings.Split(pointer, "/")
	for i, part := range parts {
		parts[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
	}
	return parts[1:]
}

// isSpec reports whether a pointer leads into spec.
func isSpec(pointer string) bool {
	return strings.HasPrefix(pointer, "/spec/") && !isMetadata(pointer)
}

// isMetadata reports whether a pointer leads to or into the metadata of a VM or of its template.
// KubeVirt decodes the patched VM, and so takes names of fields in any case.
func isMetadata(pointer string) bool {
	pointer = strings.ToLower(pointer) + "/"
	return strings.HasPrefix(pointer, "/metadata/") || strings.HasPrefix(pointer, "/spec/template/metadata/")
}

// restoreKeys begin the annotation by which KubeVirt marks a restored VM.
const restoreKeys = "restore.kubevirt.io/"

// isUserMetadata reports whether a pointer leads to labels or annotations that users write, apart
// from keys with these prefixes. All annotations of the VM include KubeVirt's mark.
func isUserMetadata(pointer string, except ...string) bool {
	at := tokens(strings.TrimPrefix(pointer, "/spec/template"))
	if len(at) < 2 || len(at) > 3 || at[0] != "metadata" || at[1] != "labels" && at[1] != "annotations" {
		return false
	}
	if len(at) == 2 {
		return pointer != "/metadata/annotations"
	}
	return !slices.ContainsFunc(except, func(prefix string) bool { return strings.HasPrefix(at[2], prefix) })
}

// writesReserved reports whether a key in a decoded JSON value begins with AnnotationPrefix.
func writesReserved(value any) bool {
	switch v := value.(type) {
	case map[string]any:
		for key := range v {
			if strings.HasPrefix(key, v1alpha1.AnnotationPrefix) || writesReserved(v[key]) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, writesReserved)
	}
	return false
}
