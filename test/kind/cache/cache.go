// Package cache keeps files that are slow to build, in folders named for their sources.
package cache

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Key is a short name for inputs. Different inputs have different names.
func Key(inputs ...string) string {
	hash := sha256.New()
	for _, input := range inputs {
		fmt.Fprintf(hash, "%d %s\n", len(input), input)
	}
	return hex.EncodeToString(hash.Sum(nil))[:16]
}

// Keep returns the folder root/sort/key. If it does not exist, create fills it first. A folder gets
// its name when it is complete.
func Keep(root, sort, key string, create func(dir string) error) (string, error) {
	dir := filepath.Join(root, sort, key)
	if _, err := os.Stat(dir); err == nil {
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
