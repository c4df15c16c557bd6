package fleet

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	apivalidation "k8s.io/apimachinery/pkg/util/validation"

	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/presets/tree"
)

var importLabels = map[string]string{
	"VirtualMachineInstancetype":        "instancetype",
	"VirtualMachineClusterInstancetype": "cluster-instancetype",
	"VirtualMachinePreference":          "preference",
	"VirtualMachineClusterPreference":   "cluster-preference",
}

// Priorities of imported presets. Like in KubeVirt, an instancetype takes precedence over a
// preference. Presets of namespaced objects have a higher priority, so that presets with different
// labels never conflict.
const (
	priorityPreference   = 10
	priorityInstancetype = 20
	priorityTopology     = 30
)

// rank is added to the priority of the preset of a namespaced object.
func (c Contributor) rank() int64 { return int64(min(len(c.Namespace), 1)) }

// importOverrides are the fields of a domain for which a preference takes precedence over the VM.
var importOverrides = [][]string{{"devices", "disableHotplug"}, {"features", "acpi"}}

const (
	everyDisk      = "applies to every disk of a VM, also to disks that KubeVirt adds; write it for a disk named \"*\", which stands for those that the VM has"
	everyInterface = "applies to every interface of a VM; write it for an interface named \"*\", which stands for all"
	everyInput     = "applies to every input of a VM; write it for an input named \"*\", which stands for all"
	minimum        = "a requirement rejects VMs, but presets cannot set a minimum: use a ValidatingAdmissionPolicy"
)

// deviations are the fields that presets cannot express, or only in part.
var deviations = map[string]string{
	"devices.preferredDiskBus":               everyDisk,
	"devices.preferredCdromBus":              everyDisk,
	"devices.preferredLunBus":                everyDisk,
	"devices.preferredDiskBlockSize":         everyDisk,
	"devices.preferredDiskCache":             everyDisk,
	"devices.preferredDiskIO":                everyDisk,
	"devices.preferredDiskDedicatedIoThread": everyDisk,
	"devices.preferredInterfaceModel":        everyInterface,
	"devices.preferredInterfaceMasquerade":   everyInterface,
	"devices.preferredInputBus":              everyInput,
	"devices.preferredInputType":             everyInput,
	"devices.preferredSoundModel":            "applies to VMs with a sound device; a preset would add that device to every VM",
	"devices.preferredPanicDeviceModel":      "applies also to panic devices that a VM has; the preset only gives one to VMs without any",
	"devices.preferredVirtualGPUOptions":     "KubeVirt does not apply it",
	"volumes.preferredStorageClassName":      "applies to every dataVolumeTemplate of a VM; a preset sets only those that it names",
	"requirements":                           minimum,
}

// topologyFields of a preference determine how the vCPUs of an instancetype are distributed.
var topologyFields = []string{"cpu.preferredCPUTopology", "cpu.spreadOptions", "preferSpreadSocketToCoreRatio"}

func isBeneath(name, field string) bool { return name == field || strings.HasPrefix(name, field+".") }

// give returns the fields that an instancetype or a preference gives an empty VM.
func give(instancetype, preference map[string]any) map[string]any {
	fields, _ := giveBoth(instancetype, preference)
	return fields
}

// giveBoth also says why KubeVirt rejects VMs with both; empty if it does not.
func giveBoth(instancetype, preference map[string]any) (fields map[string]any, conflict string) {
	spec := map[string]any{}
	for name, given := range map[string]map[string]any{"instancetype": instancetype, "preference": preference} {
		if given != nil {
			spec[name] = map[string]any{"name": "imported"}
		}
	}
	out, _, conflict := presets.ExpandInstancetype(map[string]any{"spec": spec}, func(m presets.Matcher) (map[string]any, error) {
		if strings.HasSuffix(m.Kind, "Preference") {
			return preference, nil
		}
		return instancetype, nil
	})
	template := under(out, "spec", "template")
	if len(under(template, "spec")) == 0 {
		delete(template, "spec")
	}
	if len(template) == 0 {
		return nil, conflict
	}
	return map[string]any{"spec": map[string]any{"template": template}}, conflict
}

func (c Contributor) gives(spec map[string]any) map[string]any {
	if c.isPreference() {
		return give(nil, spec)
	}
	return give(spec, nil)
}

// selectable reports whether the name is a valid label value.
func (c Contributor) selectable() bool { return len(apivalidation.IsValidLabelValue(c.Name)) == 0 }

func (s *ImportSource) contributor(c Contributor) Imported {
	item := Imported{From: c.String()}
	if !c.selectable() {
		item.Deviations = []Deviation{{"metadata.name", c.Name, "VMs select the preset by a label, and the name is not a valid label value"}}
		return item
	}
	prefix, priority := "instancetype-", int64(priorityInstancetype)
	if c.isPreference() {
		prefix, priority = "preference-", priorityPreference
	}
	spec := map[string]any{"priority": priority + c.rank(), "match": map[string]any{"labels": map[string]any{"matchLabels": map[string]any{s.label(c.Kind): c.Name}}}}
	if layers := layersOf(c.gives(c.Spec)); len(layers) > 0 {
		maps.Copy(spec, layers)
		item.Preset = presetObject(c.Namespace, prefix+c.Name, spec)
	}
	item.Deviations = s.deviationsOf(c)
	return item
}

func (s *ImportSource) label(kind string) string { return s.LabelPrefix + importLabels[kind] }

func layersOf(given map[string]any) map[string]any {
	out := map[string]any{}
	domain := under(given, "spec", "template", "spec", "domain")
	for _, at := range importOverrides {
		from := under(domain, at[0])
		if value := from[at[1]]; value != nil {
			delete(from, at[1])
			set(out, []string{"overrides", "spec", "template", "spec", "domain", at[0], at[1]}, value)
		}
	}
	if given = withoutEmptyObjects(given, "spec", "template", "spec", "domain", "devices", "features"); given != nil {
		out["defaults"] = given
	}
	return out
}

// withoutEmptyObjects removes empty objects with these names. It returns nil for an empty object.
func withoutEmptyObjects(obj map[string]any, names ...string) map[string]any {
	for _, name := range names {
		sub, ok := obj[name].(map[string]any)
		if ok && withoutEmptyObjects(sub, names...) == nil {
			delete(obj, name)
		}
	}
	if len(obj) == 0 {
		return nil
	}
	return obj
}

// deviationsOf returns the fields that the preset does not express: those without effect on an
// empty VM, and those in deviations.
func (s *ImportSource) deviationsOf(c Contributor) []Deviation {
	var out []Deviation
	whole := c.gives(c.Spec)
	visitFields(c.Spec, nil, func(path []string, value any) {
		name := strings.Join(path, ".")
		known := ""
		for field, reason := range deviations {
			if isBeneath(name, field) {
				known = reason
			}
		}
		switch {
		case known != "":
		case slices.ContainsFunc(topologyFields, func(f string) bool { return isBeneath(name, f) }):
			if !slices.ContainsFunc(s.Contributors, c.pairsWith) {
				known = "distributes the vCPUs of an instancetype: import it together with instancetypes"
			}
		case value != nil && tree.Equal(whole, c.gives(withoutField(c.Spec, path))):
			known = "has no effect on an otherwise empty VM"
		}
		if known != "" {
			out = append(out, Deviation{"spec." + pathText(path), value, known})
		}
	})
	return out
}

// pairsWith reports whether a VM can reference c, a preference, together with the instancetype.
func (c Contributor) pairsWith(it Contributor) bool {
	return !it.isPreference() && (it.Namespace == "" || c.Namespace == "" || it.Namespace == c.Namespace)
}

func withoutField(obj map[string]any, path []string) map[string]any {
	out := runtime.DeepCopyJSON(obj)
	unstructured.RemoveNestedField(out, path...)
	return out
}

func pathText(names []string) string { return provenance.Of(names...).String() }

type topology struct{ kind, namespace, name string }

// topologies imports what an instancetype and a preference give only together.
func (s *ImportSource) topologies() []Imported {
	var out []Imported
	for _, it := range s.Contributors {
		preferences := map[topology][]Contributor{}
		for _, p := range s.Contributors {
			if p.isPreference() && p.pairsWith(it) && p.selectable() && it.selectable() {
				key := topology{p.Kind, cmp.Or(it.Namespace, p.Namespace), topologyName(p.Spec)}
				preferences[key] = append(preferences[key], p)
			}
		}
		keys := slices.SortedFunc(maps.Keys(preferences), func(a, b topology) int {
			return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
		})
		for _, key := range keys {
			if item, differs := s.topology(it, key, preferences[key]); differs {
				out = append(out, item)
			}
		}
	}
	return out
}

// differs is false if the instancetype alone gives the same topology.
func (s *ImportSource) topology(it Contributor, key topology, preferences []Contributor) (item Imported, differs bool) {
	cpu := func(preference map[string]any) map[string]any {
		all := under(give(it.Spec, preference), "spec", "template", "spec", "domain", "cpu")
		return map[string]any{"sockets": all["sockets"], "cores": all["cores"], "threads": all["threads"]}
	}
	spread := cpu(preferences[0].Spec)
	_, conflict := giveBoth(it.Spec, preferences[0].Spec)
	if conflict == "" && tree.Equal(spread, cpu(nil)) {
		return item, false
	}
	name := []string{"topology", key.name, it.Name}
	if key.namespace != "" {
		name = slices.Insert(name, 2, importLabels[key.kind], importLabels[it.Kind])
	}
	names := make([]string, 0, len(preferences))
	for _, p := range preferences {
		names = append(names, p.Name)
	}
	slices.Sort(names)
	values := make([]any, 0, len(names))
	for _, name := range names {
		values = append(values, name)
	}
	item.From = fmt.Sprintf("%s with %s %s", it, preferences[0].Kind, strings.Join(names, ", "))
	if conflict != "" {
		item.Deviations = []Deviation{{"spec.cpu.guest", under(it.Spec, "cpu")["guest"], "KubeVirt rejects a VM with both: " + conflict}}
		return item, true
	}
	item.Preset = presetObject(key.namespace, strings.Join(name, "-"), map[string]any{
		"priority": priorityTopology + 2*it.rank() + preferences[0].rank(),
		"match": map[string]any{"labels": map[string]any{
			"matchLabels":      map[string]any{s.label(it.Kind): it.Name},
			"matchExpressions": []any{map[string]any{"key": s.label(key.kind), "operator": "In", "values": values}},
		}},
		"defaults": map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"domain": map[string]any{"cpu": spread}}}}},
	})
	return item, true
}

func topologyName(spec map[string]any) string {
	cpu, options := under(spec, "cpu"), under(spec, "cpu", "spreadOptions")
	preferred, _ := cpu["preferredCPUTopology"].(string)
	name := strings.ToLower(strings.TrimPrefix(preferred, "prefer"))
	if name != "spread" {
		return cmp.Or(name, "sockets")
	}
	across, _ := options["across"].(string)
	ratio := cmp.Or(options["ratio"], spec["preferSpreadSocketToCoreRatio"], any(int64(2)))
	return fmt.Sprintf("spread-%s-%v", strings.ToLower(cmp.Or(across, "SocketsCores")), ratio)
}
