package controlplane

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/virtwright/virtwright/test/filelock"
)

// dirPattern names temporary data folders.
const dirPattern = "virtwright-cp-"

// dataDir is the folder of one control plane. Its lock is held by the process that runs the control
// plane, and so tells whether the folder is in use.
type dataDir struct {
	path      string
	lock      *os.File
	temporary bool
}

// newDataDir makes and locks the folder at path, or a temporary one.
func newDataDir(path string) (_ *dataDir, err error) {
	dir := &dataDir{path: path, temporary: path == ""}
	if dir.temporary {
		sweep(os.TempDir())
		dir.path, err = os.MkdirTemp("", dirPattern)
	} else if dir.path, err = filepath.Abs(path); err == nil {
		err = os.MkdirAll(dir.path, 0o700)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot make the data folder: %w", err)
	}
	if dir.temporary {
		dir.lock, err = lockUnseen(dir.path)
	} else {
		dir.lock, err = filelock.Try(lockFile(dir.path))
	}
	if err != nil {
		return nil, err
	}
	if dir.lock == nil {
		return nil, fmt.Errorf("cannot use %s: another control plane runs there", dir.path)
	}
	return dir, nil
}

// lockUnseen locks a new folder; the lock gets its name only when it is held, so that no sweep in
// between takes the folder for an abandoned one.
func lockUnseen(dir string) (*os.File, error) {
	unnamed := filepath.Join(dir, "lock.new")
	lock, err := filelock.Try(unnamed)
	if err != nil {
		return nil, err
	}
	if err := os.Rename(unnamed, lockFile(dir)); err != nil {
		return nil, fmt.Errorf("cannot name a lock: %w", err)
	}
	return lock, nil
}

// close gives the folder up.
func (d *dataDir) close() {
	if d.temporary {
		_ = os.RemoveAll(d.path) // the next control plane removes leftovers
	}
	d.lock.Close()
}

// sweep removes data folders whose control plane was killed with its process.
func sweep(parent string) {
	dirs, _ := filepath.Glob(filepath.Join(parent, dirPattern+"*"))
	for _, dir := range dirs {
		if _, err := os.Stat(lockFile(dir)); err != nil {
			continue // just being made, or another user's
		}
		if lock, err := filelock.Try(lockFile(dir)); err == nil && lock != nil {
			_ = os.RemoveAll(dir)
			lock.Close()
		}
	}
}

// InUse tells whether a control plane runs on the data folder.
func InUse(dir string) bool {
	if _, err := os.Stat(lockFile(dir)); err != nil {
		return false
	}
	lock, err := filelock.Try(lockFile(dir))
	if err != nil {
		return false
	}
	if lock == nil {
		return true
	}
	lock.Close()
	return false
}

func lockFile(dir string) string { return filepath.Join(dir, "lock") }
