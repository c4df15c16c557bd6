package presets

import (
	"github.com/virtwright/virtwright/presets/vmschema"
)

// ComputedKeys returns the patterns of the computed keys of list elements, by the path of the
// element in Actions.
func (c *Compiled) ComputedKeys() map[string]string {
	out := map[string]string{}
	c.defaults.collectKeys(out)
	c.overrides.collectKeys(out)
	return out
}

func (f *fieldNode) collectKeys(out map[string]string) {
	if f == nil {
		return
	}
	for _, kid := range f.children {
		kid.collectKeys(out)
	}
	for _, kid := range f.unkeyed {
		fields := map[string]any{}
		visitLeaves(kid, func(leaf *fieldNode) {
			value := leaf.value
			if leaf.computed != nil {
				value = leaf.computed.Pattern()
			}
			if leaf.isKey {
				setField(fields, leaf.path[len(kid.path):], value)
			}
		})
		out[kid.text], _ = vmschema.ElementKey(f.schema.Keys, fields)
		kid.collectKeys(out)
	}
}

// SelectsNamespace reports whether the preset may apply to VMs of a namespace.
func (c *Compiled) SelectsNamespace(n Namespace) bool {
	return (c.Cluster() || c.Namespace == n.Name) && matches(c.namespaces, n.Labels)
}

// ReadsNamespace reports whether an expression of the preset reads the namespace of a VM.
func (c *Compiled) ReadsNamespace() bool {
	return c.Expressions().ReadsNamespace()
}
