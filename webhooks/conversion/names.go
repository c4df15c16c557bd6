package conversion

import (
	"encoding/json"

	kjson "sigs.k8s.io/json"
)

// names is what the annotation keeps.
type names struct {
	// Disks are names of disks, in order, by their volumes.
	Disks []diskName `json:"disks,omitempty"`
	// Other is an annotation of the same key that was not ours.
	Other *string `json:"other,omitempty"`

	// byVolume holds the indices in Disks that nobody has taken, in order.
	byVolume map[string][]int
}

type diskName struct {
	Volume string `json:"volume"`
	// Name is nil where the disk has none.
	Name *string `json:"name,omitempty"`
}

// read returns what the annotation of an object keeps.
func read(object map[string]any) *names {
	meta, _ := object["metadata"].(map[string]any)
	annotations, _ := meta["annotations"].(map[string]any)
	text, ok := annotations[annotation].(string)
	if !ok {
		return &names{}
	}
	if out := parse(text); out != nil {
		return out.index()
	}
	return &names{Other: &text}
}

// parse reads an annotation that this package wrote; nil for any other.
func parse(text string) *names {
	var out names
	strict, err := kjson.UnmarshalStrict([]byte(text), &out)
	if err != nil || len(strict) > 0 || out.encode() != text {
		return nil
	}
	if out.onlyOther() && (out.Other == nil || parse(*out.Other) == nil) {
		return nil // which needs no wrapping
	}
	return &out
}

func (n *names) empty() bool { return n.onlyOther() && n.Other == nil }

// onlyOther reports whether there is nothing of ours.
func (n *names) onlyOther() bool { return len(n.Disks) == 0 }

// index prepares for mentions and take.
func (n *names) index() *names {
	n.byVolume = make(map[string][]int, len(n.Disks))
	for i, d := range n.Disks {
		n.byVolume[d.Volume] = append(n.byVolume[d.Volume], i)
	}
	return n
}

// mentions reports whether the annotation has a name for a disk of a volume.
func (n *names) mentions(volume string) bool { return len(n.byVolume[volume]) > 0 }

// take returns the first name for a disk of a volume, and forgets it.
func (n *names) take(volume string) (*string, bool) {
	free := n.byVolume[volume]
	if len(free) == 0 {
		return nil, false
	}
	n.byVolume[volume] = free[1:]
	return n.Disks[free[0]].Name, true
}

// left are the names that nobody has taken.
func (n *names) left() []diskName {
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

// write stores own names, and after them what was kept already. Wrap says that
// an annotation that was not ours, but looks like it, must be told apart.
func (n names) write(object map[string]any, kept *names, wrap bool) {
	n.Disks = append(n.Disks, kept.left()...)
	n.Other = kept.Other
	switch meta, _ := object["metadata"].(map[string]any); {
	case n.empty() && kept.present(meta):
		delete(annotationsOf(object), annotation)
		dropEmpty(object)
	case n.empty():
	case n.onlyOther() && (!wrap || parse(*n.Other) == nil):
		annotationsOf(object)[annotation] = *n.Other
	default:
		annotationsOf(object)[annotation] = n.encode()
	}
}

func (*names) present(meta map[string]any) bool {
	annotations, _ := meta["annotations"].(map[string]any)
	return annotations[annotation] != nil
}

// dropEmpty takes away annotations that the last of ours has left.
func dropEmpty(object map[string]any) {
	meta, _ := object["metadata"].(map[string]any)
	if annotations, ok := meta["annotations"].(map[string]any); ok && len(annotations) == 0 {
		delete(meta, "annotations")
	}
}
