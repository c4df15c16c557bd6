package provenance

import (
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
)

const (
	// maxBytes is the size limit of a stored record, maxOverruledBytes that of a user value in it.
	maxBytes, maxOverruledBytes = 64 << 10, 1 << 10

	version = 1
)

type tooLargeError struct{ Bytes int }

func (e tooLargeError) Error() string {
	return fmt.Sprintf("cannot store provenance of %d bytes: at most %d are allowed; use fewer or smaller presets", e.Bytes, maxBytes)
}

// buffers are reused between records; a stored form is a copy.
var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 4<<10); return &b }}

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
	buffer := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	b := (*buffer)[:0]
	b = append(b, `{"v":`...)
	b = strconv.AppendInt(b, version, 10)
	b = append(b, `,"snapshot":`...)
	b = appendString(b, r.Snapshot)
	b = append(b, `,"by":[`...)
	for i, s := range r.Sources {
		if i > 0 {
			b = append(b, ',')
		}
		b = s.appendTo(b)
	}
	b = append(b, ']')
	b = r.appendExceptions(r.appendHashes(b))
	b = append(b, `,"set":`...)
	b, err := appendChildren(b, &r.root)
	if err != nil {
		return "", err
	}
	b = append(b, '}')
	*buffer = b
	if len(b) > maxBytes {
		return "", tooLargeError{Bytes: len(b)}
	}
	return string(b), nil
}

// appendHashes appends the hashes, if there are any. Older programs ignore the key.
func (r *Record) appendHashes(b []byte) []byte {
	last := len(r.Sources)
	for last > 0 && r.Sources[last-1].Hash == "" {
		last--
	}
	if last == 0 {
		return b
	}
	b = append(b, `,"hashes":[`...)
	for i, s := range r.Sources[:last] {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, s.Hash)
	}
	return append(b, ']')
}

// appendExceptions appends the exceptions, if there are any. Older programs ignore the key.
func (r *Record) appendExceptions(b []byte) []byte {
	if len(r.Exceptions) == 0 {
		return b
	}
	byName := make(map[string][]string, len(r.Exceptions))
	for _, e := range r.Exceptions {
		byName[e.Name] = e.Presets
	}
	text, _ := json.Marshal(byName) // strings always have a JSON form
	return append(append(b, `,"exceptions":`...), text...)
}

// appendTo appends the text of String without allocating it.
func (s Source) appendTo(b []byte) []byte {
	if !plain(s.Preset) {
		return appendString(b, s.String())
	}
	b = append(append(b, '"'), s.Preset...)
	if s.Generation != 0 {
		b = strconv.AppendInt(append(b, '@'), s.Generation, 10)
	}
	b = append(append(b, ':'), s.Role.String()...)
	return append(b, '"')
}

func appendChildren(b []byte, n *Node) ([]byte, error) {
	start := len(b)
	b = append(b, '{')
	if n.EmptyByUser {
		b = append(b, `"~":0,`...)
	}
	var err error
	if n.Source != NoSource {
		b = append(b, `".":`...)
		if b, err = appendLeaf(b, n); err != nil {
			return nil, err
		}
		b = append(b, ',')
	}
	for c := n.child; c != nil; c = c.next {
		if !c.HasContent() {
			continue
		}
		b = appendKey(b, c.Segment())
		b = append(b, ':')
		if c.child == nil && !c.EmptyByUser {
			b, err = appendLeaf(b, c)
		} else {
			b, err = appendChildren(b, c)
		}
		if err != nil {
			return nil, err
		}
		b = append(b, ',')
	}
	if len(b) == start+1 {
		return append(b, '}'), nil
	}
	b[len(b)-1] = '}'
	return b, nil
}

func appendLeaf(b []byte, n *Node) ([]byte, error) {
	if !n.Overruled {
		return strconv.AppendInt(b, int64(n.Source), 10), nil
	}
	b = append(b, '[')
	b = strconv.AppendInt(b, int64(n.Source), 10)
	if !n.TooLarge {
		value, err := json.Marshal(n.UserValue)
		if err != nil {
			return nil, fmt.Errorf("cannot store overruled value of %s: %w", n.Name, err)
		}
		if len(value) <= maxOverruledBytes {
			b = append(b, ',')
			b = append(b, value...)
		}
	}
	return append(b, ']'), nil
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
		quoted, _ := json.Marshal(s) // a string always has a JSON form
		return append(b, quoted...)
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
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
