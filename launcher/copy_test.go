package launcher

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestCopy(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	content := append(bytes.Repeat([]byte{0}, 1<<20), []byte("the end of the disk")...)
	content = append(content, make([]byte, 1<<20)...)
	if err := os.MkdirAll(path("disk"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path("disk/a.img"), content, 0o750); err != nil {
		t.Fatal(err)
	}
	for _, from := range []string{"disk", "disk/a.img"} {
		if err := Copy(path(from), path("copy")); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path("copy"))
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := os.ReadFile(path("copy")); !bytes.Equal(got, content) || info.Mode().Perm()&0o100 == 0 {
			t.Errorf("%s: the copy differs or has lost its executable bit: %s", from, info.Mode())
		}
		if blocks := info.Sys().(*syscall.Stat_t).Blocks; blocks*512 > 1<<18 {
			t.Errorf("%s: the copy has %d blocks", from, blocks)
		}
	}
	if err := os.WriteFile(path("disk/b.img"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for from, want := range map[string]string{"disk": "has 2 files, not one", "none": "no such file"} {
		if err := Copy(path(from), path("other")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", from, err)
		}
	}
	if left, _ := filepath.Glob(path("*other*")); len(left) > 0 {
		t.Errorf("files remain: %v", left)
	}
}
