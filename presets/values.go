package presets

import (
	"github.com/virtwright/virtwright/presets/tree"
)

// equals reports whether v equals the leaf: quantities and numbers compare by value.
func (f *fieldNode) equals(v any) bool {
	if f.quantity != nil {
		if text, ok := v.(string); ok && text == f.value {
			return true
		}
		q, err := tree.ParseQuantity(v)
		return err == nil && q.Cmp(*f.quantity) == 0
	}
	return tree.Equal(f.value, v)
}
