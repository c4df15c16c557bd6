package certs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
)

// ErrChanged says that a Store holds something newer than what Save was to
// replace: another replica was faster.
var ErrChanged = errors.New("the stored certificates have changed")

// A Store keeps the keys and certificates that all replicas share, under the
// keys KeyCA, KeyCAKey, KeyCertificate and KeyPrivateKey.
type Store interface {
	// Load returns what is stored and its version: nil and "" where there is nothing.
	Load(ctx context.Context) (data map[string][]byte, version string, err error)
	// Save replaces what is stored if it still has that version ("": nothing is
	// stored). Otherwise it returns ErrChanged.
	Save(ctx context.Context, data map[string][]byte, version string) error
}

// Memory is a Store for one process. The zero Memory is empty.
type Memory struct {
	mu      sync.Mutex
	data    map[string][]byte
	version int
}

// Load returns what is stored.
func (s *Memory) Load(context.Context) (map[string][]byte, string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.data), s.current(), nil
}

// Save replaces what is stored.
func (s *Memory) Save(_ context.Context, data map[string][]byte, version string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if version != s.current() {
		return ErrChanged
	}
	s.data = maps.Clone(data)
	s.version++
	return nil
}

func (s *Memory) current() string {
	if s.version == 0 {
		return ""
	}
	return strconv.Itoa(s.version)
}

// Directory is a Store in a folder, one file for each key, for one process at a
// time. A process that dies while saving leaves files that do not fit
// together; they are made anew.
type Directory string

var storedKeys = []string{KeyCA, KeyCAKey, KeyCertificate, KeyPrivateKey}

// Load reads the files.
func (s Directory) Load(context.Context) (map[string][]byte, string, error) {
	data := map[string][]byte{}
	for _, key := range storedKeys {
		content, err := os.ReadFile(filepath.Join(string(s), key))
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return nil, "", fmt.Errorf("cannot read stored certificates: %w", err)
		default:
			data[key] = content
		}
	}
	return data, digest(data), nil
}

// Save writes the files, each at once.
func (s Directory) Save(ctx context.Context, data map[string][]byte, version string) error {
	if _, now, err := s.Load(ctx); err != nil {
		return err
	} else if now != version {
		return ErrChanged
	}
	if err := os.MkdirAll(string(s), 0o700); err != nil {
		return fmt.Errorf("cannot store certificates: %w", err)
	}
	for _, key := range storedKeys {
		path := filepath.Join(string(s), key)
		if err := os.WriteFile(path+".new", data[key], 0o600); err != nil {
			return fmt.Errorf("cannot store certificates: %w", err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			return fmt.Errorf("cannot store certificates: %w", err)
		}
	}
	return nil
}

func digest(data map[string][]byte) string {
	if len(data) == 0 {
		return ""
	}
	sum := sha256.New()
	for _, key := range slices.Sorted(maps.Keys(data)) {
		fmt.Fprintf(sum, "%s %d %s", key, len(data[key]), data[key])
	}
	return hex.EncodeToString(sum.Sum(nil))
}
