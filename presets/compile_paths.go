package presets

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/presets/tree"
	"github.com/virtwright/virtwright/presets/vmschema"
)

func compileRemoves(in []string, at *field.Path, errs *field.ErrorList) []removal {
	if len(in) > maxPaths {
		*errs = append(*errs, field.TooMany(at, len(in), maxPaths))
		return nil
	}
	var out []removal
	for i, text := range in {
		p, err := parseOptional(text)
		if err == nil && slices.ContainsFunc(p, func(s provenance.Segment) bool { return s.Kind == provenance.AnyElement }) {
			err = errors.New("must name each element: only spec.forbid and spec.require support [*]")
		}
		if err != nil {
			*errs = append(*errs, field.Invalid(at.Index(i), text, err.Error()))
			continue
		}
		if why := reservedPath(p); why != "" {
			*errs = append(*errs, field.Forbidden(at.Index(i), text+": "+why))
		}
		out = append(out, removal{path: p, text: p.String(), owner: ownerOf(p)})
	}
	return out
}

func asForbid(in []v1alpha1.RequireRule) []v1alpha1.ForbidRule {
	out := make([]v1alpha1.ForbidRule, 0, len(in))
	for _, r := range in {
		out = append(out, v1alpha1.ForbidRule(r))
	}
	return out
}

func compileRules(in []v1alpha1.ForbidRule, at *field.Path, errs *field.ErrorList) []rule {
	if len(in) > maxPaths {
		*errs = append(*errs, field.TooMany(at, len(in), maxPaths))
		return nil
	}
	var out []rule
	for i, f := range in {
		p, err := parseOptional(f.Path)
		if err != nil {
			*errs = append(*errs, field.Invalid(at.Index(i).Child("path"), f.Path, err.Error()))
			continue
		}
		out = append(out, rule{path: p, message: f.Message})
	}
	return out
}

var requiredParents = provenance.Of("spec", "template", "spec", "domain", "devices") // every VirtualMachine has it

// parseOptional is parseKnown for a field that a VM need not have.
func parseOptional(text string) (provenance.Path, error) {
	p, err := parseKnown(text)
	if err == nil && (requiredParents.HasPrefix(p) || slices.Contains([]string{"status", "apiVersion", "kind"}, p[0].Name)) {
		err = errors.New("must be an optional field: every VirtualMachine requires this one")
	}
	return p, err
}

func parseKnown(text string) (provenance.Path, error) {
	p, err := provenance.ParsePath(text)
	if err != nil {
		return nil, err
	}
	s := vmschema.VM()
	for i := range p {
		if s.Shape == vmschema.Keyed && p[i].Kind == provenance.Field && strings.ContainsAny(p[i].Name, "./") {
			// volumes["a.b"] is a common spelling of an element with dots in its name.
			p[i].Kind = provenance.Element
		}
		next := s.Step(p[i])
		if next == nil {
			return nil, noSuchStep(p[:i], p[i], s)
		}
		s = next
	}
	return p, nil
}

// PathCompletions lists the paths of fields that begin with text, up to the next field. [*] is each
// element of a list.
func PathCompletions(text string) []string {
	dot := strings.LastIndexByte(text, '.')
	s, parent := vmschema.VM(), provenance.Path(nil)
	if dot >= 0 {
		p, err := parseKnown(text[:dot])
		if err != nil {
			return nil
		}
		s, parent = s.At(p), p
	}
	var out []string
	for name, field := range s.Fields {
		if !strings.HasPrefix(name, text[dot+1:]) || dot < 0 && name == "status" {
			continue
		}
		path := parent.Field(name).String()
		if field.Shape == vmschema.Keyed {
			path += "[*]"
		}
		out = append(out, path)
	}
	slices.Sort(out)
	return out
}

func noSuchStep(before provenance.Path, seg provenance.Segment, s *vmschema.Schema) error {
	where := before.String()
	switch {
	case s.Shape == vmschema.Object && seg.Kind == provenance.Field:
		return fmt.Errorf("path does not exist: under %q %s", where, vmschema.UnknownField(seg.Name, s, vmschema.VM().At(before[:max(len(before)-1, 0)])))
	case s.Shape == vmschema.Keyed:
		return fmt.Errorf("path does not exist: %s is a list; name an element, as in %s[NAME]", where, before[len(before)-1].Name)
	case s.Shape == vmschema.Atomic:
		return fmt.Errorf("path does not exist: %s is a list without keys, so it is one value: end the path there", where)
	case seg.Kind != provenance.Field:
		return fmt.Errorf("path does not exist: %s is not a list", where)
	}
	return fmt.Errorf("path does not exist: %s is a value and has no fields", where)
}

// ReservedLabels tell KubeVirt the node and the owner of a VMI. Its webhook rejects them from
// users.
var ReservedLabels = []string{
	"kubevirt.io/created-by", "kubevirt.io/migrationJobUID", "kubevirt.io/nodeName",
	"kubevirt.io/migrationTargetNodeName", "kubevirt.io/schedulable", "kubevirt.io/install-strategy",
}

var reservedPrefixes = []string{"virtwright.dev/", "hooks.kubevirt.io/"}

// reservedPath returns why no preset may set p; empty if one may.
func reservedPath(p provenance.Path) string {
	i := slices.IndexFunc(p, func(s provenance.Segment) bool { return s.Name == "metadata" && s.Kind == provenance.Field })
	if i < 0 || i > 3 {
		return ""
	}
	if i+1 >= len(p) {
		return "name a label or an annotation"
	}
	return reservedMetadata(p[i+1:], len(p) > 1 && p[1].Name == "dataVolumeTemplates")
}

// reservedMetadata is reservedPath for a path beneath metadata. A named template may have a name.
func reservedMetadata(p provenance.Path, named bool) string {
	switch name := p[0].Name; {
	case named && name == "name":
		return ""
	case name != "labels" && name != "annotations":
		return "a preset may set only labels and annotations in metadata"
	case len(p) == 1:
		return "name the key, as in metadata.labels[\"example.com/team\"]"
	}
	key := p[1].Name
	switch {
	case slices.Contains(ReservedLabels, key), key == kubevirtv1.VirtualMachineGenerationAnnotation:
		return "KubeVirt reserves this key"
	case key == corev1.LastAppliedConfigAnnotation:
		return "kubectl apply keeps in it what it applied, and removes fields that the next manifest lacks"
	}
	for _, prefix := range reservedPrefixes {
		if strings.HasPrefix(key, prefix) {
			return fmt.Sprintf("keys under %s are reserved", prefix)
		}
	}
	return ""
}

// removesOfEvery reports whether r removes from one element what p sets in every element.
func removesOfEvery(r, p provenance.Path) bool {
	n := min(len(r), len(p))
	return slices.Index(p, every) < len(r)-1 && slices.Contains(p, every) && r[:n].HasPrefix(p[:n])
}

const launchScope = "a preset with applyAt: Launch acts on the VMI, so it may only change fields under spec.template"

func (c *Compiled) checkConsistency(at *field.Path) field.ErrorList {
	var errs field.ErrorList
	check := func(root *fieldNode, name, what string) {
		var beyond []string // the fields that are reported, once for all beneath
		visitLeaves(root, func(leaf *fieldNode) {
			i := slices.IndexFunc(c.removes, func(r removal) bool { return leaf.path.HasPrefix(r.path) || removesOfEvery(r.path, leaf.path) })
			if i >= 0 {
				errs = append(errs, field.Invalid(at.Child(name).Child(leaf.text), tree.Show(leaf.value),
					fmt.Sprintf("%s lies at or under %q, which spec.remove of this preset removes: keep one of them", what, c.removes[i].text)))
			}
			if c.ApplyAt == v1alpha1.ApplyAtLaunch && leaf.owner&beyondTemplate != 0 {
				if top := topField(leaf.path); !slices.Contains(beyond, top) {
					beyond = append(beyond, top)
					errs = append(errs, field.Forbidden(at.Child(name).Child(top), launchScope))
				}
			}
		})
	}
	check(c.defaults, "defaults", "a default")
	check(c.overrides, "overrides", "an override")
	for i, r := range c.removes {
		if c.ApplyAt == v1alpha1.ApplyAtLaunch && r.owner&beyondTemplate != 0 {
			errs = append(errs, field.Invalid(at.Child("remove").Index(i), r.text, launchScope))
		}
	}
	return append(errs, c.checkRequires(at.Child("require"))...)
}

// topField is the field of spec, or of the VM's metadata, that a path lies in.
func topField(p provenance.Path) string { return p[:min(len(p), 2)].String() }

// checkRequires reports required paths that the preset itself keeps from being set.
func (c *Compiled) checkRequires(at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, r := range c.requires {
		reject := func(detail string) {
			errs = append(errs, field.Invalid(at.Index(i).Child("path"), r.path.String(), detail))
		}
		for _, f := range c.forbids {
			if r.path.HasPrefix(f.path) {
				reject(fmt.Sprintf("lies at or under %q, which spec.forbid of this preset forbids: keep one of them", f.path))
			}
		}
		for _, removed := range c.removes {
			if r.path.HasPrefix(removed.path) {
				reject(fmt.Sprintf("lies at or under %q, which spec.remove of this preset removes: keep one of them", removed.text))
			}
		}
		if c.ApplyAt == v1alpha1.ApplyAtLaunch && ownerOf(r.path)&beyondTemplate != 0 {
			reject(launchScope)
		}
	}
	return errs
}
