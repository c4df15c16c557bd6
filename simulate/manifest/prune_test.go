package manifest

import (
	"strings"
	"testing"
)

// TestPrune keeps the text of what stays.
func TestPrune(t *testing.T) {
	type object = map[string]any
	for name, test := range map[string]struct {
		text string
		part object
		want string
	}{
		"fields with their comments": {
			"# Head\n\na: 1 # one\n# about b\nb:\n  # inside\n  c: 2\n\n# about d\nd: 'x'\n", object{"a": int64(1), "d": "x"},
			"# Head\n\na: 1 # one\n\n# about d\nd: 'x'\n",
		},
		"the last field": {"a: 1\nb:\n  c: 2\n# The end\n", object{"a": int64(1)}, "a: 1\n# The end\n"},
		"the first field of an element": {
			"a:\n  - b:\n      c: 1\n    # the name\n    name: x\n  - name: u\n", object{"a": []any{object{"name": "x"}, object{"name": "u"}}},
			"a:\n    # the name\n  - name: x\n  - name: u\n",
		},
		"elements": {
			"a:\n# first\n- name: x\n  b: 1\n# second\n- name: u\n# third\n- {name: z, b: 2}\nc: 3\n", object{"a": []any{object{"name": "u"}}, "c": int64(3)},
			"a:\n# second\n- name: u\nc: 3\n",
		},
		"text that looks like a comment": {
			"a: |\n  #cloud-config\n  # end\nb: |\n  # kept\n", object{"b": "# kept\n"}, "b: |\n  # kept\n",
		},
		"flow style":            {"# Head\na: {b: 1, c: \"2\"} # why\nd: [1, 2]\n", object{"a": object{"c": "2"}, "d": []any{int64(1), int64(2)}}, "# Head\na: {c: \"2\"} # why\nd: [1, 2]\n"},
		"numbers":               {"a: 9007199254740993\nb: 1.50\nc: 1\n", object{"a": int64(9007199254740993), "b": 1.5}, "a: 9007199254740993\nb: 1.50\n"},
		"line ends of Windows":  {"a: 1\r\nb:\r\n  c: 2\r\nd: 3\r\n", object{"a": int64(1), "d": int64(3)}, "a: 1\r\nd: 3\r\n"},
		"a list":                {"a: [x]\nb: 1\n", object{"a": []any{"x"}}, "a: [x]\n"},
		"an alias":              {"a: &x {b: 1}\nc: *x\nd: 1\n", object{"a": object{"b": int64(1)}, "c": object{"b": int64(1)}}, "a: &x {b: 1}\nc: *x\n"},
		"JSON":                  {`{"a": "x & <y>", "b": {"c": 2}}`, object{"a": "x & <y>"}, "{\n  \"a\": \"x & <y>\"\n}"},
		"a merge of an anchor":  {"a: &x {b: 1}\nc:\n  <<: *x\n  d: 1\ne: 1\n", object{"a": object{"b": int64(1)}, "c": object{"b": int64(1), "d": int64(1)}}, "a: &x {b: 1}\nc:\n  <<: *x\n  d: 1\n"},
		"dashes above elements": {"a:\n-\n  name: x\n-\n  name: u\n", object{"a": []any{object{"name": "u"}}}, "a:\n-\n  name: u\n"},
		"flow style of Windows": {"a: {b: 1, c: 2}\r\n", object{"a": object{"c": int64(2)}}, "a: {c: 2}\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Prune("f.yaml", []byte(test.text), map[int]map[string]any{1: test.part})
			if err != nil || string(got) != test.want {
				t.Errorf("%v\n%s", err, got)
			}
		})
	}
}

// TestPruneDocuments changes only the documents that are named.
func TestPruneDocuments(t *testing.T) {
	const text = "# 1\na: 1\nb: 1\n---\n\na: 2\nb: 2\n--- # third\na: 3\nb: 3\n"
	got, err := Prune("f.yaml", []byte(text), map[int]map[string]any{2: {"a": int64(2)}, 3: {"b": int64(3)}})
	if want := "# 1\na: 1\nb: 1\n---\n\na: 2\n--- # third\nb: 3\n"; err != nil || string(got) != want {
		t.Errorf("%v\n%s", err, got)
	}
	got, err = Prune("f.yaml", []byte("a: 1\nb: 1\nc: 1\n---\na: 1\nb: 1\n"), map[int]map[string]any{2: {"a": int64(1)}})
	if want := "a: 1\nb: 1\nc: 1\n---\na: 1\n"; err != nil || string(got) != want {
		t.Errorf("a document that begins like another: %v\n%s", err, got)
	}
	for in, want := range map[string]string{
		"# was: {\"a\":1}\n{\"a\":1}\n\ufeff---\na: 1\n":              "# was: {\"a\":1}\n{\n  \"b\": 1\n}\n\ufeff---\na: 1\n",
		"\ufeff{\"a\":1} {\"x\":1}\n--- # 2\n{\"y\":2} # last\n...\n": "\ufeff{\n  \"b\": 1\n} {\"x\":1}\n--- # 2\n{\"y\":2} # last\n...\n",
	} {
		if got, err := Prune("f.yaml", []byte(in), map[int]map[string]any{1: {"b": int64(1)}}); err != nil || string(got) != want {
			t.Errorf("%q: %v, %q", in, err, got)
		}
	}
	_, err = Prune("f.yaml", []byte("a: &x {b: 1, c: 2}\nd: *x\n"), map[int]map[string]any{1: {"a": map[string]any{"b": int64(1)}, "d": map[string]any{"b": int64(1), "c": int64(2)}}})
	if err == nil || !strings.Contains(err.Error(), "f.yaml, document 1: cannot edit the document in place") {
		t.Errorf("a change of an anchor: %v", err)
	}
}
