package learn

import (
	"fmt"
	"testing"
)

// TestComputed: a name is replaced where it is a word, by an expression that gives the text.
func TestComputed(t *testing.T) {
	for _, test := range []struct{ text, name, want string }{
		{"web-7", "web-7", "map[$cel:object.metadata.name]"},
		{"web-7-root", "web-7", "map[$cel:object.metadata.name + '-root']"},
		{"pvc/web-7.a", "web-7", "map[$cel:'pvc/' + object.metadata.name + '.a']"},
		{"web-70-root", "web-7", "web-70-root"},
		{"cobweb", "web", "cobweb"},
		{"cobweb-web", "web", "map[$cel:'cobweb-' + object.metadata.name]"},
		{`it's-a\b`, "a", `map[$cel:"it's-" + object.metadata.name + "\\b"]`},
	} {
		marked := generalized(map[string]any{"x": []any{test.text}}, test.name, nil)
		if got := fmt.Sprint(computed(marked)); got != "map[x:["+test.want+"]]" {
			t.Errorf("%s of %s: got %s, want %s", test.text, test.name, got, test.want)
		}
	}
	common := commonTexts([]VM{{Name: "a", Object: map[string]any{"disk": "root", "x": "a-1"}}, {Name: "root", Object: map[string]any{"disk": "root"}}})
	if !common["root"] || common["a-1"] {
		t.Errorf("common texts: %v", common)
	}
}

// TestNames: names of presets are those of Kubernetes, and unique.
func TestNames(t *testing.T) {
	names := newNamer(map[string]bool{"every-vm": true})
	for _, test := range []struct {
		terms []feature
		want  string
	}{
		{nil, "every-vm-2"},
		{[]feature{{label, "example.com/Size", "XL_1.5"}}, "size-xl-1-5"},
		{[]feature{{label, "size", "xl-1-5"}}, "size-xl-1-5-2"},
		{[]feature{{labelExists, "a/data-disk", ""}, {namespace, "kubernetes.io/metadata.name", "shop"}}, "data-disk-shop"},
		{[]feature{{instancetype, "", "u1.small"}}, "u1-small"},
		{[]feature{{label, "", "_"}}, "every-vm-3"},
	} {
		if got := names.name(test.terms); got != test.want {
			t.Errorf("%v: got %s, want %s", test.terms, got, test.want)
		}
	}
}
