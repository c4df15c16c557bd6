package image

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFiles(t *testing.T) {
	source := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(source, []byte("0123"), 0o600); err != nil {
		t.Fatal(err)
	}
	type entry struct {
		Mode       int64
		Link, Text string
	}
	want := map[string]entry{
		"bin/a":    {Mode: 0o755, Text: "0123"},
		"bin/b":    {Mode: 0o777, Link: "a"},
		"etc/conf": {Mode: 0o644, Text: "x"},
	}
	var layer bytes.Buffer
	if err := Files(
		File{Path: "etc/conf", Content: []byte("x")}, File{Path: "bin/b", Link: "a"}, File{Path: "bin/a", Mode: 0o755, Source: source},
	)(&layer); err != nil {
		t.Fatal(err)
	}
	got := map[string]entry{}
	for _, file := range unpack(t, layer.Bytes()) {
		got[file.Name] = entry{Mode: file.Mode, Link: file.Linkname, Text: string(file.content)}
		if file.ModTime.Unix() != 0 || file.Uid != 0 || file.Uname != "" {
			t.Errorf("%s depends on the machine that built it: %+v", file.Name, file.Header)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if err := Files(File{Path: "a", Source: "no such file"})(io.Discard); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there gives %v", err)
	}
}

// A layer or an image that occurs twice is there once, under all names. Each image has a name with
// its digest, too.
func TestWrite(t *testing.T) {
	shared := Files(File{Path: "shared", Content: []byte("s")})
	images := []Image{
		{Names: []string{"example/a:1", "example/b:1"}, Layers: []Layer{shared}},
		{Names: []string{"example/c:1"}, Layers: []Layer{shared, Files(File{Path: "more"})}, Config: Config{Env: []string{"A=b"}}},
	}
	var archive, again bytes.Buffer
	digests, err := Write(&archive, images...)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Write(&again, images...); err != nil || !bytes.Equal(archive.Bytes(), again.Bytes()) {
		t.Errorf("a second archive differs (%v)", err)
	}
	blobs := map[string][]byte{}
	for _, file := range unpack(t, archive.Bytes()) {
		if _, twice := blobs[file.Name]; twice {
			t.Errorf("%s is there twice", file.Name)
		}
		blobs[file.Name] = file.content
	}
	names := map[string]string{}
	var index struct{ Manifests []descriptor }
	decode(t, blobs["index.json"], &index)
	for _, manifest := range index.Manifests {
		names[manifest.Annotations[nameAnnotation]] = manifest.Digest
		if size := int64(len(blobs[blobPath(manifest.Digest)])); size != manifest.Size {
			t.Errorf("%s has %d bytes and is said to have %d", manifest.Digest, size, manifest.Size)
		}
	}
	want := map[string]string{
		"example/a:1": digests[0], "example/b:1": digests[0], "example/c:1": digests[1],
		"example/a@" + digests[0]: digests[0], "example/b@" + digests[0]: digests[0], "example/c@" + digests[1]: digests[1],
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Error(diff)
	}
	var docker []dockerImage
	decode(t, blobs["manifest.json"], &docker)
	for i, image := range docker {
		if !cmp.Equal(image.RepoTags, images[i].Names) || blobs[image.Config] == nil || blobs[image.Layers[0]] == nil {
			t.Errorf("docker does not find %v: %+v", images[i].Names, image)
		}
	}
}

func TestWriteTellsWhatIsMissing(t *testing.T) {
	_, err := Write(io.Discard, Image{Names: []string{"example:1"}, Layers: []Layer{Archive("no such file")}})
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a layer that is not there gives %v", err)
	}
}

type unpacked struct {
	*tar.Header
	content []byte
}

func unpack(t *testing.T, archive []byte) []unpacked {
	t.Helper()
	var files []unpacked
	for reader := tar.NewReader(bytes.NewReader(archive)); ; {
		head, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(reader)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, unpacked{head, content})
	}
}

func decode(t *testing.T, content []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(content, into); err != nil {
		t.Fatal(err)
	}
}
