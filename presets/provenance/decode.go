package provenance

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/json"
)

// storedHead is the stored form without the trie.
type storedHead struct {
	Version    int                 `json:"v"`
	Snapshot   string              `json:"snapshot"`
	By         []string            `json:"by"`
	Hashes     []string            `json:"hashes,omitempty"`
	Exceptions map[string][]string `json:"exceptions,omitempty"`
}

type stored struct {
	storedHead
	Set map[string]any `json:"set"`
}

// decode parses text into a stored form. It returns a record with the sources and exceptions.
func decode(text string, form any, head *storedHead) (*Record, error) {
	if len(text) > maxBytes {
		return nil, tooLargeError{Bytes: len(text)}
	}
	if err := json.UnmarshalCaseSensitivePreserveInts([]byte(text), form); err != nil {
		return nil, fmt.Errorf("cannot decode provenance: %w", err)
	}
	if head.Version != version {
		return nil, fmt.Errorf("cannot decode provenance: version must be %d, but is %d", version, head.Version)
	}
	r := New()
	r.Snapshot = head.Snapshot
	for _, name := range slices.Sorted(maps.Keys(head.Exceptions)) {
		r.Exceptions = append(r.Exceptions, Exception{name, head.Exceptions[name]})
	}
	for i, text := range head.By {
		source, err := parseSource(text)
		if err != nil {
			return nil, fmt.Errorf("cannot decode provenance: %w", err)
		}
		if i < len(head.Hashes) {
			source.Hash = head.Hashes[i]
		}
		r.Sources = append(r.Sources, source)
	}
	return r, nil
}

// DecodeSources reads only the sources of a record, for a third of the cost of Decode.
func DecodeSources(text string) (*Record, error) {
	var s storedHead
	return decode(text, &s, &s)
}

// Decode reads the text of Encode. Any other text, as an annotation may have, is an error.
func Decode(text string) (*Record, error) {
	var s stored
	r, err := decode(text, &s, &s.storedHead)
	if err != nil {
		return nil, err
	}
	if err := r.decodeChildren(&r.root, s.Set); err != nil {
		return nil, fmt.Errorf("cannot decode provenance: %w", err)
	}
	return r, nil
}

func (r *Record) decodeChildren(n *Node, set map[string]any) error {
	for _, key := range slices.Sorted(maps.Keys(set)) {
		var err error
		switch sub, isObject := set[key].(map[string]any); {
		case key == "~":
			n.EmptyByUser = true
		case key == ".":
			err = r.decodeLeaf(n, set[key])
		case isObject:
			err = r.decodeChildren(r.Child(n, segmentOf(key)), sub)
		default:
			err = r.decodeLeaf(r.Child(n, segmentOf(key)), set[key])
		}
		if err != nil {
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
		n.Overruled, n.TooLarge = true, len(list) == 1
		if !n.TooLarge {
			n.UserValue = list[1]
		}
		value = list[0]
	}
	i, ok := value.(int64)
	if !ok || i < 0 || i >= int64(len(r.Sources)) {
		return fmt.Errorf("source of leaf %q must be the number of one of %d sources, from 0, not %v", n.Name, len(r.Sources), value)
	}
	n.Source = int32(i)
	return nil
}
