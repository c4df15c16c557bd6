package vmschema

import (
	"reflect"
	"strings"
	"testing"

	kubevirtv1 "kubevirt.io/api/core/v1"
)

// atomicLists are the lists without a key, each with the reason.
var atomicLists = map[string]string{
	"core/v1.DHCPOptions.ntpServers":                                          "addresses in order of preference",
	"core/v1.Devices.panicDevices":                                            "no field names a panic device",
	"core/v1.ExecAction.command":                                              "a command line",
	"core/v1.HTTPGetAction.httpHeaders":                                       "a header may repeat",
	"core/v1.Interface.portRanges":                                            "ranges may not overlap, so they are chosen together",
	"core/v1.NodeAffinity.preferredDuringSchedulingIgnoredDuringExecution":    "no field names a term",
	"core/v1.NodeSelector.nodeSelectorTerms":                                  "terms are alternatives: adding one loosens the rest",
	"core/v1.NodeSelectorRequirement.values":                                  "one set of values",
	"core/v1.NodeSelectorTerm.matchExpressions":                               "one expression",
	"core/v1.NodeSelectorTerm.matchFields":                                    "one expression",
	"core/v1.PersistentVolumeClaimSpec.accessModes":                           "modes are chosen together",
	"core/v1.PodAffinity.preferredDuringSchedulingIgnoredDuringExecution":     "no field names a term",
	"core/v1.PodAffinity.requiredDuringSchedulingIgnoredDuringExecution":      "no field names a term",
	"core/v1.PodAffinityTerm.matchLabelKeys":                                  "one set of keys",
	"core/v1.PodAffinityTerm.mismatchLabelKeys":                               "one set of keys",
	"core/v1.PodAffinityTerm.namespaces":                                      "one set of names",
	"core/v1.PodAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution": "no field names a term",
	"core/v1.PodAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution":  "no field names a term",
	"core/v1.PodDNSConfig.nameservers":                                        "addresses in order of preference",
	"core/v1.PodDNSConfig.searches":                                           "domains in order of preference",
	"core/v1.QemuGuestAgentSSHPublicKeyAccessCredentialPropagation.users":     "users are chosen together",
	"core/v1.TopologySpreadConstraint.matchLabelKeys":                         "one set of keys",
	"core/v1.VirtualMachineInstanceSpec.accessCredentials":                    "no field names a credential",
	"core/v1beta1.DataVolumeSourceHTTP.extraHeaders":                          "a header may repeat",
	"core/v1beta1.DataVolumeSourceHTTP.secretExtraHeaders":                    "a header may repeat",
	"core/v1beta1.DataVolumeSpec.checkpoints":                                 "stages of one import, in order",
	"core/v1beta1.StorageSpec.accessModes":                                    "modes are chosen together",
	"meta/v1.LabelSelector.matchExpressions":                                  "one selector",
	"meta/v1.LabelSelectorRequirement.values":                                 "one set of values",
}

// independentMembers are the types with optional members that may all be set at once.
var independentMembers = map[string]string{
	"core/v1.InterfaceBindingMethod":             "a part of Interface, whose choice has binding as well",
	"core/v1.CPU":                                "independent properties",
	"core/v1.Memory":                             "independent properties",
	"core/v1.Firmware":                           "independent properties",
	"core/v1.Timer":                              "a guest may have every timer",
	"core/v1.TLBFlush":                           "independent extensions",
	"core/v1.FeatureHyperv":                      "independent enlightenments",
	"core/v1.Devices":                            "independent devices",
	"core/v1.SEV":                                "independent properties",
	"core/v1.DomainSpec":                         "independent parts",
	"core/v1.Affinity":                           "independent kinds of affinity",
	"core/v1.PodAffinityTerm":                    "both selectors apply",
	"core/v1.VirtualMachineInstanceSpec":         "independent parts",
	"core/v1.SSHPublicKeyAccessCredentialSource": "one source so far",
	"core/v1.UserPasswordAccessCredentialSource": "one source so far",
	"core/v1.QemuGuestAgentUserPasswordAccessCredentialPropagation": "no members",
}

// TestEveryListAndChoiceIsClassified walks KubeVirt's Go types: a list that stands in neither list
// table, a type with several optional members that stands in neither one-of table, and an entry for
// a type that does not exist, all fail.
func TestEveryListAndChoiceIsClassified(t *testing.T) {
	w := typeWalk{lists: map[string]bool{}, structs: map[string]bool{}, seen: map[reflect.Type]bool{}}
	w.walk(reflect.TypeFor[kubevirtv1.VirtualMachineSpec]())
	for name := range w.lists {
		_, keyed := keyedLists[name]
		_, atomic := atomicLists[name]
		if keyed == atomic {
			t.Errorf("list %s: keyed %v, atomic %v; want it in keyedLists or in atomicLists", name, keyed, atomic)
		}
	}
	for name, several := range w.structs {
		_, choice := oneOfs[name]
		_, no := independentMembers[name]
		if several && !choice && !no {
			t.Errorf("%s has several optional members: put it into oneOfs or independentMembers", name)
		}
		if choice && no {
			t.Errorf("%s stands in oneOfs and in independentMembers", name)
		}
	}
	for name := range keyedLists {
		if !w.lists[name] {
			t.Errorf("KubeVirt has no list %s", name)
		}
	}
	for name := range atomicLists {
		if !w.lists[name] {
			t.Errorf("KubeVirt has no list %s", name)
		}
	}
	for name, groups := range oneOfs {
		w.checkGroups(t, name, groups)
	}
	for name := range independentMembers {
		if _, ok := w.structs[name]; !ok {
			t.Errorf("KubeVirt has no type %s", name)
		}
	}
}

type typeWalk struct {
	lists   map[string]bool
	structs map[string]bool // with whether they have several optional members
	fields  map[string][]string
	seen    map[reflect.Type]bool
}

func (w *typeWalk) walk(t reflect.Type) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	// API machinery sets these fields; see reservedPath.
	if t.Kind() != reflect.Struct || w.seen[t] || scalarTypes[t] != 0 || t.Name() == "ObjectMeta" || t.Name() == "RawExtension" {
		return
	}
	w.seen[t] = true
	members := 0
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name != "" && name != "-" {
			w.note(t, name)
			if f.Type.Kind() == reflect.Slice && f.Type.Elem().Kind() != reflect.Uint8 {
				w.lists[typeName(t)+"."+name] = true
			}
			if f.Type.Kind() == reflect.Pointer && f.Type.Elem().Kind() == reflect.Struct && scalarTypes[f.Type.Elem()] == 0 {
				members++
			}
		}
		w.walk(f.Type)
	}
	w.structs[typeName(t)] = members > 1
}

func (w *typeWalk) note(t reflect.Type, field string) {
	if w.fields == nil {
		w.fields = map[string][]string{}
	}
	w.fields[typeName(t)] = append(w.fields[typeName(t)], field)
}

func (w *typeWalk) checkGroups(t *testing.T, name string, groups []oneOf) {
	s := VM()
	found := findSchema(s, name, map[*Schema]bool{})
	for _, group := range groups {
		for _, alternative := range group {
			for _, field := range alternative {
				if found != nil && found.Fields[field] == nil {
					t.Errorf("%s has no field %s", name, field)
				}
				if _, known := w.structs[name]; !known {
					t.Errorf("KubeVirt has no type %s", name)
				}
			}
		}
	}
}

// findSchema finds the schema of a type; embedded types have none of their own.
func findSchema(s *Schema, name string, seen map[*Schema]bool) *Schema {
	if s == nil || seen[s] {
		return nil
	}
	seen[s] = true
	if s.GoType == name {
		return s
	}
	for _, f := range s.Fields {
		if found := findSchema(f, name, seen); found != nil {
			return found
		}
	}
	return findSchema(s.Elem, name, seen)
}
