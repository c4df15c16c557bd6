package presets

import (
	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets/provenance"
)

// An ownerVM is the VM that controls an instance, as it came in with a request.
type ownerVM struct {
	root   map[string]any
	record *provenance.Record
}

// adoptOwner reads the VM that controls the instance, and takes into the
// record which of the instance's fields virtwright had given that VM: they are
// weak, so that Launch presets can still win over them.
func (w *resolution) adoptOwner(raw []byte) (*ownerVM, error) {
	if len(raw) == 0 || w.instance == nil {
		return nil, nil
	}
	w.owner = raw
	root, err := decode("owner", raw)
	if err != nil {
		return nil, err
	}
	if problems := checkSpine(root); len(problems) > 0 {
		return nil, &Refusal{Problems: problems}
	}
	o := &ownerVM{root: root, record: provenance.New()}
	text, _ := lookup(root, vmSchema(), provenanceOn(VirtualMachine)).(string)
	if stored, err := provenance.Decode(text); err == nil {
		o.record = stored
	}
	for p, n := range o.record.Decided() {
		if p.HasPrefix(template) && len(p) > len(template) {
			w.inherit(o, p, o.record.Sources[n.Source])
		}
	}
	w.inherited = len(w.rec.Sources)
	w.indexElements(w.rec.Root(), w.root, vmSchema())
	return o, nil
}

var template = provenance.Of("spec", "template")

// inherit records that s decided p on the VM, unless the controller changed it
// on the way to the instance.
func (w *resolution) inherit(o *ownerVM, p provenance.Path, s provenance.Source) {
	was, is := lookup(o.root, vmSchema(), p), lookup(w.root, vmSchema(), p)
	if is == nil && s.Role != provenance.Remove || is != nil && !equalJSON(was, is) {
		return
	}
	from, at := o.record.At(p), w.rec.Set(p, w.addSource(s, nil))
	at.Weak, at.Overruled, at.Lost, at.Was = true, from.Overruled, from.Lost, from.Was
}

// indexElements notes where the elements that the record knows stand in their lists.
func (w *resolution) indexElements(n *provenance.Node, v any, s *schema) {
	for c := range n.Children() {
		var next any
		switch at := v.(type) {
		case map[string]any:
			next = at[c.Name]
		case []any:
			if i := indexOf(at, s.keys, c.Name); i >= 0 {
				c.Index, next = int32(i), at[i]
			}
		}
		if step := s.step(c.Segment()); step != nil {
			w.indexElements(c, next, step)
		}
	}
}

// view is the instance as the user wrote it: without what virtwright gave the VM,
// and with the labels and annotations of the VM.
func (o *ownerVM) view(w *resolution) map[string]any {
	view, _ := cloneJSON(w.root).(map[string]any)
	takeIntent(view, w.rec)
	vm := map[string]any{"metadata": cloneJSON(o.root["metadata"])}
	takeIntent(vm, o.record)
	from, _ := vm["metadata"].(map[string]any)
	meta, _ := view["metadata"].(map[string]any)
	for _, name := range []string{"labels", "annotations"} {
		if from[name] != nil {
			meta[name] = from[name]
		}
	}
	return view
}

// provenanceOn is where the record of an object lies, in VM form.
func provenanceOn(kind Kind) provenance.Path {
	key := provenance.Segment{Name: v1alpha1.AnnotationProvenance}
	if kind == VirtualMachineInstance {
		return provenance.Of("spec", "template", "metadata", "annotations").With(key)
	}
	return provenance.Of("metadata", "annotations").With(key)
}
