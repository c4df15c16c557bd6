package presets

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets/provenance"
)

func compileRemoves(in []string, at *field.Path) ([]removal, field.ErrorList) {
	var errs field.ErrorList
	var out []removal
	for i, text := range in {
		p, err := parseKnown(text)
		switch {
		case err != nil:
			errs = append(errs, field.Invalid(at.Index(i), text, err.Error()))
		case hasEvery(p):
			errs = append(errs, field.Invalid(at.Index(i), text, "must name each element; [*] stands in forbid only"))
		case !removable(p):
			errs = append(errs, field.Invalid(at.Index(i), text, "must be an optional field: a VirtualMachine cannot be without it"))
		default:
			if why := reservedPath(p); why != "" {
				errs = append(errs, field.Forbidden(at.Index(i), text+": "+why))
			}
			out = append(out, removal{path: p, text: p.String(), owner: ownerOf(p)})
		}
	}
	return out, errs
}

func compileForbids(in []v1alpha1.ForbidRule, at *field.Path) ([]forbid, field.ErrorList) {
	var errs field.ErrorList
	var out []forbid
	for i, f := range in {
		p, err := parseKnown(f.Path)
		switch {
		case err != nil:
			errs = append(errs, field.Invalid(at.Index(i).Child("path"), f.Path, err.Error()))
		case !removable(p):
			errs = append(errs, field.Invalid(at.Index(i).Child("path"), f.Path, "must be an optional field: a VirtualMachine cannot be without it"))
		default:
			out = append(out, forbid{path: p, message: f.Message})
		}
	}
	return out, errs
}

// parseKnown parses a path and checks that KubeVirt's types have it.
func parseKnown(text string) (provenance.Path, error) {
	p, err := provenance.ParsePath(text)
	if err != nil {
		return nil, err
	}
	s := vmSchema()
	for i := range p {
		if s.shape == shapeKeyed && p[i].Kind == provenance.Field && strings.ContainsAny(p[i].Name, "./") {
			// volumes["a.b"] is what people write for a name with dots.
			p[i].Kind = provenance.Element
		}
		next := s.step(p[i])
		if next == nil {
			return nil, noSuchStep(p[:i], p[i], s)
		}
		s = next
	}
	return p, nil
}

func noSuchStep(before provenance.Path, seg provenance.Segment, s *schema) error {
	where := before.String()
	switch {
	case s.shape == shapeObject && seg.Kind == provenance.Field:
		return fmt.Errorf("path does not exist: under %q %s", where, unknownField(seg.Name, s, vmSchema().at(before[:max(len(before)-1, 0)])))
	case s.shape == shapeKeyed:
		return fmt.Errorf("path does not exist: %s is a list; name an element, as in %s[NAME]", where, before[len(before)-1].Name)
	case s.shape == shapeAtomic:
		return fmt.Errorf("path does not exist: %s is a list without names, which is one value; leave off what follows it", where)
	case seg.Kind != provenance.Field:
		return fmt.Errorf("path does not exist: %s is no list", where)
	}
	return fmt.Errorf("path does not exist: %s is a value and has no fields", where)
}

func hasEvery(p provenance.Path) bool {
	return slices.ContainsFunc(p, func(s provenance.Segment) bool { return s.Kind == provenance.Every })
}

// spine is what every VirtualMachine needs.
var spine = provenance.Of("spec", "template", "spec", "domain", "devices")

func removable(p provenance.Path) bool {
	return !spine.HasPrefix(p) && p[0].Name != "status" && p[0].Name != "apiVersion" && p[0].Name != "kind"
}

// reservedLabels are set by KubeVirt alone; its webhook refuses them to others.
var reservedLabels = []string{
	"kubevirt.io/created-by", "kubevirt.io/migrationJobUID", "kubevirt.io/nodeName",
	"kubevirt.io/migrationTargetNodeName", "kubevirt.io/schedulable", "kubevirt.io/install-strategy",
}

var reservedPrefixes = []string{"virtwright.dev/", "hooks.kubevirt.io/"}

// reservedPath says why no preset may touch p, or "".
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

// reservedMetadata judges a path beneath metadata, where a template may have a name.
func reservedMetadata(p provenance.Path, named bool) string {
	switch name := p[0].Name; {
	case named && name == "name":
		return ""
	case name != "labels" && name != "annotations":
		return "a preset may set labels and annotations of metadata, nothing else"
	case len(p) == 1:
		return "name the key, as in metadata.labels[\"example.com/team\"]"
	}
	return reservedKey(p[1].Name)
}

func reservedKey(key string) string {
	if slices.Contains(reservedLabels, key) {
		return "this key is KubeVirt's own"
	}
	for _, prefix := range reservedPrefixes {
		if strings.HasPrefix(key, prefix) {
			return fmt.Sprintf("keys under %s are reserved", prefix)
		}
	}
	return ""
}

// checkReserved refuses what no preset may set, wherever it stands.
func (c *fieldCompiler) checkReserved(root *fieldNode) {
	root.leaves(nil, func(p provenance.Path, leaf *fieldNode) {
		if why := reservedPath(p); why != "" {
			c.errs = append(c.errs, field.Forbidden(c.root.Child(leaf.path), why))
		}
	})
}

// leaves calls visit for every leaf at or beneath p, which lies at at.
func (p *fieldNode) leaves(at provenance.Path, visit func(provenance.Path, *fieldNode)) {
	if p == nil {
		return
	}
	if p.leaf {
		visit(at, p)
		return
	}
	for _, kid := range slices.Concat(p.kids, p.unkeyed) {
		kid.leaves(at.With(kid.seg), visit)
	}
}

// checkAgainstEachOther refuses a preset that works against itself.
func (c *Compiled) checkAgainstEachOther(at *field.Path) field.ErrorList {
	var errs field.ErrorList
	beneathRemoved := func(p provenance.Path) (removal, bool) {
		i := slices.IndexFunc(c.removes, func(r removal) bool { return p.HasPrefix(r.path) })
		if i < 0 {
			return removal{}, false
		}
		return c.removes[i], true
	}
	check := func(root *fieldNode, name, what string) {
		root.leaves(nil, func(p provenance.Path, leaf *fieldNode) {
			if r, ok := beneathRemoved(p); ok {
				errs = append(errs, field.Invalid(at.Child(name).Child(leaf.path), show(leaf.value),
					fmt.Sprintf("%s lies at or under %q, which spec.remove of this preset takes away: keep one", what, r.text)))
			}
			if c.ApplyAt == v1alpha1.ApplyAtLaunch && leaf.owner&beyondTemplate != 0 {
				errs = append(errs, field.Invalid(at.Child(name).Child(leaf.path), show(leaf.value),
					"applyAt: Launch reaches the instance, so only what lies under spec.template"))
			}
		})
	}
	check(c.defaults, "defaults", "a default")
	check(c.overrides, "overrides", "an override")
	for i, r := range c.removes {
		if c.ApplyAt == v1alpha1.ApplyAtLaunch && r.owner&beyondTemplate != 0 {
			errs = append(errs, field.Invalid(at.Child("remove").Index(i), r.text, "applyAt: Launch reaches the instance, so only what lies under spec.template"))
		}
	}
	return errs
}
