package main

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/virtwright/virtwright/test/kind/image"
	"github.com/virtwright/virtwright/test/worktree"
)

const root = "../../../.."

// maxProgram bounds the size of the program in the image, which every pull transfers.
const maxProgram = 100 << 20

// The same tree, in two places, gives the same bytes.
func TestReproducible(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the manager twice")
	}
	here, there := filepath.Join(t.TempDir(), "a.tar"), filepath.Join(t.TempDir(), "b.tar")
	var first, second strings.Builder
	if err := run(t.Context(), []string{"manager", "-C", root, "-o", here}, &first); err != nil {
		t.Fatal(err)
	}
	if err := run(t.Context(), []string{"manager", "-C", worktree.Copy(t, root), "-o", there}, &second); err != nil {
		t.Fatal(err)
	}
	a, b := read(t, here), read(t, there)
	if !bytes.Equal(a, b) {
		t.Errorf("two builds of one tree differ: %s and %s", first.String(), second.String())
	}
	if len(a) > maxProgram {
		t.Errorf("the image has %d bytes, at most %d", len(a), maxProgram)
	}
}

// The program needs nothing that the image does not have.
func TestStatic(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the manager")
	}
	dir := t.TempDir()
	if err := build(t.Context(), root, dir, manager); err != nil {
		t.Fatal(err)
	}
	file, err := elf.Open(filepath.Join(dir, manager))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	if libraries, err := file.ImportedLibraries(); err != nil || len(libraries) > 0 {
		t.Errorf("the program wants the libraries %v, %v", libraries, err)
	}
	for _, segment := range file.Progs {
		if segment.Type == elf.PT_INTERP {
			t.Error("the program wants a dynamic linker")
		}
	}
}

func TestImage(t *testing.T) {
	path := filepath.Join(t.TempDir(), manager)
	if err := os.WriteFile(path, []byte("#!"), 0o600); err != nil {
		t.Fatal(err)
	}
	var archive bytes.Buffer
	if _, err := image.Write(&archive, ofManager("example:1", path)); err != nil {
		t.Fatal(err)
	}
	config, files := unpack(t, archive.Bytes())
	if want := (image.Config{User: unprivileged, Entrypoint: []string{"/virtwright-manager"}}); !cmp.Equal(config, want) {
		t.Error(cmp.Diff(want, config))
	}
	if want := map[string]int64{manager: 0o755}; !cmp.Equal(files, want) {
		t.Error(cmp.Diff(want, files))
	}
}

// unpack reads an image as docker does.
func unpack(t *testing.T, archive []byte) (config image.Config, files map[string]int64) {
	t.Helper()
	blobs := map[string][]byte{}
	each(t, archive, func(head *tar.Header, content []byte) { blobs[head.Name] = content })
	var images []struct {
		Config string
		Layers []string
	}
	var described struct{ Config image.Config }
	if err := errors.Join(json.Unmarshal(blobs["manifest.json"], &images), json.Unmarshal(blobs[images[0].Config], &described)); err != nil {
		t.Fatal(err)
	}
	files = map[string]int64{}
	for _, layer := range images[0].Layers {
		each(t, blobs[layer], func(head *tar.Header, _ []byte) { files[head.Name] = head.Mode })
	}
	return described.Config, files
}

func each(t *testing.T, archive []byte, see func(*tar.Header, []byte)) {
	t.Helper()
	for reader := tar.NewReader(bytes.NewReader(archive)); ; {
		head, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(reader)
		if err != nil {
			t.Fatal(err)
		}
		see(head, content)
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}
