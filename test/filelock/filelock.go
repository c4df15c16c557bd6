// Package filelock locks files between processes, to mark them as in use.
package filelock

import (
	"fmt"
	"os"
	"syscall"
)

// Try locks a file, which it makes if it is missing; a symbolic link is an error. It returns nil if
// another process holds the lock. Closing the file, or the end of this process, unlocks it.
func Try(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot open a lock: %w", err)
	}
	switch err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err {
	case nil:
		return file, nil
	case syscall.EWOULDBLOCK:
		file.Close()
		return nil, nil
	default:
		file.Close()
		return nil, fmt.Errorf("cannot lock %s: %w", path, err)
	}
}
