package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/virtwright/virtwright/test/filelock"
)

// Lock keeps other processes from building, starting and ending clusters until unlock is called. It
// waits while another has the lock.
func (w *workshop) Lock(ctx context.Context) (unlock func(), err error) {
	if err := os.MkdirAll(w.cache, 0o755); err != nil {
		return nil, fmt.Errorf("cannot make the cache folder: %w", err)
	}
	for told := false; ; {
		file, err := filelock.Try(filepath.Join(w.cache, "lock"))
		if err != nil {
			return nil, fmt.Errorf("cannot lock the cache: %w", err)
		}
		if file != nil {
			return func() { file.Close() }, nil
		}
		if !told {
			w.say("waiting for another process that is at work on clusters")
			told = true
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("cannot wait for another process: %w", ctx.Err())
		case <-time.After(pollInterval):
		}
	}
}
