package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSpecFile(t *testing.T) {
	for name, test := range map[string]struct {
		args         []string
		path, nested string
	}{
		"create":            {args: []string{"--root", "/r", "create", "--bundle", "/b", "id"}, path: "/b/config.json", nested: "process"},
		"create, joined":    {args: []string{"create", "--bundle=/b", "id"}, path: "/b/config.json", nested: "process"},
		"run in the folder": {args: []string{"run", "id"}, path: "config.json", nested: "process"},
		"exec":              {args: []string{"exec", "-d", "--process", "/p.json", "id"}, path: "/p.json"},
		"exec of a command": {args: []string{"exec", "id", "true"}},
		"kill":              {args: []string{"kill", "id", "9"}},
		"nothing":           {},
	} {
		t.Run(name, func(t *testing.T) {
			if path, nested := specFile(test.args); path != test.path || nested != test.nested {
				t.Errorf("got %q, %q; want %q, %q", path, nested, test.path, test.nested)
			}
		})
	}
}

func TestNarrow(t *testing.T) {
	given, err := boundingSet("Name:\tx\nCapEff:\t0\nCapBnd:\t0000000000000005\nCapAmb:\t0\n")
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ nested, in, want string }{
		"a container": {
			nested: "process",
			in:     `{"process":{"capabilities":{"bounding":["CAP_CHOWN","CAP_SYS_RESOURCE"]},"rlimit":18446744073709551615}}`,
			want:   `{"process":{"capabilities":{"bounding":["CAP_CHOWN"]},"rlimit":18446744073709551615}}`,
		},
		"a process": {
			in:   `{"capabilities":{"effective":["CAP_BPF"],"permitted":["CAP_DAC_READ_SEARCH"]}}`,
			want: `{"capabilities":{"effective":[],"permitted":["CAP_DAC_READ_SEARCH"]}}`,
		},
		"a process that asks for nothing": {in: `{"args":["true"]}`, want: `{"args":["true"]}`},
		"a container without a process":   {nested: "process", in: `{"root":{}}`, want: `{"root":{}}`},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "spec.json")
			if err := os.WriteFile(path, []byte(test.in), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := narrow(path, test.nested, given); err != nil {
				t.Fatal(err)
			}
			got, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, string(got)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestBoundingSetOfNothing(t *testing.T) {
	if given, err := boundingSet("Name:\tx\n"); err == nil {
		t.Errorf("no bounding set gives %v", given)
	}
}
