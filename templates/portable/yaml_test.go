package portable

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	yaml3 "go.yaml.in/yaml/v3"
)

func read(t *testing.T, manifest []byte) map[string]any {
	t.Helper()
	object, err := Decode(manifest)
	if err != nil {
		t.Fatalf("%v:\n%s", err, manifest)
	}
	return object
}

// yaml11Specials are texts that parsers of YAML 1.1 do not decode as texts.
var yaml11Specials = []string{
	"<<", "=", "y", "Y", "n", "N", "yes", "Yes", "no", "NO", "on", "On", "off", "OFF", "true", "False", "~", "null", "Null", "",
	"0o17", "017", "0x1f", "0b101", "1_000", "1:30", "190:20:30.15", "12e03", "12e+03", "1e3", "+1", "-1", ".5", "+.5", "1.", ".inf", "-.Inf", "+.INF", ".nan", ".NaN",
	"2001-01-01", "2001-12-14t21:59:43.10-05:00", "!tag", "&a", "*a", "- a", "? a", ": a", "|", ">", "%a", "@a", "`a", "{a", "[a", "#a", "a #b", "a: b", "---", "...",
}

func TestYAML(t *testing.T) {
	cases := map[string]struct {
		reason string
		object map[string]any
	}{
		"usual":      {"plain YAML is readable", map[string]any{"kind": "VirtualMachine", "spec": map[string]any{"a": []any{int64(1), true, "x"}}}},
		"merge key":  {"YAML merges this key", map[string]any{"<<": map[string]any{"a": "b"}}},
		"characters": {"some are line breaks in YAML", map[string]any{"a": "x\u0085y\u2028z\u007f", "b": "\t\r\n"}},
		"integers":   {"integers stay exact", map[string]any{"a": int64(9223372036854775807)}},
		"texts":      {"texts stay texts", map[string]any{"a": "true", "b": "0x1f", "c": "null", "d": "1_000", "e": "2001-01-01"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			manifest, err := YAML(c.object)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.object, read(t, manifest)); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", c.reason, diff)
			}
		})
	}
	if _, err := YAML(map[string]any{"a": func() {}}); err == nil {
		t.Error("a function has a manifest")
	}
}

// TestYAMLQuotes checks that parsers of YAML 1.1 and 1.2 decode special texts as texts.
func TestYAMLQuotes(t *testing.T) {
	for _, text := range yaml11Specials {
		for place, object := range map[string]map[string]any{
			"value": {"a": text}, "item": {"a": []any{text, []any{text}}}, "key": {text: "a"}, "key of an object": {"a": map[string]any{text: map[string]any{"b": text}}},
		} {
			manifest, err := YAML(object)
			if err != nil {
				t.Fatal(place, text, err)
			}
			if diff := cmp.Diff(object, read(t, manifest)); diff != "" {
				t.Errorf("%s %q: -want, +got:\n%s\n%s", place, text, diff, manifest)
			}
			var again any
			if err := yaml3.Unmarshal(manifest, &again); err != nil || !cmp.Equal(again, any(object)) {
				t.Errorf("%s %q: YAML 1.2 decodes %#v, %v", place, text, again, err)
			}
			if plain := plainScalars(t, manifest); slices.Contains(plain, text) {
				t.Errorf("%s %q is not quoted:\n%s", place, text, manifest)
			}
		}
	}
}

// plainScalars returns the scalars of a manifest without quotes.
func plainScalars(t *testing.T, manifest []byte) []string {
	t.Helper()
	var root yaml3.Node
	if err := yaml3.Unmarshal(manifest, &root); err != nil {
		t.Fatal(err)
	}
	var out []string
	var walk func(n *yaml3.Node)
	walk = func(n *yaml3.Node) {
		if n.Kind == yaml3.ScalarNode && n.Style&(yaml3.DoubleQuotedStyle|yaml3.SingleQuotedStyle) == 0 {
			out = append(out, n.Value)
		}
		for _, c := range n.Content {
			walk(c)
		}
	}
	walk(&root)
	return out
}
