package tree_test

import (
	"strings"
	"testing"

	"github.com/virtwright/virtwright/presets/tree"
)

func TestMayHaveHugeQuantity(t *testing.T) {
	long := strings.Repeat("1", 100)
	for text, want := range map[string]bool{
		`"1Gi"`: false, `"1e-999"`: false, `1e9`: false, `"67e83516ab"`: false, `"b2ce390e"`: false, `"1e83516-04e1234-b"`: false, `"a` + long + `"`: false, `"\n1e3"`: false, `"{\"a\":\"67e83516ab\"}"`: false, `"\u003cbr>"`: false, ``: false,
		`"1e-9999"`: true, `"1E99999"`: true, `1e-9999`: true, `{"a":[1e-9999]}`: true, `{"a": 1e-9999 }`: true, `"-.1e+9999"`: true, `"` + long + `Ki"`: true, `"0.0` + long + `"`: true,
		`"1\u0065-9999"`: true, `"\u0031e-9999"`: true, "\"\u00a01e-9999\"": true, `"\u00a01e-9999"`: true, "\"\u30001e-9999\u00a0\"": true, `" 1e-9999 "`: true, `"\t1e-9999\n"`: true,
	} {
		if got := tree.MayHaveHugeQuantity([]byte(text)); got != want {
			t.Errorf("%.40s: got %t, want %t", text, got, want)
		}
	}
}
