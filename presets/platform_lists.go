package presets

import "github.com/virtwright/virtwright/presets/provenance"

// elements returns the elements of list field name; those without a name are
// left out.
func (c *cursor) elements(name string) []*cursor {
	list, _ := c.get(name).([]any)
	if len(list) == 0 || c.removed(provenance.Segment{Name: name}) || !c.make() {
		return nil
	}
	if at := c.path().With(provenance.Segment{Name: name}); !c.w.checkElements(list, byName, at.String()) {
		return nil
	}
	out := make([]*cursor, 0, len(list))
	for i, e := range list {
		fields, _ := e.(map[string]any)
		if key, _ := fields["name"].(string); key != "" {
			out = append(out, c.element(name, key, i))
		}
	}
	return out
}

// names returns the names of the elements in list field name.
func (c *cursor) names(name string) map[string]bool {
	out := map[string]bool{}
	list, _ := c.get(name).([]any)
	for _, e := range list {
		if fields, ok := e.(map[string]any); ok {
			if key, ok := fields["name"].(string); ok {
				out[key] = true
			}
		}
	}
	return out
}

// add appends an element with a name to list field name, unless a preset removed
// that element, or the list.
func (c *cursor) add(name, key string) *cursor {
	at := c.element(name, key, -1)
	_, isList := c.get(name).([]any)
	removed := c.removed(provenance.Segment{Name: name}, provenance.Segment{Name: key, Kind: provenance.Element})
	at.closed = at.closed || removed || !isList && c.has(name)
	at.set("name", key)
	return at
}
