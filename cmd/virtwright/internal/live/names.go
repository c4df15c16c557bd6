package live

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A Name identifies an object of a cluster, or all objects of a type.
type Name struct {
	kind kind
	name string
}

// Type returns the short name of the type.
func (n Name) Type() string { return n.kind.names[0] }

// Name returns the name of the object; empty for all objects of the type.
func (n Name) Name() string { return n.name }

// IsAll reports whether it identifies all objects of a type.
func (n Name) IsAll() bool { return n.name == "" }

// Names parses arguments like kubectl: TYPE/NAME..., TYPE NAME..., or TYPE for all objects. A name
// without a type is that of a VM.
func Names(args []string) ([]Name, error) {
	of, typed := vms, false
	if len(args) > 0 {
		if k, known := typeOf(args[0]); known {
			if of, typed, args = k, true, args[1:]; len(args) == 0 {
				return []Name{{kind: of}}, nil
			}
		}
	}
	var out []Name
	for _, arg := range args {
		before, name, found := strings.Cut(arg, "/")
		if !found {
			before, name = of.names[0], arg
		}
		k, known := typeOf(before)
		switch {
		case found && typed, !found && IsType(arg):
			return nil, fmt.Errorf("%s: use TYPE/NAME for each object, or one TYPE followed by names", arg)
		case name == "":
			return nil, fmt.Errorf("%s: name is required", arg)
		case !known:
			return nil, unsupported(before)
		}
		out = append(out, Name{k, name})
	}
	return out, nil
}

func unsupported(typed string) error {
	var quoted []string
	for _, k := range types {
		quoted = append(quoted, fmt.Sprintf("%q", k.names[0]))
	}
	return fmt.Errorf("%s: unsupported type: supported types: %s", typed, strings.Join(quoted, ", "))
}

func typeOf(name string) (kind, bool) {
	for _, k := range types {
		if slices.Contains(k.names, name) || name == k.Resource || name == k.GroupResource().String() {
			return k, true
		}
	}
	return kind{}, false
}

// Resource returns the resource of a type, and whether it is namespaced.
func Resource(typed string) (of schema.GroupVersionResource, namespaced, known bool) {
	k, known := typeOf(typed)
	return k.GroupVersionResource, k.namespaced, known
}

// IsType reports whether a name is a supported type.
func IsType(name string) bool {
	_, found := typeOf(name)
	return found
}
