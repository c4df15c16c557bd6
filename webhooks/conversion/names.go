package conversion

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kjson "sigs.k8s.io/json"
)

// names is the content of the annotation.
type names struct {
	// Disks are names of disks with their volumes, in order.
	Disks []diskName `json:"disks,omitempty"`
	// Other is a foreign annotation with the same key.
	Other *string `json:"other,omitempty"`

	// byVolume holds the indices of unused Disks, in order.
	byVolume map[string][]int
}

type diskName struct {
	Volume string `json:"volume"`
	// Name is nil if the disk has none.
	Name *string `json:"name,omitempty"`
}

// read parses the annotation of an object.
func read(object map[string]any) *names {
	text, ok, _ := unstructured.NestedString(object, "metadata", "annotations", annotation)
	if !ok {
		return &names{}
	}
	if out := parse(text); out != nil {
		return out.index()
	}
	return &names{Other: &text}
}

// parse parses an annotation that this package wrote; nil for a foreign one.
func parse(text string) *names {
	var out names
	strict, err := kjson.UnmarshalStrict([]byte(text), &out)
	if err != nil || len(strict) > 0 || out.encode() != text {
		return nil
	}
	if out.onlyOther() && (out.Other == nil || parse(*out.Other) == nil) {
		return nil // write does not wrap this annotation
	}
	return &out
}

func (n *names) empty() bool { return n.onlyOther() && n.Other == nil }

func (n *names) onlyOther() bool { return len(n.Disks) == 0 }

// index fills byVolume.
func (n *names) index() *names {
	n.byVolume = make(map[string][]int, len(n.Disks))
	for i, d := range n.Disks {
		n.byVolume[d.Volume] = append(n.byVolume[d.Volume], i)
	}
	return n
}

// mentions reports whether there is an unused name for a disk of a volume.
func (n *names) mentions(volume string) bool { return len(n.byVolume[volume]) > 0 }

// take returns the first unused name for a disk of a volume, and marks it as used.
func (n *names) take(volume string) (*string, bool) {
	free := n.byVolume[volume]
	if len(free) == 0 {
		return nil, false
	}
	n.byVolume[volume] = free[1:]
	return n.Disks[free[0]].Name, true
}

// unused returns the names that were not taken.
func (n *names) unused() []diskName {
	var out []diskName
	for i, d := range n.Disks {
		if free := n.byVolume[d.Volume]; len(free) > 0 && free[0] <= i {
			out = append(out, d)
		}
	}
	return out
}

func (n *names) encode() string {
	text, err := json.Marshal(n)
	if err != nil { // unreachable: it was JSON before
		return ""
	}
	return string(text)
}

// write stores the names, followed by the unused ones of kept. With wrap, a foreign annotation that
// looks like one of this package is stored in Other.
func (n names) write(object map[string]any, kept *names, wrap bool) {
	n.Disks = append(n.Disks, kept.unused()...)
	n.Other = kept.Other
	stored, _, _ := unstructured.NestedFieldNoCopy(object, "metadata", "annotations", annotation)
	switch {
	case n.empty() && stored != nil:
		annotations := annotationsOf(object)
		delete(annotations, annotation)
		if len(annotations) == 0 {
			unstructured.RemoveNestedField(object, "metadata", "annotations")
		}
	case n.empty():
	case n.onlyOther() && (!wrap || parse(*n.Other) == nil):
		annotationsOf(object)[annotation] = *n.Other
	default:
		annotationsOf(object)[annotation] = n.encode()
	}
}
