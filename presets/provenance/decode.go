package provenance

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/json"
)

type stored struct {
	Version  int            `json:"v"`
	Snapshot string         `json:"snapshot"`
	By       []string       `json:"by"`
	Hashes   []string       `json:"hashes"`
	Set      map[string]any `json:"set"`

	Exceptions map[string][]string `json:"exceptions"`
}

// DecodeSources reads only the sources of what Encode returned, for a fifth of what Decode costs.
func DecodeSources(text string) (*Record, error) {
	if len(text) > MaxBytes {
		return nil, ErrTooLarge{Bytes: len(text)}
	}
	var s struct {
		Version int      `json:"v"`
		By      []string `json:"by"`
		Hashes  []string `json:"hashes"`

		Exceptions map[string][]string `json:"exceptions"`
	}
	if err := json.UnmarshalCaseSensitivePreserveInts([]byte(text), &s); err != nil {
		return nil, fmt.Errorf("cannot decode provenance: %w", err)
	}
	r := New()
	r.decodeExceptions(s.Exceptions)
	return r, r.decodeSources(s.Version, s.By, s.Hashes)
}

func (r *Record) decodeExceptions(byName map[string][]string) {
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		r.Exceptions = append(r.Exceptions, Exception{name, byName[name]})
	}
}

func (r *Record) decodeSources(v int, by, hashes []string) error {
	if v != version {
		return fmt.Errorf("cannot decode provenance of version %d: want version %d", v, version)
	}
	for i, text := range by {
		source, err := ParseSource(text)
		if err != nil {
			return fmt.Errorf("cannot decode provenance: %w", err)
		}
		if i < len(hashes) {
			source.Hash = hashes[i]
		}
		r.Sources = append(r.Sources, source)
	}
	return nil
}

// Decode reads what Encode returned. Anything else is an error, never a panic:
// the text comes from an annotation.
func Decode(text string) (*Record, error) {
	if len(text) > MaxBytes {
		return nil, ErrTooLarge{Bytes: len(text)}
	}
	var s stored
	if err := json.UnmarshalCaseSensitivePreserveInts([]byte(text), &s); err != nil {
		return nil, fmt.Errorf("cannot decode provenance: %w", err)
	}
	r := New()
	r.Snapshot = s.Snapshot
	r.decodeExceptions(s.Exceptions)
	if err := r.decodeSources(s.Version, s.By, s.Hashes); err != nil {
		return nil, err
	}
	if err := r.decodeChildren(&r.root, s.Set); err != nil {
		return nil, fmt.Errorf("cannot decode provenance: %w", err)
	}
	return r, nil
}

func (r *Record) decodeChildren(n *Node, set map[string]any) error {
	for _, key := range slices.Sorted(maps.Keys(set)) {
		value := set[key]
		switch key {
		case "~":
			n.WasEmpty = true
			continue
		case ".":
			if err := r.decodeLeaf(n, value); err != nil {
				return err
			}
			continue
		}
		child := r.Child(n, segmentOf(key))
		if sub, ok := value.(map[string]any); ok {
			if err := r.decodeChildren(child, sub); err != nil {
				return err
			}
			continue
		}
		if err := r.decodeLeaf(child, value); err != nil {
			return err
		}
	}
	return nil
}

func segmentOf(key string) Segment {
	if strings.HasPrefix(key, "[") && strings.HasSuffix(key, "]") {
		return Segment{Name: key[1 : len(key)-1], Kind: Element}
	}
	return Segment{Name: strings.TrimPrefix(key, `\`)}
}

func (r *Record) decodeLeaf(n *Node, value any) error {
	if list, ok := value.([]any); ok {
		if len(list) == 0 || len(list) > 2 {
			return errors.New("an overruled leaf must be [source] or [source, value]")
		}
		n.Overruled, n.Lost = true, len(list) == 1
		if !n.Lost {
			n.Was = list[1]
		}
		value = list[0]
	}
	i, ok := value.(int64)
	if !ok || i < 0 || i >= int64(len(r.Sources)) {
		return fmt.Errorf("leaf %q names source %v of %d", n.Name, value, len(r.Sources))
	}
	n.Source = int32(i)
	return nil
}
