package files

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
)

// TestInside rejects links in an image to other files of the pod.
func TestInside(t *testing.T) {
	dir := t.TempDir()
	for _, folder := range []string{"image/disk", "image/two", "image/dir/sub", "secret"} {
		must(t, os.MkdirAll(filepath.Join(dir, folder), 0o755))
	}
	for _, file := range []string{"image/disk/a.img", "image/two/a", "image/two/b", "secret/key"} {
		must(t, os.WriteFile(filepath.Join(dir, file), nil, 0o600))
	}
	for link, to := range map[string]string{
		"image/out": "../secret/key", "image/absolute": filepath.Join(dir, "secret/key"), "image/in": "disk/a.img", "image/folder": "../secret", "image/one": "disk",
	} {
		must(t, os.Symlink(to, filepath.Join(dir, link)))
	}
	root := filepath.Join(dir, "image")
	for path, want := range map[string]string{
		"disk/a.img": "", "/disk/a.img": "", "disk": "", "in": "", "one": "",
		"out": "leads out of", "absolute": "leads out of", "folder": "leads out of", "folder/key": "leads out of", "../secret/key": "leads out of",
		"two": "has 2 files, not one", "none": "no such file", "dir": "is not a regular file",
	} {
		file, err := inside(root, path)
		switch {
		case want == "" && (err != nil || file != filepath.Join(root, "disk/a.img")):
			t.Errorf("%s: %s, %v", path, file, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %s, %v, want %q", path, file, err, want)
		}
	}
}

// TestSparse creates a disk once, and never through a link. A disk of a claim is at most as large
// as its file system.
func TestSparse(t *testing.T) {
	file := filepath.Join(t.TempDir(), "disk.img")
	if _, err := sparse(file, nil, grow); err == nil {
		t.Error("a disk without a capacity is created")
	}
	size := resource.MustParse("10Mi")
	facts, err := sparse(file, &size, fail)
	must(t, err)
	if info, err := os.Stat(file); err != nil || info.Size() != 10<<20 || facts.Format != "raw" || facts.Preallocated {
		t.Errorf("%v, %v, %+v", info, err, facts)
	}
	must(t, os.WriteFile(file, []byte("data"), 0o600))
	_, err = sparse(file, &size, fail)
	must(t, err)
	if content, _ := os.ReadFile(file); string(content) != "data" {
		t.Error("the disk was replaced")
	}
	var system syscall.Statfs_t
	must(t, syscall.Statfs(filepath.Dir(file), &system))
	free := int64(system.Bavail) * system.Bsize
	large := *resource.NewQuantity((free/4096+1<<18)*4096, resource.BinarySI)
	for onShortage, name := range map[shortage]string{grow: "emptyDisk", shrink: "claim", fail: "hostDisk"} {
		file := filepath.Join(filepath.Dir(file), name)
		_, err := sparse(file, &large, onShortage)
		info, missing := os.Stat(file)
		switch {
		case onShortage == fail && (err == nil || !strings.Contains(err.Error(), "bytes are free") || missing == nil):
			t.Errorf("%s: %v, %v", name, err, missing)
		case onShortage == fail:
		case err != nil || missing != nil || (info.Size() == large.Value()) != (onShortage == grow):
			t.Errorf("%s: %v, %v, %v", name, info, err, missing)
		}
	}
	link := filepath.Join(filepath.Dir(file), "link")
	must(t, os.Symlink("/etc/passwd", link))
	if _, err := sparse(link, &size, grow); err == nil || !strings.Contains(err.Error(), "neither a regular file") {
		t.Errorf("a link is accepted: %v", err)
	}
}

// TestMounted ignores the links by which the kubelet updates files.
func TestMounted(t *testing.T) {
	dir := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(dir, "..2026", "sub"), 0o755))
	must(t, os.WriteFile(filepath.Join(dir, "..2026", "key"), []byte("a"), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "..2026", "sub", "key"), []byte("b"), 0o600))
	must(t, os.Symlink("..2026", filepath.Join(dir, "..data")))
	must(t, os.Symlink("..data/key", filepath.Join(dir, "key")))
	must(t, os.Symlink("..data/sub", filepath.Join(dir, "sub")))
	got, err := mounted(dir)
	must(t, err)
	if diff := cmp.Diff(map[string][]byte{"key": []byte("a"), "sub/key": []byte("b")}, got); diff != "" {
		t.Error(diff)
	}
	if got, err := mounted(filepath.Join(dir, "none")); err == nil {
		t.Errorf("a missing folder has %v", got)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
