package cache

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// A kept folder is built once. One that could not be built does not exist.
func TestKeep(t *testing.T) {
	root := t.TempDir()
	tries, reject := 0, errors.New("no")
	create := func(dir string) error {
		tries++
		if err := os.WriteFile(filepath.Join(dir, "made"), nil, 0o600); err != nil {
			return err
		}
		if tries == 1 {
			return reject
		}
		return nil
	}
	if _, err := Keep(root, "things", "a", create); !errors.Is(err, reject) {
		t.Errorf("got %v, want %v", err, reject)
	}
	for range 2 {
		dir, err := Keep(root, "things", "a", create)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(dir, "made")); err != nil {
			t.Errorf("nothing was made: %v", err)
		}
	}
	if tries != 2 {
		t.Errorf("made %d times, want once, after one error", tries)
	}
	entries, err := os.ReadDir(filepath.Join(root, "things"))
	if err != nil || len(entries) != 1 {
		t.Errorf("the cache has %v, %v", entries, err)
	}
}

func TestKey(t *testing.T) {
	seen := map[string][]string{}
	for _, inputs := range [][]string{{}, {""}, {"ab"}, {"a", "b"}, {"b", "a"}, {"1 a"}} {
		key := Key(inputs...)
		if others, taken := seen[key]; taken {
			t.Errorf("%q and %q have the same key", others, inputs)
		}
		seen[key] = inputs
	}
}
