package manifest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const vm = "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\n"

func TestPositions(t *testing.T) {
	content := "---\n" + vm + "---\n\n---\napiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: A}\n- {apiVersion: v1, kind: B}\n--- # last\n" + vm
	objects, err := Read(strings.NewReader(content), []string{Stdin}, true)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, o := range objects {
		got = append(got, fmt.Sprintf("%s: %s", o.Where, o.Kind))
	}
	want := []string{
		"standard input, document 1: VirtualMachine",
		"standard input, document 2, item 1: A",
		"standard input, document 2, item 2: B",
		"standard input, document 3: VirtualMachine",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}

// A problem neither hides other problems nor changes the count of documents.
// TestByteOrderMark reads files as some editors write them.
func TestByteOrderMark(t *testing.T) {
	for name, text := range map[string]string{"vm.json": `{"apiVersion": "v1", "kind": "A"}`, "vm.yaml": "apiVersion: v1\nkind: A\n"} {
		documents, err := split(name, []byte("\ufeff"+text), true)
		if err != nil || len(documents) != 1 {
			t.Fatalf("%s: %v, %v", name, documents, err)
		}
		if got, err := documents[0].Objects(); err != nil || len(got) != 1 || got[0].Kind != "A" {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

// TestDocuments reads files that other programs write or append to each other.
func TestDocuments(t *testing.T) {
	const one, two = `{"apiVersion": "v1", "kind": "A"}`, `{"apiVersion": "v1", "kind": "B"}`
	twice := strings.TrimSpace(strings.Repeat("VirtualMachine ", 2))
	for in, want := range map[string]string{
		one + "\n" + two: "A B", one + "\n---\n" + two + "\n": "A B", "# a\n\n# b\n" + one + "\n" + two: "A B", "---\n" + one + "\n---\n" + two: "A B",
		vm + "\ufeff---\n" + vm: twice, vm + "---\n\ufeff" + vm: twice,
		vm + "...\n": "VirtualMachine", vm + "...\n# end\n---\n" + vm: twice,
		one + "\n" + two + "\n---\n" + one: "A B A", one + "\n--- # b\n" + two + "\n# end\n...\n": "A B", one + "\n\ufeff---\n" + two: "A B", "---\n" + one + "\n" + two: "A B",
		"---\n" + `{"apiVersion": "v1", "kind": "A", "kind": "B"}`: `document 1: cannot read the JSON: duplicate field "kind"`,
		"%YAML 1.1\n---\n" + vm + "...\n%YAML 1.1\n---\n" + vm:     twice, "# a \ufeff b\n" + vm: "VirtualMachine",
		vm + "...\n" + vm:                "document 2, line 4: cannot read the YAML: the document follows the end of another one: write --- before it",
		"# a\n" + one + "\n{\"kind\": }": "document 2, line 3: cannot read the JSON: invalid character '}' looking for beginning of value",
	} {
		got, err := Read(strings.NewReader(in), []string{Stdin}, true)
		var kinds []string
		for _, o := range got {
			kinds = append(kinds, o.Kind)
		}
		if err != nil {
			kinds = []string{strings.TrimPrefix(err.Error(), "standard input, ")}
		}
		if diff := cmp.Diff(want, strings.Join(kinds, " ")); diff != "" {
			t.Errorf("%q: %s", in, diff)
		}
	}
}

func TestEveryProblem(t *testing.T) {
	_, err := Read(strings.NewReader("a: b: c\n---\n"+vm+"---\nkind: X\n---\n- 1\n"), []string{Stdin}, true)
	want := strings.Join([]string{
		"standard input, document 1, line 1: cannot read the YAML: mapping values are not allowed in this context",
		"standard input, document 3: apiVersion and kind are required",
		"standard input, document 4: not a Kubernetes object: it is of type array, not an object",
	}, "\n")
	if diff := cmp.Diff(want, fmt.Sprint(err)); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}

// Subfolders are read unless recursive is false. VMs beyond the limit remain.
func TestSources(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"a.yaml": vm + "---\n# nothing\n---\napiVersion: v1\nkind: A\n---\n" + vm, "sub/b.yaml": vm, "list.json": `{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "v1", "kind": "B"}]}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for limit, want := range map[int]string{2: "A B", 3: "VirtualMachine A VirtualMachine B VirtualMachine"} {
		s := Sources{Names: []string{dir}, Recursive: true}
		objects, err := s.Objects(limit)
		if err != nil {
			t.Fatal(err)
		}
		var kinds, left []string
		for _, o := range objects {
			kinds = append(kinds, o.Kind)
		}
		if got := strings.Join(kinds, " "); got != want {
			t.Errorf("limit %d: %s, want %s", limit, got, want)
		}
		for d := range s.VMs() {
			left = append(left, strings.TrimPrefix(d.Where.String(), dir+"/"))
		}
		if got, want := strings.Join(left, "; "), "a.yaml, document 1; a.yaml, document 3; sub/b.yaml, document 1"; limit == 2 && (got != want || s.Remaining != 3) {
			t.Errorf("%d left: %s, want %s", s.Remaining, got, want)
		}
	}
	flat := Sources{Names: []string{dir}}
	if objects, err := flat.Objects(10); err != nil || len(objects) != 4 {
		t.Errorf("%d objects without folders in folders: %v", len(objects), err)
	}
}

// Errors have the line of the problem, also where the YAML parser does not name it.
func TestLinesOfErrors(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"infinity":  {vm + "spec:\n  a: x.inf\n  b: .inf\n", "line 5: cannot read the YAML: infinity and NaN are not JSON numbers"},
		"NaN":       {"# a\n---\n" + vm + "spec: {a: .NaN}\n", "line 5: cannot read the YAML: infinity"},
		"alias":     {vm + "a: '*foobar'\nspec: *foo\n", "line 4: cannot read the YAML: unknown anchor 'foo' referenced"},
		"flow":      {"a: 1\nb: {c: [}\n", "line 2: cannot read the YAML: did not find expected node content"},
		"indent":    {vm + "metadata:\n  name: a\n bad: 1\n", "line 5: cannot read the YAML: did not find expected key"},
		"quotes":    {"# a\n---\n" + vm + "spec:\n- {path: a[\"b\"], message: x}\n", "line 6: cannot read the YAML: did not find expected ',' or '}'"},
		"list":      {vm + "spec:\n- a\n- b\nc\n", "line 6: cannot read the YAML: could not find expected ':'"},
		"first":     {"{a: [}\n", "line 1: cannot read the YAML: did not find expected node content"},
		"tab":       {vm + "spec:\n\ta: b\n", "line 4: cannot read the YAML: the line is indented with a tab: use spaces"},
		"twice":     {vm + "spec:\n  a:\n    b: 1\n  a:\n    c: 1\n", `line 6: cannot read the YAML: key "a" already set`},
		"character": {vm + "a: b\nspec: {a: \"\x01\"}\n", "line 4: cannot read the YAML: control characters are not allowed"},
	} {
		_, err := Read(strings.NewReader(c.in), []string{Stdin}, true)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// A folder may have files of other programs. A manifest with a mistake is none, nor is a named
// file.
func TestOtherFiles(t *testing.T) {
	for name, c := range map[string]struct {
		content string
		skipped bool
	}{
		"values.yaml":          {"image: {tag: v1}\nreplicas: 2\n", true},
		"package.json":         {`{"name": "site", "scripts": {}}`, true},
		"tsconfig.json":        {"// comment\n{}", true},
		"list.json":            {"[1, 2]", true},
		"kustomization.yaml":   {"resources: [vm.yaml]\n", true},
		"Chart.yaml":           {"apiVersion: v2\nname: chart\nversion: 1.0.0\n", true},
		"templates/vm.yaml":    {"apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: {{ .Release.Name }}}\n", true},
		"templates/a/fine.yml": {vm, true},
		"ansible.yaml":         {"- hosts: all\n", true},
		"no-version.yaml":      {"kind: VirtualMachine\nmetadata: {name: a}\n", false},
		"no-kind.yaml":         {"apiVersion: kubevirt.io/v1\nmetadata: {name: a}\n", false},
		"only-spec.yaml":       {"spec: {template: {}}\n", false},
		"broken.yaml":          {"apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: a: b}\n", false},
		"broken.json":          {`{"apiVersion": "v1", "kind": "List", "items": [}`, false},
		"wrong-kind.yaml":      {"apiVersion: v1\nkind: 3\nmetadata: {}\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
				t.Fatal(err)
			}
			for path, content := range map[string]string{filepath.Join(dir, "vm.yaml"): vm, filepath.Join(dir, "Chart.yaml"): "name: chart\n", file: c.content} {
				if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			s := Sources{Names: []string{dir}, Recursive: true}
			objects, err := s.Objects(10)
			if skipped := slices.Contains(s.Skipped, file); skipped != c.skipped || (err == nil) != c.skipped || len(objects) != 1 {
				t.Errorf("skipped: %t, error: %v, %d objects", skipped, err, len(objects))
			}
			if _, err := Read(strings.NewReader(""), []string{file}, true); err == nil && c.content != vm {
				t.Error("a named file is not an error")
			}
		})
	}
}

// Any input results in objects or an error.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{vm, "{}", "[", "---\n---", "{\"a\":1}{", "kind: List\napiVersion: v1\nitems: [1]\n", "a: &a [*a]\n", "\xff\xfe"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, content string) {
		objects, err := Read(strings.NewReader(content), []string{Stdin}, true)
		for _, o := range objects {
			if o.Kind == "" || o.APIVersion == "" || o.Where.Document < 1 {
				t.Errorf("got %+v with error %v", o, err)
			}
		}
	})
}
