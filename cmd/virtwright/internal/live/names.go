package live

import (
	"fmt"
	"strings"
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

// Names parses arguments like kubectl: TYPE/NAME..., or TYPE NAME...
func Names(args []string) ([]Name, error) {
	var out []Name
	for i, arg := range args {
		typed, name, found := strings.Cut(arg, "/")
		switch {
		case !found && i > 0:
			return nil, fmt.Errorf("%s: use TYPE/NAME for each object, or one TYPE followed by names", arg)
		case found && name == "":
			return nil, fmt.Errorf("%s: name is required", arg)
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
				return nil, fmt.Errorf("%s: use TYPE/NAME for each object, or one TYPE followed by names", name)
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
	return fmt.Errorf("%s: unsupported type: supported types: %s; use -f for each file", typed, strings.Join(quoted, ", "))
}
