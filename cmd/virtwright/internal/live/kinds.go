package live

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/virtwright/virtwright/api/v1alpha1"
)

// kind is a kind of objects that a cluster is asked for.
type kind struct {
	schema.GroupVersionResource
	namespaced bool
	// names are the types that a user may write. The first is the shortest.
	names []string
	// unread says what is unknown if the user may not read the kind; empty if that is an error.
	unread string
}

var (
	kubevirt     = schema.GroupVersion{Group: "kubevirt.io", Version: "v1"}
	instancetype = schema.GroupVersion{Group: "instancetype.kubevirt.io", Version: "v1beta1"}

	vms   = named("virtualmachine", "vm", kubevirt, true)
	vmis  = named("virtualmachineinstance", "vmi", kubevirt, true)
	local = named("virtualmachinepreset", "vmpreset", v1alpha1.GroupVersion, true)
	wide  = named("clustervirtualmachinepreset", "cvmpreset", v1alpha1.GroupVersion, false)

	// types are those that a user may name.
	types = []kind{vms, vmis, local, wide}

	namespaces = kind{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}, unread: "the labels of namespaces are unknown"}

	exceptions = kind{GroupVersionResource: v1alpha1.GroupVersion.WithResource(v1alpha1.ResourcePresetExceptions), namespaced: true, unread: "PresetExceptions are unknown"}

	// standalone are the kinds that act only where KubeVirt is not installed.
	standalone = []kind{
		{GroupVersionResource: kubevirt.WithResource("virtualmachineinstancepresets"), namespaced: true},
		{GroupVersionResource: v1alpha1.GroupVersion.WithResource("frontendprofiles"), unread: "FrontendProfiles are unknown"},
		{GroupVersionResource: v1alpha1.GroupVersion.WithResource("backendprofiles"), unread: "BackendProfiles are unknown"},
	}
	// alongside are the kinds that act only where KubeVirt is installed.
	alongside = []kind{
		{GroupVersionResource: instancetype.WithResource("virtualmachineinstancetypes"), namespaced: true},
		{GroupVersionResource: instancetype.WithResource("virtualmachineclusterinstancetypes")},
		{GroupVersionResource: instancetype.WithResource("virtualmachinepreferences"), namespaced: true},
		{GroupVersionResource: instancetype.WithResource("virtualmachineclusterpreferences")},
	}
)

func named(singular, short string, in schema.GroupVersion, namespaced bool) kind {
	return kind{GroupVersionResource: in.WithResource(singular + "s"), namespaced: namespaced, names: []string{short, short + "s", singular}}
}

// typeOf finds the type that a user names: short, singular or plural, with or without its group.
func typeOf(name string) (kind, bool) {
	for _, k := range types {
		if slices.Contains(k.names, name) || name == k.Resource || name == k.GroupResource().String() {
			return k, true
		}
	}
	return kind{}, false
}

// IsType reports whether a user may name a type so.
func IsType(name string) bool {
	_, found := typeOf(name)
	return found
}

// A Name names an object of a cluster, or all objects of a type.
type Name struct {
	kind kind
	name string
}

// IsVM reports whether it names VMs or VMIs.
func (n Name) IsVM() bool { return n.kind.isVM() }

// Type is the short name of its type.
func (n Name) Type() string { return n.kind.names[0] }

// Name is the object's name, empty for all objects of the type.
func (n Name) Name() string { return n.name }

// IsAll reports whether it names all objects of a type.
func (n Name) IsAll() bool { return n.name == "" }

func (k kind) isVM() bool { return k.Resource == vms.Resource || k.Resource == vmis.Resource }

func (k kind) isProfile() bool {
	return k.Resource == "frontendprofiles" || k.Resource == "backendprofiles"
}

// Names reads arguments as kubectl does: TYPE/NAME..., or TYPE NAME...
func Names(args []string) ([]Name, error) {
	var out []Name
	for i, arg := range args {
		typed, name, found := strings.Cut(arg, "/")
		switch {
		case !found && i > 0:
			return nil, fmt.Errorf("%s: give each object as TYPE/NAME, or one TYPE and names", arg)
		case found && name == "":
			return nil, fmt.Errorf("%s: the name is missing", arg)
		}
		k, known := typeOf(typed)
		if !known {
			return nil, unsupported(typed)
		}
		if found {
			out = append(out, Name{k, name})
			continue
		}
		for _, name := range args[1:] {
			if strings.Contains(name, "/") {
				return nil, fmt.Errorf("%s: give each object as TYPE/NAME, or one TYPE and names", name)
			}
			out = append(out, Name{k, name})
		}
		if len(args) == 1 {
			out = append(out, Name{kind: k})
		}
		return out, nil
	}
	return out, nil
}

func unsupported(typed string) error {
	var quoted []string
	for _, k := range types {
		quoted = append(quoted, fmt.Sprintf("%q", k.names[0]))
	}
	return fmt.Errorf("%s: Unsupported value: supported types: %s; give each file its own -f", typed, strings.Join(quoted, ", "))
}
