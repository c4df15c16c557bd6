package cluster

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"time"
)

// A workshop makes what a cluster consists of and keeps it in the cache, in
// folders that are named for what they were made from.
type workshop struct {
	// source is the folder test/kind, cache the folder where things are kept.
	source, cache string
	progress      io.Writer
}

// sourceDir finds test/kind: beside this file, else in the module of the
// working directory.
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

// key is a name for what has been made from inputs.
func (w *workshop) key(inputs ...string) string {
	hash := sha256.New()
	for _, input := range inputs {
		fmt.Fprintf(hash, "%d %s\n", len(input), input)
	}
	return hex.EncodeToString(hash.Sum(nil))[:16]
}

// keep returns the folder of the cache for what has the key, and makes it first
// when it is not there. A folder is there only when it is complete.
func (w *workshop) keep(sort, key string, create func(dir string) error) (string, error) {
	dir := filepath.Join(w.cache, sort, key)
	if isThere(dir) {
		return dir, nil
	}
	unfinished := dir + ".new"
	if err := errors.Join(os.RemoveAll(unfinished), os.MkdirAll(unfinished, 0o755)); err != nil {
		return "", fmt.Errorf("cannot make a folder of the cache: %w", err)
	}
	if err := create(unfinished); err != nil {
		return "", errors.Join(err, os.RemoveAll(unfinished))
	}
	if err := os.Rename(unfinished, dir); err != nil {
		return "", fmt.Errorf("cannot name a folder of the cache: %w", err)
	}
	return dir, nil
}

func (w *workshop) say(format string, args ...any) {
	fmt.Fprintf(w.progress, "kind: "+format+"\n", args...)
}

func since(began time.Time) time.Duration { return time.Since(began).Round(100 * time.Millisecond) }

func isThere(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
