package provenance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
)

const (
	// maxBytes is the size limit of a stored record, maxOverruledBytes that of a user value in it.
	maxBytes, maxOverruledBytes = 64 << 10, 1 << 10

	usualBytes = 4 << 10 // of a record; a constant size lets the buffer stay on the stack

	version = 1
)

type tooLargeError struct{ Bytes int }

func (e tooLargeError) Error() string {
	return fmt.Sprintf("cannot store provenance of %d bytes: at most %d are allowed; use fewer or smaller presets", e.Bytes, maxBytes)
}

// Empty reports whether there is nothing to store.
func (r *Record) Empty() bool { return len(r.Sources)+len(r.Exceptions) == 0 }

// Encode returns the stored form: one line of JSON,
//
//	{"v":1,"snapshot":"1f…","by":["cluster/windows@3:default"],"hashes":["0a1b2c3d"],
//	"set":{"spec":{"running":0}}}
//
// where "hashes" has the hash of each source, without the empty ones at its end, and "set" is the
// trie. Exceptions follow the hashes, as "exceptions":{"NAME":["cluster/windows"]}. A leaf is the
// index of its source in "by"; with an overruled value it is [index, value], or [index] when the
// value was over maxOverruledBytes. A decided container holds its own leaf under ".", and a
// container that the user wrote empty holds "~":0. An element is "[key]".
func (r *Record) Encode() (string, error) {
	head := storedHead{Version: version, Snapshot: r.Snapshot, By: make([]string, 0, len(r.Sources))}
	var hashes []string
	for _, s := range r.Sources {
		head.By = append(head.By, s.String())
		if hashes = append(hashes, s.Hash); s.Hash != "" {
			head.Hashes = hashes
		}
	}
	if len(r.Exceptions) > 0 {
		head.Exceptions = make(map[string][]string, len(r.Exceptions))
	}
	for _, e := range r.Exceptions {
		head.Exceptions[e.Name] = e.Presets
	}
	b := append(make([]byte, 0, usualBytes), bytes.TrimSuffix(jsonOf(head), []byte("}"))...)
	b = appendChildren(append(b, `,"set":`...), &r.root)
	if b = append(b, '}'); len(b) > maxBytes {
		return "", tooLargeError{Bytes: len(b)}
	}
	return string(b), nil
}

// jsonOf returns the JSON form of a value that always has one.
func jsonOf(v any) []byte {
	out, _ := json.Marshal(v)
	return out
}

// appendChildren writes the nodes itself, because encoding/json would order them by escaped names.
func appendChildren(b []byte, n *Node) []byte {
	b = append(b, '{')
	if n.EmptyByUser {
		b = append(b, `"~":0,`...)
	}
	if n.Source != NoSource {
		b = append(appendLeaf(append(b, `".":`...), n), ',')
	}
	for c := n.child; c != nil; c = c.next {
		if !c.HasContent() {
			continue
		}
		b = append(appendKey(b, c.Segment()), ':')
		if c.child == nil && !c.EmptyByUser {
			b = appendLeaf(b, c)
		} else {
			b = appendChildren(b, c)
		}
		b = append(b, ',')
	}
	return append(bytes.TrimSuffix(b, []byte(",")), '}')
}

func appendLeaf(b []byte, n *Node) []byte {
	if !n.Overruled {
		return strconv.AppendInt(b, int64(n.Source), 10)
	}
	b = strconv.AppendInt(append(b, '['), int64(n.Source), 10)
	if !n.TooLarge {
		if value := jsonOf(n.UserValue); len(value) <= maxOverruledBytes {
			b = append(append(b, ','), value...)
		}
	}
	return append(b, ']')
}

// appendKey escapes the name of a field that would be read as something else.
func appendKey(b []byte, s Segment) []byte {
	switch {
	case s.Kind == Element:
		return appendString(b, "["+s.Name+"]")
	case s.Name != "" && (s.Name[0] == '[' || s.Name[0] == '\\') || s.Name == "." || s.Name == "~":
		return appendString(b, `\`+s.Name)
	}
	return appendString(b, s.Name)
}

func appendString(b []byte, s string) []byte {
	if !plain(s) {
		return append(b, jsonOf(s)...)
	}
	return append(append(append(b, '"'), s...), '"')
}

// plain reports whether a string needs no escapes in JSON.
func plain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c >= 0x7f || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}
