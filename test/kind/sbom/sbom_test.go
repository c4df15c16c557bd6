package sbom

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/virtwright/virtwright/test/kind/debian"
)

// The bill of materials lists Debian's packages and the program's modules.
func TestDocument(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a program")
	}
	program := filepath.Join(t.TempDir(), "program")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "../cmd/kind").CombinedOutput(); err != nil {
		t.Fatalf("cannot build: %v\n%s", err, out)
	}
	bill, err := Of(program, "bookworm", []debian.Package{
		{Name: "libslirp0", Version: "1:4.7.0-1+b2", Architecture: "amd64", Source: "libslirp", License: "BSD-3-clause"},
		{Name: "odd", Version: "1", Architecture: "all", Source: "odd", License: "my-own"},
	})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "launcher.spdx.json")
	if err := bill.Write(path, "example", "1", "sha256:0"); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var got Document
	if err := json.Unmarshal(content, &got); err != nil {
		t.Fatal(err)
	}
	checkDocument(t, got)
	subject := billPackage{ID: subjectID, Name: "example", Version: "1", Download: unknown, Concluded: unknown, Declared: unknown, Copyright: unknown}
	if diff := cmp.Diff(subject, got.Packages[0]); diff != "" {
		t.Error(diff)
	}
	byName := map[string]billPackage{}
	for _, p := range got.Packages {
		byName[p.Name] = p
	}
	if p := byName["libslirp0"]; p.Declared != "BSD-3-Clause" || p.Refs[0].Locator != "pkg:deb/debian/libslirp0@1:4.7.0-1+b2?arch=amd64&distro=bookworm&upstream=libslirp" {
		t.Errorf("libslirp0 is %+v", p)
	}
	if p := byName["odd"]; p.Declared != unknown || p.Comment != "Debian: my-own" {
		t.Errorf("odd is %+v", p)
	}
	if p := byName["github.com/spf13/cobra"]; !strings.HasPrefix(p.Version, "v") {
		t.Errorf("a module of the program is %+v", p)
	}
}

// checkDocument checks what SPDX 2.3 requires of a document.
func checkDocument(t *testing.T, d Document) {
	t.Helper()
	if d.SPDXVersion != "SPDX-2.3" || d.DataLicense != "CC0-1.0" || d.ID != documentID || d.Name == "" || d.Namespace == "" || d.Creation.Created == "" {
		t.Errorf("the head of the document is incomplete: %+v", d)
	}
	var ids []string
	for _, p := range d.Packages {
		if p.Name == "" || p.Version == "" || p.Download == "" || slices.Contains(ids, p.ID) {
			t.Errorf("the package is incomplete, or its ID is taken: %+v", p)
		}
		ids = append(ids, p.ID)
	}
	for _, r := range d.Relationships {
		if (r.Element != documentID && !slices.Contains(ids, r.Element)) || !slices.Contains(ids, r.Related) {
			t.Errorf("no such package: %+v", r)
		}
	}
}
