// Package worktree copies the source, for tests that build it in another folder.
package worktree

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Copy returns a copy of the working tree at root, as git sees it: with new files and without
// ignored ones. It skips the test if the source is no clone.
func Copy(t testing.TB, root string) string {
	t.Helper()
	list := exec.CommandContext(t.Context(), "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	list.Dir = root
	names, err := list.Output()
	if err != nil {
		t.Skipf("the source is no clone: %v", err)
	}
	dir := t.TempDir()
	for name := range strings.SplitSeq(strings.TrimSuffix(string(names), "\x00"), "\x00") {
		content, err := os.ReadFile(filepath.Join(root, name)) //nolint:gosec // a file of the source
		if errors.Is(err, os.ErrNotExist) {
			continue // deleted, and not yet committed
		}
		if err != nil {
			t.Fatal(err)
		}
		target := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(target), 0o755), os.WriteFile(target, content, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
