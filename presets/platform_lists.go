package presets

import "github.com/virtwright/virtwright/presets/provenance"

// elements returns the spots of the elements in list field name; elements
// without a name are nobody's.
func (s *spot) elements(name string) []*spot {
	list, _ := s.get(name).([]any)
	if len(list) == 0 || s.taken(provenance.Segment{Name: name}) || !s.make() {
		return nil
	}
	if at := s.path().With(provenance.Segment{Name: name}); !s.m.w.checkElements(list, byName, at.String()) {
		return nil
	}
	n := s.m.w.rec.Child(s.node, provenance.Segment{Name: name})
	out := make([]*spot, 0, len(list))
	for i, e := range list {
		fields, _ := e.(map[string]any)
		if key, _ := fields["name"].(string); key != "" {
			out = append(out, s.element(n, key, i, fields))
		}
	}
	return out
}

// element is the spot of element i of the list that is recorded at n.
func (s *spot) element(n *provenance.Node, key string, i int, fields map[string]any) *spot {
	at := s.m.w.rec.Child(n, provenance.Segment{Name: key, Kind: provenance.Element})
	if at.Change != provenance.Added {
		at.Index = int32(i)
	}
	return &spot{
		m: s.m, parent: s, name: n.Name, key: key, obj: fields, node: at,
		fresh: s.fresh || n.Change == provenance.Added || at.Change == provenance.Added,
	}
}

// names returns the names of the elements in list field name.
func (s *spot) names(name string) map[string]bool {
	out := map[string]bool{}
	list, _ := s.get(name).([]any)
	for _, e := range list {
		if fields, ok := e.(map[string]any); ok {
			if key, ok := fields["name"].(string); ok {
				out[key] = true
			}
		}
	}
	return out
}

// add appends an element with a name to list field name, unless a preset took
// that element, or the list, away.
func (s *spot) add(name, key string) *spot {
	dead := &spot{m: s.m, dead: true}
	listAt, elementAt := provenance.Segment{Name: name}, provenance.Segment{Name: key, Kind: provenance.Element}
	list, isList := s.get(name).([]any)
	if s.taken(listAt, elementAt) || !isList && s.has(name) || !s.make() {
		return dead
	}
	w, l := s.m.w, s.m.layer
	n := w.rec.Child(s.node, listAt)
	at := w.rec.Child(n, elementAt)
	fields := map[string]any{"name": key}
	fresh := s.fresh || n.Change == provenance.Added
	at.Index, at.New = int32(len(list)), true
	l.setList(append(list, fields), s.obj, n, listBefore{fresh: s.fresh, absent: list == nil, length: len(list)})
	if !fresh && list != nil {
		at.Change, at.Value = provenance.Added, fields
	}
	l.decides(w.rec.Child(at, provenance.Segment{Name: "name"}))
	return &spot{m: s.m, parent: s, name: name, key: key, obj: fields, node: at, fresh: true}
}
