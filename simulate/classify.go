// Package simulate simulates a cluster: it sorts objects of files, compiles presets, and passes VMs
// through the webhooks like an API server.
package simulate

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
	kjson "sigs.k8s.io/json"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/tree"
	"github.com/virtwright/virtwright/simulate/manifest"
	"github.com/virtwright/virtwright/webhooks/conversion"
)

type entry struct {
	manifest.Object
	role role
	meta metav1.PartialObjectMetadata
	// warnings of the validating webhook.
	warnings []string
	// read is true if the metadata could be decoded.
	read bool
	// param is true if a policy uses the kind as parameter.
	param bool
	// ignored is true if virtwright does not apply the object.
	ignored bool
}

// A Leftover counts the ignored objects of one kind in one file.
type Leftover struct {
	File       string `json:"file"`
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Count      int    `json:"count"`
}

// String returns a note for the user.
func (l Leftover) String() string {
	return fmt.Sprintf("%s: ignored %d of kind %s (%s)", l.File, l.Count, l.Kind, l.APIVersion)
}

func (e *entry) ref() string {
	return nameIn(e.Kind, e.meta.Namespace, e.meta.Name, e.meta.GenerateName)
}

// nameIn returns kind and name in one line.
func nameIn(kind, namespace, name, generateName string) string {
	if name == "" && generateName != "" {
		name = generateName + "*"
	}
	switch {
	case name == "":
		return presets.EscapeLine(kind)
	case namespace != "":
		name = namespace + "/" + name
	}
	return presets.EscapeLine(strings.TrimSpace(kind + " " + name))
}

// sorted determines the role of each object. Objects of unsupported kinds that are no error are
// returned in left.
func sorted(objects []manifest.Object, reject unsupportedKinds) (entries []*entry, left []Leftover, err error) {
	var problems []error
	skipped, params := map[Leftover]int{}, paramKinds(objects)
	supported := supportedFiles(objects)
	for _, o := range objects {
		gv, parseErr := schema.ParseGroupVersion(o.APIVersion)
		kind := schema.GroupKind{Group: gv.Group, Kind: o.Kind}
		known := kinds[kind]
		if known.role == unknown && params[kind] {
			known.role, known.versions = parameter, []string{gv.Version}
		}
		switch {
		case isSuite(o): // only for virtwright test
		case parseErr != nil:
			problems = append(problems, unsupported(o, "apiVersion", "invalid apiVersion %q", o.APIVersion))
		case known.role == unknown:
			err := reject.check(o, kind, !supported.Has(o.Where.File))
			if problems = append(problems, err); err == nil && !o.Context { // the user did not ask for context, such as parameters
				skipped[Leftover{File: o.Where.File, APIVersion: o.APIVersion, Kind: o.Kind}]++
			}
		case !slices.Contains(known.versions, gv.Version):
			problems = append(problems, unsupported(o, "apiVersion", "unsupported version of kind %s: %s: use %s", o.Kind, o.APIVersion,
				schema.GroupVersion{Group: gv.Group, Version: known.versions[0]}))
		default:
			e := &entry{Object: o, role: known.role, param: params[kind]}
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

// supportedFiles returns the files with an object of a supported kind.
func supportedFiles(objects []manifest.Object) sets.Set[string] {
	files := sets.New[string]()
	for _, o := range objects {
		if gv, _ := schema.ParseGroupVersion(o.APIVersion); isSuite(o) || kinds[schema.GroupKind{Group: gv.Group, Kind: o.Kind}].role != unknown {
			files.Insert(o.Where.File)
		}
	}
	return files
}

func unsupported(o manifest.Object, field, format string, args ...any) error {
	return &manifest.DocumentError{Where: o.Where, Field: field, Message: fmt.Sprintf(format, args...)}
}

// setMeta reads the metadata of a decoded object.
func (e *entry) setMeta(object map[string]any) error {
	meta := map[string]any{"apiVersion": object["apiVersion"], "kind": object["kind"], "metadata": object["metadata"]}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(meta, &e.meta)
}

// readMeta decodes at least the name; errors are reported when the object is decoded.
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
	_ = json.Unmarshal(e.JSON, &named) // decodes the fields of the right type
	e.meta.Name, e.meta.Namespace = named.Metadata.Name, named.Metadata.Namespace
}

func (e *entry) namespaced() bool {
	return e.Kind != v1alpha1.KindClusterVirtualMachinePreset && e.role != profile && e.role != namespace && e.role != policy && e.role != mutatingPolicy && !strings.HasPrefix(e.Kind, "VirtualMachineCluster")
}

// place sets or removes the namespace like kubectl and API servers do.
func (e *entry) place(namespace string) error {
	switch {
	case !e.namespaced():
		namespace = ""
	case e.meta.Namespace != "":
		return nil
	}
	object, err := e.decode()
	if err != nil {
		return err
	}
	meta, ok := object["metadata"].(map[string]any)
	if !ok && object["metadata"] != nil {
		return nil // rejected later with a better message
	}
	if _, isText := meta["namespace"].(string); !isText && meta["namespace"] != nil {
		return nil // rejected later: replacing it would hide the problem
	}
	if meta == nil {
		meta = map[string]any{}
		object["metadata"] = meta
	}
	meta["namespace"], e.meta.Namespace = namespace, namespace
	if namespace == "" {
		delete(meta, "namespace")
	}
	e.JSON, err = json.Marshal(object)
	return err
}

// prepare sets the namespace and validates the metadata.
func (e *entry) prepare(namespace string) error {
	if err := e.place(namespace); err != nil {
		return err
	}
	return e.rejected(e.metadataProblems())
}

// metadataProblems reports invalid metadata with an API server's messages. Stored objects other
// than VMs are as an API server accepted them. Other checks report wrong types of VMs.
func (e *entry) metadataProblems() []Problem {
	meta, path := e.meta.ObjectMeta, field.NewPath("metadata")
	switch {
	case e.isStored() && e.role != vmOrVMI, !e.read && e.role == vmOrVMI:
		return nil
	case !e.read:
		object, _ := e.decode()
		return problemsOf(presets.CheckSchema(presets.VirtualMachineInstancePreset, map[string]any{"metadata": object["metadata"]}).Mistyped)
	case meta.Name == "" && meta.GenerateName != "":
		if e.role != vmOrVMI && e.role != instancetype {
			return problemsOf(field.ErrorList{field.Required(path.Child("name"), "only a cluster generates names; set the name")})
		}
		meta.Name = meta.GenerateName + "00000" // as many characters as the API server adds
	}
	return problemsOf(apivalidation.ValidateObjectMeta(&meta, e.namespaced(),
		apivalidation.NameIsDNSSubdomain, path))
}

func (e *entry) decode() (object map[string]any, err error) {
	if err = kjson.UnmarshalCaseSensitivePreserveInts(e.JSON, &object); err != nil {
		err = fmt.Errorf("%s: cannot read %s: %w", e.Where, e.ref(), err)
	}
	return object, err
}

// rejected returns a Rejection with the problems; nil for none.
func (e *entry) rejected(problems []Problem) error {
	if len(problems) == 0 {
		return nil
	}
	return &Rejection{Where: e.Where, Object: e.ref(), Problems: problems}
}

// convert converts to v1. KubeVirt serves no other version with a different schema.
func (e *entry) convert(standalone bool) error {
	switch {
	case e.APIVersion != conversion.V1Alpha2:
		return nil
	case !standalone:
		return fmt.Errorf("%s: unsupported version of kind %s alongside KubeVirt: %s: use %s", e.Where, e.Kind, e.APIVersion, conversion.V1)
	}
	object, err := e.decode()
	if err != nil {
		return err
	}
	converted, err := conversion.Convert(object, conversion.V1)
	if err != nil {
		return fmt.Errorf("%s: %w", e.Where, err)
	}
	if status, ok := converted["status"].(map[string]any); ok {
		delete(status, "virtualMachine") // as stored in v1
	}
	e.JSON, err = json.Marshal(converted)
	return err
}

// Replace joins files and those stored objects that have no equal kind, namespace and name.
func Replace(stored, files []manifest.Object, namespace string) []manifest.Object {
	return slices.Concat(files, Without(stored, files, namespace))
}

type identity struct{ group, kind, namespace, name string }

// presetName returns the name of a preset.
func (id identity) presetName() presets.PresetName {
	if id.kind == v1alpha1.KindClusterVirtualMachinePreset {
		return presets.PresetName{Ref: "cluster/" + id.name}
	}
	return presets.PresetName{Namespace: id.namespace, Ref: id.name}
}

func identify(o manifest.Object, namespace string) (identity, role) {
	gv, err := schema.ParseGroupVersion(o.APIVersion)
	if err != nil {
		return identity{}, unknown // reported when the object is sorted
	}
	e := entry{Object: o, role: kinds[schema.GroupKind{Group: gv.Group, Kind: o.Kind}].role}
	e.readMeta()
	id := identity{gv.Group, o.Kind, e.meta.Namespace, e.meta.Name}
	if !e.namespaced() {
		id.namespace = ""
	} else if id.namespace == "" {
		id.namespace = namespace
	}
	return id, e.role
}

func roleOf(o manifest.Object) role {
	_, is := identify(o, "")
	return is
}

// IsPreset reports whether an object is a preset.
func IsPreset(o manifest.Object) bool {
	return roleOf(o) == preset
}

// PresetPositions returns the positions of presets. Those without a namespace are in the given one.
func PresetPositions(objects []manifest.Object, namespace string) map[presets.PresetName]manifest.Position {
	out := map[presets.PresetName]manifest.Position{}
	for _, o := range objects {
		if id, is := identify(o, namespace); is == preset || is == legacyPreset {
			out[id.presetName()] = o.Where
		}
	}
	return out
}

// IsVM reports whether an object is a VM or a VMI.
func IsVM(o manifest.Object) bool { return roleOf(o) == vmOrVMI }

// serverAnnotations describe a stored object, not what it should be.
var (
	serverAnnotations = []string{
		kubevirtv1.ControllerAPILatestVersionObservedAnnotation, kubevirtv1.ControllerAPIStorageVersionObservedAnnotation,
	}
	serverLabels = append(slices.Clip(presets.ReservedLabels), kubevirtv1.VirtualMachinePoolRevisionName)
)

// AsNew returns an object in the namespace if it needs one and has none; default is not written.
// It leaves out the copy of the object that kubectl apply keeps. Of a stored object it also leaves
// out status, the metadata that only API servers set, and labels and annotations of KubeVirt's
// controllers.
func AsNew(o manifest.Object, namespace string) (map[string]any, error) {
	e := entry{Object: o, role: roleOf(o)}
	e.readMeta()
	return e.asNew(namespace)
}

func (e entry) asNew(namespace string) (map[string]any, error) {
	if e.role != unknown && e.namespaced() && namespace != metav1.NamespaceDefault {
		if err := e.place(namespace); err != nil {
			return nil, err
		}
	}
	object, err := e.decode()
	if err != nil {
		return nil, err
	}
	meta, annotations := metadataOf(object)
	delete(annotations, corev1.LastAppliedConfigAnnotation)
	if e.isStored() {
		for _, name := range serverFields {
			delete(meta, name)
		}
		for _, key := range serverAnnotations {
			delete(annotations, key)
		}
		dropLabels(meta)
		template, _ := tree.Lookup(object, "spec.template.metadata")
		dropLabels(tree.AsObject(template))
		delete(object, "status")
	}
	if len(annotations) == 0 {
		delete(meta, "annotations")
	}
	return object, nil
}

func dropLabels(meta map[string]any) {
	labels := tree.AsObject(meta["labels"])
	before := len(labels)
	for _, key := range serverLabels {
		delete(labels, key)
	}
	if before > 0 && len(labels) == 0 {
		delete(meta, "labels")
	}
}

// IsRule reports whether an object is a preset, a policy or a policy binding.
func IsRule(o manifest.Object) bool {
	is := roleOf(o)
	return is == preset || is == policy
}

// IsPlanned reports whether a plan compares the object; unknown kinds may be parameters.
func IsPlanned(o manifest.Object) bool {
	is := roleOf(o)
	return IsRule(o) || is == exception || is == unknown
}

// Without returns the objects that are not in others, compared by kind, namespace and name.
func Without(objects, others []manifest.Object, namespace string) []manifest.Object {
	has := map[identity]bool{}
	for _, o := range others {
		id, _ := identify(o, namespace)
		has[id] = id.name != ""
	}
	return slices.DeleteFunc(slices.Clone(objects), func(o manifest.Object) bool {
		id, _ := identify(o, namespace)
		return has[id]
	})
}
