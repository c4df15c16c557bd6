// Package offline plays a cluster for presets and machines that lie in files: it
// sorts objects, compiles presets and gives machines to the engine as an API
// server would through the webhooks.
package offline

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/cmd/virtwright/internal/manifest"
	"github.com/virtwright/virtwright/webhooks/conversion"
)

// A role is what an object is for.
type role int

const (
	unknown role = iota
	preset
	legacyPreset
	profile
	machine
	namespace
	instancetype
	exception
)

const (
	kubevirtGroup     = "kubevirt.io"
	instancetypeGroup = "instancetype.kubevirt.io"
	virtwrightGroup   = "virtwright.dev"
	kindLegacy        = "VirtualMachineInstancePreset"
)

// kinds are those that mean something here.
var kinds = map[schema.GroupKind]struct {
	role     role
	versions []string
}{
	{Group: virtwrightGroup, Kind: v1alpha1.KindVirtualMachinePreset}:        {preset, []string{"v1alpha1"}},
	{Group: virtwrightGroup, Kind: v1alpha1.KindClusterVirtualMachinePreset}: {preset, []string{"v1alpha1"}},
	{Group: virtwrightGroup, Kind: v1alpha1.KindPresetException}:             {exception, []string{"v1alpha1"}},
	{Group: virtwrightGroup, Kind: v1alpha1.KindFrontendProfile}:             {profile, []string{"v1alpha1"}},
	{Group: virtwrightGroup, Kind: v1alpha1.KindBackendProfile}:              {profile, []string{"v1alpha1"}},
	{Group: kubevirtGroup, Kind: kindLegacy}:                                 {legacyPreset, []string{"v1", "v1alpha3"}},
	{Group: kubevirtGroup, Kind: "VirtualMachine"}:                           {machine, []string{"v1", "v1alpha3", "v1alpha2"}},
	{Group: kubevirtGroup, Kind: "VirtualMachineInstance"}:                   {machine, []string{"v1", "v1alpha3"}},
	{Kind: "Namespace"}: {namespace, []string{"v1"}},
	{Group: instancetypeGroup, Kind: "VirtualMachineInstancetype"}:        {instancetype, []string{"v1beta1"}},
	{Group: instancetypeGroup, Kind: "VirtualMachineClusterInstancetype"}: {instancetype, []string{"v1beta1"}},
	{Group: instancetypeGroup, Kind: "VirtualMachinePreference"}:          {instancetype, []string{"v1beta1"}},
	{Group: instancetypeGroup, Kind: "VirtualMachineClusterPreference"}:   {instancetype, []string{"v1beta1"}},
}

// kindNames say what is looked for.
const kindNames = "VirtualMachine, VirtualMachineInstance, VirtualMachinePreset, ClusterVirtualMachinePreset, VirtualMachineInstancePreset, PresetException, FrontendProfile, BackendProfile, Namespace, or an instancetype or preference of KubeVirt"

// entry is an object with what it is for.
type entry struct {
	manifest.Object
	role role
	meta metav1.PartialObjectMetadata
	// warnings of the webhook that judged it.
	warnings []string
	// read says that meta is all of the object's metadata.
	read bool
	// ignored says that somebody else acts on the object.
	ignored bool
}

// A Leftover counts the objects of one kind in one file that mean nothing here.
type Leftover struct {
	File       string `json:"file"`
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Count      int    `json:"count"`
}

// String says what was left out.
func (l Leftover) String() string {
	return fmt.Sprintf("%s: ignored %d of kind %s (%s)", l.File, l.Count, l.Kind, l.APIVersion)
}

// ref is how the object is called in messages.
func (e *entry) ref() string {
	return nameIn(e.Kind, e.meta.Namespace, e.meta.Name, e.meta.GenerateName)
}

func nameIn(kind, namespace, name, generateName string) string {
	if name == "" && generateName != "" {
		name = generateName + "*"
	}
	if namespace != "" {
		name = namespace + "/" + name
	}
	return strings.TrimSpace(kind + " " + name)
}

// sorted finds out what each object is for. Objects that are for nothing here
// are an error where the user named their file, if strict, and left otherwise.
func sorted(objects []manifest.Object, strict bool) (entries []*entry, left []Leftover, err error) {
	var problems []error
	skipped := map[Leftover]int{}
	for _, o := range objects {
		gv, parseErr := schema.ParseGroupVersion(o.APIVersion)
		known := kinds[schema.GroupKind{Group: gv.Group, Kind: o.Kind}]
		switch {
		case parseErr != nil:
			problems = append(problems, fmt.Errorf("%s: cannot understand apiVersion %q", o.Where, o.APIVersion))
		case known.role == unknown && o.Named && strict:
			problems = append(problems, fmt.Errorf("%s: kind %s of %s is unknown here: want %s", o.Where, o.Kind, o.APIVersion, kindNames))
		case known.role == unknown:
			skipped[Leftover{File: o.Where.File, APIVersion: o.APIVersion, Kind: o.Kind}]++
		case !slices.Contains(known.versions, gv.Version):
			problems = append(problems, fmt.Errorf("%s: kind %s has no version %s: want %s", o.Where, o.Kind, o.APIVersion,
				schema.GroupVersion{Group: gv.Group, Version: known.versions[0]}))
		default:
			e := &entry{Object: o, role: known.role}
			e.readMeta()
			entries = append(entries, e)
		}
	}
	for l, count := range skipped {
		l.Count = count
		left = append(left, l)
	}
	slices.SortFunc(left, func(a, b Leftover) int { return strings.Compare(a.String(), b.String()) })
	return entries, left, errors.Join(problems...)
}

// readMeta reads what it can of the name; what is wrong is told where the whole
// object is decoded.
func (e *entry) readMeta() {
	err := kjson.UnmarshalCaseSensitivePreserveInts(e.JSON, &e.meta)
	if e.read = err == nil; e.read {
		return
	}
	var named struct {
		Metadata struct {
			Name      string `json:"name"`
			Namespace string `json:"namespace"`
		} `json:"metadata"`
	}
	if json.Unmarshal(e.JSON, &named) == nil {
		e.meta.Name, e.meta.Namespace = named.Metadata.Name, named.Metadata.Namespace
	}
}

// namespaced says whether objects of the kind lie in namespaces.
func (e *entry) namespaced() bool {
	return e.Kind != v1alpha1.KindClusterVirtualMachinePreset && e.role != profile && e.role != namespace && !strings.HasPrefix(e.Kind, "VirtualMachineCluster")
}

// place gives the object a namespace where it has none, as kubectl does, and
// takes it from one that is not namespaced, as an API server does.
func (e *entry) place(namespace string) error {
	switch {
	case !e.namespaced():
		namespace = ""
	case e.meta.Namespace != "":
		return nil
	}
	var object map[string]any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(e.JSON, &object); err != nil {
		return fmt.Errorf("%s: cannot read %s: %w", e.Where, e.ref(), err)
	}
	meta, ok := object["metadata"].(map[string]any)
	if !ok && object["metadata"] != nil {
		return nil // refused later, in better words
	}
	if meta == nil {
		meta = map[string]any{}
		object["metadata"] = meta
	}
	meta["namespace"], e.meta.Namespace = namespace, namespace
	if namespace == "" {
		delete(meta, "namespace")
	}
	var err error
	e.JSON, err = json.Marshal(object)
	return err
}

// convert turns what has another form into version v1, as an API server does
// before it asks webhooks. KubeVirt has only the form of v1.
func (e *entry) convert(standalone bool) error {
	switch {
	case e.APIVersion != conversion.V1Alpha2:
		return nil
	case !standalone:
		return fmt.Errorf("%s: kind %s has no version %s alongside KubeVirt: want %s", e.Where, e.Kind, e.APIVersion, conversion.V1)
	}
	var object map[string]any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(e.JSON, &object); err != nil {
		return fmt.Errorf("%s: cannot read %s: %w", e.Where, e.ref(), err)
	}
	converted, err := conversion.Convert(object, conversion.V1)
	if err != nil {
		return fmt.Errorf("%s: %w", e.Where, err)
	}
	if status, ok := converted["status"].(map[string]any); ok {
		delete(status, "virtualMachine") // as where v1 is stored
	}
	e.JSON, err = json.Marshal(converted)
	return err
}
