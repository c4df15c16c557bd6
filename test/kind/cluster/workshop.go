package cluster

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/virtwright/virtwright/test/kind/cache"
)

// A workshop makes what a cluster consists of and keeps it in the cache, in folders that are named
// for what they were made from.
type workshop struct {
	// source is the folder test/kind, cache the folder where things are kept.
	source, cache string
	progress      io.Writer
}

// sourceDir finds test/kind: beside this file, else in the module of the working directory.
func sourceDir() (string, error) {
	if _, file, _, ok := runtime.Caller(0); ok && isThere(file) {
		return filepath.Dir(filepath.Dir(file)), nil
	}
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("cannot find the working directory: %w", err)
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if found := filepath.Join(dir, "test", "kind"); isThere(found) {
			return found, nil
		}
	}
	return "", errors.New("cannot find test/kind: run this inside a clone of virtwright")
}

// keep returns the folder of the cache that has the key, and fills it first if it does not exist.
func (w *workshop) keep(sort, key string, create func(dir string) error) (string, error) {
	return cache.Keep(w.cache, sort, key, create)
}

func (w *workshop) say(format string, args ...any) {
	fmt.Fprintf(w.progress, "kind: "+format+"\n", args...)
}

func since(began time.Time) time.Duration { return time.Since(began).Round(100 * time.Millisecond) }

func isThere(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
