package fleet

import (
	"fmt"
	"iter"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/virtwright/virtwright/presets/condition"
	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/presets/spelling"
	"github.com/virtwright/virtwright/presets/tree"
)

// wellKnownLabels are labels of namespaces and nodes that Kubernetes and KubeVirt set.
var wellKnownLabels = []string{
	corev1.LabelMetadataName, corev1.LabelHostname, corev1.LabelTopologyZone, corev1.LabelTopologyRegion,
	corev1.LabelInstanceTypeStable, corev1.LabelArchStable, corev1.LabelOSStable, "kubevirt.io/schedulable",
}

// misspelt returns the label of Kubernetes that a key misspells; empty if there is none.
func misspelt(key string) string {
	if near := spelling.Typos(key, slices.Values(wellKnownLabels)); len(near) > 0 && !slices.Contains(wellKnownLabels, key) {
		return near[0]
	}
	return ""
}

// suspicious reports values that are valid, and nearly always a mistake.
func (a *analysis) suspicious() {
	for _, m := range a.members {
		for _, p := range m.parts {
			if !m.acts() || !p.gives() {
				continue
			}
			a.unusedTemplate(m, p)
			if !p.Computed {
				a.suspiciousPart(m, p)
			}
		}
	}
}

func (a *analysis) suspiciousPart(m *member, p *part) {
	checks := []func(*part) string{unknownTimeZone, misspeltCloudInit, misspeltNodeLabel, wrongMatcher, m.otherArchitecture, m.cannotMigrate}
	if !m.Explicit && !namesVM(m) {
		checks = append(checks, sharedIdentity)
	}
	for _, check := range checks {
		if why := check(p); why != "" {
			a.report(suspiciousValue, m, Finding{Field: p.Field, Message: why})
		}
	}
	if strings.HasPrefix(p.path, templatePath+"affinity") {
		a.unschedulable(claim{m, p})
	}
	a.selectsNoVM(m, p)
}

// selectsNoVM reports a label selector of an affinity or a spread that requires a label which the
// preset itself sets otherwise, or only on the VM.
func (a *analysis) selectsNoVM(m *member, p *part) {
	visitTexts(p.Path, p.Value, func(at provenance.Path, text string) {
		last := len(at) - 1
		if last < 2 || at[last-1].Name != "matchLabels" || at[last-2].Name != "labelSelector" {
			return
		}
		label := provenance.Of("spec", "template", "metadata", "labels").Field(at[last].Name)
		for value := range a.textsOf(m, label) {
			if value != text && misspells(value, text) {
				a.report(suspiciousValue, m, Finding{
					Field:   p.Field + strings.TrimPrefix(at.String(), p.path),
					Message: fmt.Sprintf("the preset gives its VMs %s=%s; did you mean that instead of %s?", at[last].Name, value, text),
				})
			}
		}
		if gives(a.at[label.String()]) {
			return
		}
		for value, field := range a.textsOf(m, otherLabels(label)) {
			if value == text {
				a.report(suspiciousValue, m, Finding{
					Field:   field,
					Message: fmt.Sprintf("%s selects pods by this label, but pods have the labels of spec.template.metadata", at[3].Name),
				})
			}
		}
	})
}

// textsOf returns the texts that a preset sets at a path, and its fields.
func (a *analysis) textsOf(m *member, path provenance.Path) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for _, c := range a.at[path.String()] {
			if text, isText := c.Value.(string); isText && c.member == m && c.part.gives() && !yield(text, c.Field) {
				return
			}
		}
	}
}

// visitTexts visits the texts of a value, as decoded JSON, that is at a path.
func visitTexts(at provenance.Path, v any, visit func(provenance.Path, string)) {
	switch v := v.(type) {
	case string:
		visit(at, v)
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			visitTexts(at.Field(name), v[name], visit)
		}
	case []any:
		for i, element := range v {
			visitTexts(at.Element(strconv.Itoa(i)), element, visit)
		}
	}
}

// onName is a condition that depends on the name of the VM.
var onName = regexp.MustCompile(`\bobject\.metadata\.\??(name|generateName)\b`)

// namesVM reports whether a preset may be for one VM only.
func namesVM(m *member) bool { return slices.ContainsFunc(m.Conditions(), onName.MatchString) }

// unusedTemplate reports a template of a DataVolume that no volume of a preset uses, if the volumes
// of its preset use other DataVolumes.
func (a *analysis) unusedTemplate(m *member, template *part) {
	if !isNameIn(template, "spec.dataVolumeTemplates[", "].metadata.name") {
		return
	}
	name, used := template.shown(template.path), ""
	for _, c := range a.under["spec.template.spec.volumes"] {
		if !c.part.gives() || !isNameIn(c.part, "", "].dataVolume.name") && !isNameIn(c.part, "", ".claimName") {
			continue
		}
		is := c.shown(c.path)
		if is == name || strings.Contains(is+name, condition.UsesOfVariables) { // which may have equal values
			return
		}
		if c.member == m {
			used = is
		}
	}
	if used != "" {
		a.report(suspiciousValue, m, Finding{
			Field:   template.Field,
			Message: fmt.Sprintf("no volume uses this DataVolume; the volume of the preset uses %s", used),
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
		if isNameIn(p, identity.within, identity.end) && p.value != `""` {
			if strings.HasSuffix(identity.within, "[*") {
				return identity.why
			}
			return identity.why + "; compute the value from the name of the VM with $cel, or omit it"
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

// wrongMatcher finds the kind of a preference for an instancetype, and the reverse.
func wrongMatcher(p *part) string {
	kind, _ := p.Value.(string)
	for at, other := range map[string]string{"spec.instancetype.kind": "Preference", "spec.preference.kind": "Instancetype"} {
		if p.path == at && strings.HasSuffix(kind, other) {
			return kind + " is the kind of the other"
		}
	}
	return ""
}

const templatePath = "spec.template.spec."

// valueAt returns the text that the preset sets at a path beneath the template's spec.
func (m *member) valueAt(path string) string {
	for _, p := range m.parts {
		if text, isText := p.Value.(string); isText && p.gives() && p.path == templatePath+path {
			return text
		}
	}
	return ""
}

func (m *member) otherArchitecture(p *part) string {
	asked, architecture := m.valueAt(provenance.Of("nodeSelector").Field(corev1.LabelArchStable).String()), m.valueAt("architecture")
	if p.path != templatePath+"architecture" || asked == "" || asked == architecture {
		return ""
	}
	return fmt.Sprintf("no node can match: the node selector selects nodes with %s=%s", corev1.LabelArchStable, asked)
}

// cannotMigrate finds VMs that cannot migrate, because a bridge connects them to the pod network.
func (m *member) cannotMigrate(p *part) string {
	if p.path != templatePath+"evictionStrategy" || p.Value != "LiveMigrate" {
		return ""
	}
	for _, bridge := range m.parts {
		nic, isBridge := strings.CutSuffix(bridge.path, ".bridge")
		name := strings.TrimPrefix(nic, templatePath+"domain.devices.interfaces")
		onPods := func(o *part) bool { return o.path == templatePath+"networks"+name+".pod" }
		if isBridge && bridge.gives() && slices.ContainsFunc(m.parts, onPods) {
			return "a VM with a bridge to the pod network cannot migrate, so it blocks the drain of its node; use masquerade, or another eviction strategy"
		}
	}
	return ""
}

const cloudConfig = "#cloud-config"

// moduleKey begins user data that lacks its first line.
var moduleKey = regexp.MustCompile(`^[a-z_]+:(\s|$)`)

func misspeltCloudInit(p *part) string {
	text, isText := p.Value.(string)
	if !isText || !strings.HasSuffix(p.path, ".userData") {
		return ""
	}
	first, _, _ := strings.Cut(text, "\n")
	first = strings.TrimRight(first, " \r")
	if moduleKey.MatchString(first) {
		return fmt.Sprintf("cloud-init ignores user data that does not begin with %q", cloudConfig)
	}
	isNear := strings.HasPrefix(first, "#") && first != cloudConfig && spelling.Nearest(first, slices.Values([]string{cloudConfig})) != ""
	if isNear && !strings.HasPrefix(first, "#!") {
		return fmt.Sprintf("cloud-init ignores user data whose first line is %q; did you mean %q?", tree.Truncate(first, maxShown), cloudConfig)
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
		if near := misspelt(key); near != "" {
			return fmt.Sprintf("label %s is not one that Kubernetes sets on nodes; did you mean %s?", key, near)
		}
	}
	return ""
}

// textsOf returns the texts of the named fields in a value, at any depth.
func textsOf(v any, names []string) (out []string) {
	switch v := v.(type) {
	case map[string]any:
		for name, sub := range v {
			if name == "labelSelector" || name == "namespaceSelector" {
				continue // not of nodes
			}
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

// unschedulable reports a required node affinity that a node selector of a preset excludes, unless
// other presets or conditions may keep both from the same VM.
func (a *analysis) unschedulable(affinity claim) {
	at := provenance.Of("spec", "template", "spec", "nodeSelector")
	for _, c := range a.under[at.String()] {
		value, isText := c.Value.(string)
		mayMiss := len(c.Conditions())+len(affinity.Conditions()) > 0 && c.member != affinity.member
		if !isText || !c.part.gives() || mayMiss || len(a.at[c.path]) > 1 || c.member != affinity.member && !c.meets(affinity.member) {
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
	var one metav1.LabelSelectorRequirement
	fields, _ := expression.(map[string]any)
	if runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &one) != nil || one.Key != key {
		return false
	}
	selector, err := metav1.LabelSelectorAsSelector(&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{one}})
	return err == nil && !selector.Matches(labels.Set{key: value})
}
