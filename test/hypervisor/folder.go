package hypervisor

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/virtwright/virtwright/test/filelock"
)

// Folders of daemons are short because libvirt puts sockets deep below them, and a socket's path
// has at most 108 bytes: a guest agent's takes 90 more than this. For the same reason they lie in
// /tmp, not in TMPDIR.
const (
	folderParent  = "/tmp"
	folderPrefix  = "vwhv"
	folderPattern = folderPrefix + "????"
)

// makeFolder makes the locked folder of a daemon. The lock is held as long as this process lives,
// and so tells whether the folder is in use.
func makeFolder() (dir string, lock *os.File, err error) {
	sweep()
	for {
		dir = filepath.Join(folderParent, fmt.Sprintf("%s%04x", folderPrefix, rand.N(1<<16)))
		err = os.Mkdir(dir, 0o700)
		if !errors.Is(err, fs.ErrExist) {
			break
		}
	}
	if err != nil {
		return "", nil, fmt.Errorf("cannot make the folder of a daemon: %w", err)
	}
	// The lock gets its name only when it is held, so that no sweep in between takes the folder for
	// an abandoned one.
	lock, err = filelock.Try(lockFile(dir) + ".new")
	if err == nil {
		err = os.Rename(lock.Name(), lockFile(dir))
	}
	if err != nil {
		return "", nil, fmt.Errorf("cannot lock the folder of a daemon: %w", err)
	}
	return dir, lock, nil
}

// sweep ends the emulators and removes the folders of daemons whose test was killed.
func sweep() {
	dirs, _ := filepath.Glob(filepath.Join(folderParent, folderPattern))
	for _, dir := range dirs {
		if _, err := os.Stat(lockFile(dir)); err != nil {
			continue // just being made, or another user's
		}
		if lock, err := filelock.Try(lockFile(dir)); err == nil && lock != nil {
			killEmulators(dir)
			_ = os.RemoveAll(dir) // the next sweep removes leftovers
			lock.Close()
		}
	}
}

func lockFile(dir string) string { return filepath.Join(dir, "virtwright.lock") }
