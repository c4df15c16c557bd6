package format_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/virtwright/virtwright/lifecycle/templates/format"
)

func TestManifest(t *testing.T) {
	cases := map[string]struct {
		reason string
		object map[string]any
	}{
		"usual":      {"it is readable", map[string]any{"kind": "VirtualMachine", "spec": map[string]any{"a": []any{int64(1), true, "x"}}}},
		"merge key":  {"YAML merges a key of this name", map[string]any{"<<": map[string]any{"a": "b"}}},
		"characters": {"YAML reads some as ends of lines", map[string]any{"a": "x\u0085y\u2028z\u007f", "b": "\t\r\n"}},
		"integers":   {"they stay exact", map[string]any{"a": int64(9223372036854775807)}},
		"texts":      {"texts that look otherwise stay texts", map[string]any{"a": "true", "b": "0x1f", "c": "null", "d": "1_000", "e": "2001-01-01"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			manifest, err := format.Manifest(c.object)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.object, read(t, manifest)); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", c.reason, diff)
			}
		})
	}
	if _, err := format.Manifest(map[string]any{"a": func() {}}); err == nil {
		t.Error("what is no JSON has no error")
	}
}
