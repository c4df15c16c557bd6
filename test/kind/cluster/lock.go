package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Lock keeps other processes from building, starting and ending clusters until
// unlock is called. It waits while another has the lock.
func (w *workshop) Lock(ctx context.Context) (unlock func(), err error) {
	if err := os.MkdirAll(w.cache, 0o755); err != nil {
		return nil, fmt.Errorf("cannot make the cache folder: %w", err)
	}
	file, err := os.OpenFile(filepath.Join(w.cache, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot open the lock: %w", err)
	}
	for told := false; ; {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { file.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			file.Close()
			return nil, fmt.Errorf("cannot lock the cache: %w", err)
		}
		if !told {
			w.say("waiting for another process that is at work on clusters")
			told = true
		}
		select {
		case <-ctx.Done():
			file.Close()
			return nil, fmt.Errorf("cannot wait for another process: %w", ctx.Err())
		case <-time.After(pollInterval):
		}
	}
}
