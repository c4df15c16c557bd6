package tree_test

import (
	"encoding/json"
	"math"
	"reflect"
	"testing"

	kjson "sigs.k8s.io/json"

	"github.com/virtwright/virtwright/presets/tree"
)

// TestClone compares copies with objects that were encoded and decoded.
func TestClone(t *testing.T) {
	for _, v := range []any{
		4.0, 0.5, 0.0, math.Copysign(0, -1), -3.0, 1e9, 1e20, 1e300, float64(1 << 53), -float64(1 << 53),
		int64(7), "text", true, nil, []any{2.0, map[string]any{"cores": 4.0}}, map[string]any{}, []any{},
	} {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		var want any
		if err := kjson.UnmarshalCaseSensitivePreserveInts(text, &want); err != nil {
			t.Fatal(err)
		}
		if got := tree.Clone(v); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %T %v, want %T %v", text, got, got, want, want)
		}
	}
}

func TestList(t *testing.T) {
	for most, want := range map[int]string{1: "a and 2 more", 2: "a, b and 1 more", 3: "a, b, c", 4: "a, b, c"} {
		if got := tree.List([]string{"a", "b", "c"}, most); got != want {
			t.Errorf("%d: got %q, want %q", most, got, want)
		}
	}
}
