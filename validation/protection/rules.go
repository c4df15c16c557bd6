package protection

import (
	"slices"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
)

// A Rule says which part of an object only trusted writers may change.
type Rule struct {
	// ID names the rule in messages.
	ID string
	// Kinds it holds for.
	Kinds []presets.Kind
	// Create says that others may not set the part on a create either.
	Create bool
	// NotAddon says that Create does not hold beside KubeVirt, whose webhooks set the part.
	NotAddon bool
	// Part is what must stay as it is.
	Part Part
	// Unless are parts of which a change makes a change of Part legitimate.
	Unless []Part
	// Says why, and what to do instead.
	Says string
}

// A Part is a part of an object. Absent is the same as empty.
type Part struct {
	// Path leads to it, of fields.
	Path []string
	// Prefix selects the strings of a list, or the keys of a map, that begin with it.
	Prefix string
	// Except are keys that Prefix does not mean.
	Except []string
	// Keys selects these keys of a map.
	Keys []string
}

var (
	both      = []presets.Kind{presets.VirtualMachine, presets.VirtualMachineInstance}
	vms       = []presets.Kind{presets.VirtualMachine}
	instances = []presets.Kind{presets.VirtualMachineInstance}
)

// reservedLabels say to KubeVirt where an instance runs and to whom it belongs.
var reservedLabels = []string{
	"kubevirt.io/created-by", "kubevirt.io/migrationJobUID", "kubevirt.io/nodeName",
	"kubevirt.io/migrationTargetNodeName", "kubevirt.io/schedulable", "kubevirt.io/install-strategy",
}

func metadata(name string) Part { return Part{Path: []string{"metadata", name}} }

// reservedKeys are annotations beneath path that people do not write. The
// record of provenance has a rule of its own, and so has the stamp of who asks
// for a template.
func reservedKeys(path ...string) Part {
	return Part{
		Path: append(path, "annotations"), Prefix: v1alpha1.AnnotationPrefix,
		Except: append(v1alpha1.UserAnnotations(), v1alpha1.AnnotationProvenance, v1alpha1.AnnotationTemplateRequester),
	}
}

// VMGeneration is the annotation by which KubeVirt's controller, and nobody
// else, says which VM an instance is of, also when nobody owns it any more.
const VMGeneration = "kubevirt.io/vm-generation"

func keys(field string, names ...string) Part {
	return Part{Path: []string{"metadata", field}, Keys: names}
}

// Rules are the rules, in the order in which they are checked.
func Rules() []Rule { return slices.Clone(rules) }

var rules = []Rule{{
	ID: "owner-references", Kinds: both, Create: true, Part: metadata("ownerReferences"),
	Says: "controllers write owner references, by which garbage collection and lifecycle know what belongs to what",
}, {
	ID: "reserved-finalizers", Kinds: both, Create: true,
	Part: Part{Path: []string{"metadata", "finalizers"}, Prefix: v1alpha1.AnnotationPrefix},
	Says: "virtwright adds and removes its finalizers itself, once what they stand for is done",
}, {
	ID: "reserved-template-finalizers", Kinds: vms, Create: true,
	Part: Part{Path: []string{"spec", "template", "metadata", "finalizers"}, Prefix: v1alpha1.AnnotationPrefix},
	Says: "virtwright adds and removes its finalizers itself, also on instances",
}, {
	ID: "reserved-annotations", Kinds: both, Create: true, Part: reservedKeys("metadata"),
	Says: "virtwright writes annotations that begin with " + v1alpha1.AnnotationPrefix + " itself, but for presets, exclude, reapply and generate-template",
}, {
	ID: "reserved-template-annotations", Kinds: vms, Create: true, Part: reservedKeys("spec", "template", "metadata"),
	Says: "virtwright writes annotations that begin with " + v1alpha1.AnnotationPrefix + " itself, also on instances",
}, {
	ID: "reserved-generation", Kinds: instances, Create: true, Part: keys("annotations", VMGeneration),
	Says: "KubeVirt's controller writes " + VMGeneration + ", which says that an instance is of a VM",
}, {
	ID: "provenance", Kinds: vms, Part: keys("annotations", v1alpha1.AnnotationProvenance),
	Unless: []Part{
		{Path: []string{"spec"}}, metadata("labels"),
		keys("annotations", v1alpha1.AnnotationPresets, v1alpha1.AnnotationExclude, v1alpha1.AnnotationReapply),
	},
	Says: "virtwright writes the record of where fields came from",
}, {
	ID: "instance-provenance", Kinds: instances, Part: keys("annotations", v1alpha1.AnnotationProvenance),
	Says: "virtwright writes the record of where fields came from",
}, {
	ID: "reserved-labels", Kinds: instances, Create: true, Part: keys("labels", reservedLabels...),
	Says: "KubeVirt's controllers write these labels: kubevirt.io/created-by, migrationJobUID, nodeName, migrationTargetNodeName, schedulable, install-strategy",
}, {
	ID: "reserved-template-labels", Kinds: vms, Create: true,
	Part: Part{Path: []string{"spec", "template", "metadata", "labels"}, Keys: reservedLabels},
	Says: "KubeVirt's controllers write these labels: kubevirt.io/created-by, migrationJobUID, nodeName, migrationTargetNodeName, schedulable, install-strategy",
}, {
	ID: "instance-spec", Kinds: instances, Part: Part{Path: []string{"spec"}},
	Says: "a running instance does not change; change its VirtualMachine and restart it, or make a new instance",
}, {
	ID: "instance-status", Kinds: instances, Create: true, NotAddon: true, Part: Part{Path: []string{"status"}},
	Says: "controllers write status",
}}
