package fleet

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/provenance"
)

// wellKnownLabels are labels of namespaces and nodes that Kubernetes and KubeVirt set.
var wellKnownLabels = []string{
	corev1.LabelMetadataName, corev1.LabelHostname, corev1.LabelTopologyZone, corev1.LabelTopologyRegion,
	corev1.LabelInstanceTypeStable, corev1.LabelArchStable, corev1.LabelOSStable, "kubevirt.io/schedulable",
	"node-role.kubernetes.io/worker", "node-role.kubernetes.io/control-plane",
}

// suspicious reports values that are valid, and nearly always a mistake.
func (a *analysis) suspicious() {
	for _, m := range a.members {
		for _, p := range m.parts {
			if !m.acts() || !p.gives() {
				continue
			}
			a.unusedTemplate(m, p)
			if p.Computed {
				continue
			}
			for _, check := range []func(*part) string{sharedIdentity, unknownTimeZone, misspeltCloudInit, misspeltNodeLabel} {
				if why := check(p); why != "" {
					a.report(suspiciousValue, m, Finding{Field: p.Field, Message: why})
				}
			}
			if strings.HasPrefix(p.path, "spec.template.spec.affinity") {
				a.unschedulable(claim{m, p})
			}
		}
	}
}

// unusedTemplate reports a template of a DataVolume if the volumes of its preset use other
// DataVolumes only.
func (a *analysis) unusedTemplate(m *member, template *part) {
	if !isNameIn(template, "spec.dataVolumeTemplates[", "].metadata.name") {
		return
	}
	var used []string
	for _, p := range m.parts {
		if p.gives() && isNameIn(p, "spec.template.spec.volumes[", "].dataVolume.name") {
			used = append(used, p.shown(p.path))
		}
	}
	name := template.shown(template.path)
	if len(used) > 0 && !slices.Contains(used, name) {
		a.report(suspiciousValue, m, Finding{
			Field:   template.Field,
			Message: fmt.Sprintf("no volume of the preset uses this DataVolume, but %s", presets.Truncate(strings.Join(used, ", "), maxShown)),
		})
	}
}

func isNameIn(p *part, list, name string) bool {
	return strings.HasPrefix(p.path, list) && strings.HasSuffix(p.path, name)
}

// identities are fields whose value must differ between VMs, by the end of their path.
var identities = []struct{ within, end, why string }{
	{"spec.template.spec.domain.devices.disks[*", "].bootOrder", "two disks cannot have the same boot order, so that a VM with two is rejected"},
	{"spec.template.spec.domain.devices.interfaces[*", "].bootOrder", "two interfaces cannot have the same boot order, so that a VM with two is rejected"},
	{"spec.template.spec.domain.devices.disks[*", "].serial", "every disk would get the same serial number"},
	{"spec.template.spec.domain.devices.interfaces[", "].macAddress", "every VM would get the same MAC address"},
	{"spec.template.spec.domain.firmware.uuid", "", "every VM would get the same UUID"},
	{"spec.template.spec.domain.firmware.serial", "", "every VM would get the same serial number"},
	{"spec.template.spec.hostname", "", "every VM would get the same host name"},
	{"spec.dataVolumeTemplates[", "].metadata.name", "a DataVolume belongs to one VM, so that a second VM of the namespace could not start"},
}

func sharedIdentity(p *part) string {
	for _, identity := range identities {
		if isNameIn(p, identity.within, identity.end) {
			if strings.HasSuffix(identity.within, "[*") {
				return identity.why
			}
			return identity.why + "; compute the value from the name of the VM with $cel, or leave it out"
		}
	}
	return ""
}

func unknownTimeZone(p *part) string {
	zone, isText := p.Value.(string)
	if !isText || !strings.HasSuffix(p.path, ".clock.timezone") {
		return ""
	}
	const known = "Europe/Berlin"
	if _, err := time.LoadLocation(known); err != nil {
		return "" // there is no database
	}
	if _, err := time.LoadLocation(zone); err != nil || zone == "" || zone == "Local" {
		return fmt.Sprintf("%q is not a time zone of the IANA database, such as %s", zone, known)
	}
	return ""
}

const cloudConfig = "#cloud-config"

func misspeltCloudInit(p *part) string {
	text, isText := p.Value.(string)
	if !isText || !strings.HasSuffix(p.path, ".userData") {
		return ""
	}
	first, _, _ := strings.Cut(text, "\n")
	first = strings.TrimRight(first, " \r")
	isNear := strings.HasPrefix(first, "#") && first != cloudConfig && presets.Nearest(first, slices.Values([]string{cloudConfig})) != ""
	if isNear && !strings.HasPrefix(first, "#!") {
		return fmt.Sprintf("cloud-init ignores user data whose first line is %q; did you mean %q?", presets.Truncate(first, maxShown), cloudConfig)
	}
	return ""
}

// misspeltNodeLabel finds keys of labels of nodes that resemble those of Kubernetes.
func misspeltNodeLabel(p *part) string {
	var keys []string
	switch {
	case strings.HasPrefix(p.path, "spec.template.spec.nodeSelector"):
		keys = []string{p.Path[len(p.Path)-1].Name}
	case strings.HasPrefix(p.path, "spec.template.spec.affinity"), strings.HasPrefix(p.path, "spec.template.spec.topologySpreadConstraints"):
		name := p.Path[len(p.Path)-1].Name
		keys = textsOf(map[string]any{name: p.Value}, []string{"key", "topologyKey"})
	}
	for _, key := range keys {
		if near := presets.Typos(key, wellKnownLabels); len(near) > 0 && !slices.Contains(wellKnownLabels, key) {
			return fmt.Sprintf("label %s is not one that Kubernetes sets on nodes; did you mean %s?", key, near[0])
		}
	}
	return ""
}

// textsOf returns the texts of the named fields in a value, at any depth.
func textsOf(v any, names []string) (out []string) {
	switch v := v.(type) {
	case map[string]any:
		for name, sub := range v {
			if text, isText := sub.(string); isText && slices.Contains(names, name) {
				out = append(out, text)
			}
			out = append(out, textsOf(sub, names)...)
		}
	case []any:
		for _, sub := range v {
			out = append(out, textsOf(sub, names)...)
		}
	}
	slices.Sort(out)
	return out
}

// unschedulable reports a required node affinity that a node selector of a preset excludes.
func (a *analysis) unschedulable(affinity claim) {
	at := provenance.Of("spec", "template", "spec", "nodeSelector")
	for _, c := range a.under[at.String()] {
		value, isText := c.Value.(string)
		if !isText || !c.part.gives() || c.member != affinity.member && !c.meets(affinity.member) {
			continue
		}
		key := c.Path[len(c.Path)-1].Name
		if excludes(affinity.part, key, value) {
			a.report(suspiciousValue, c.member, Finding{
				Field: c.Field, Other: affinity.Name(),
				Message: fmt.Sprintf("no node can match: no required term of the node affinity of preset %s admits %s=%s", affinity.Ref, key, value),
			})
		}
	}
}

// excludes reports whether each required term of a node affinity excludes a label of nodes.
func excludes(affinity *part, key, value string) bool {
	root := map[string]any{}
	var path []string
	for _, s := range affinity.Path[len(provenance.Of("spec", "template", "spec", "affinity")):] {
		path = append(path, s.Name)
	}
	if len(path) == 0 {
		root, _ = affinity.Value.(map[string]any)
	} else {
		set(root, path, affinity.Value)
	}
	required := under(root, "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
	terms, _ := required["nodeSelectorTerms"].([]any)
	return len(terms) > 0 && !slices.ContainsFunc(terms, func(term any) bool {
		fields, _ := term.(map[string]any)
		expressions, _ := fields["matchExpressions"].([]any)
		return !slices.ContainsFunc(expressions, func(e any) bool { return rejects(e, key, value) })
	})
}

// rejects reports whether an expression, as decoded JSON, excludes a label.
func rejects(expression any, key, value string) bool {
	fields, _ := expression.(map[string]any)
	operator, _ := fields["operator"].(string)
	if fields["key"] != key {
		return false
	}
	values, _ := fields["values"].([]any)
	one := metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOperator(operator)}
	for _, v := range values {
		text, _ := v.(string)
		one.Values = append(one.Values, text)
	}
	selector, err := metav1.LabelSelectorAsSelector(&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{one}})
	return err == nil && !selector.Matches(labels.Set{key: value})
}
