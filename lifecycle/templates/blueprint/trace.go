package blueprint

import (
	"strings"
)

// traceable is the shortest secret that is looked for elsewhere: shorter ones
// would be found by chance. White space does not count.
const traceable = 8

// mostWork is how many bytes are looked at, at most, in all texts of a VM with
// all that is packed in them. What is larger is no VirtualMachine of use.
const mostWork = 128 << 20

// A Tracer finds secrets in texts: as they are, whatever the white space
// (indented, wrapped, with other ends of lines), with escapes as JSON has them,
// in base64, also compressed by gzip, and in these within each other. It does
// not find parts of a secret, nor what is encoded or encrypted otherwise.
type Tracer struct {
	traces map[uint64][]trace // by their first bytes
	first  filter             // of these
	work   int
}

// A trace is a text that betrays a secret.
type trace struct {
	text   string // without white space
	secret string // the name of it
	// light says that the text is likely to stand in names too, and is no secret there.
	light bool
}

// newTracer is a tracer of traces that are long enough.
func newTracer(traces []trace) *Tracer {
	t := &Tracer{traces: map[uint64][]trace{}}
	t.add(traces)
	return t
}

func (t *Tracer) add(traces []trace) {
	for _, found := range traces {
		if found.text = squeezed(found.text); len(found.text) < traceable {
			continue
		}
		var first uint64
		for i := range traceable {
			first = first<<8 | uint64(found.text[i])
		}
		t.traces[first] = append(t.traces[first], found)
		t.first.add(first)
	}
}

// InValue gives the name of a secret that a value has in it.
func (t *Tracer) InValue(text string) (secret string, found bool) {
	trace := t.look(text, deepest, false)
	return trace.secret, trace.text != ""
}

// InName gives the name of a secret that a key, a label or a name has in it.
// Values of headers, which are words like example.com, are none there.
func (t *Tracer) InName(text string) (secret string, found bool) {
	trace := t.look(text, deepest, true)
	return trace.secret, trace.text != ""
}

// Exhausted says that there was more to look at than a tracer looks at, and
// nothing is known of texts that it did not find anything in.
func (t *Tracer) Exhausted() bool { return t.work > mostWork }

// look searches a text, and what is packed in it; in names it passes over what
// is light.
func (t *Tracer) look(text string, depth int, name bool) trace {
	t.work += len(text)
	if len(text) < traceable || len(t.traces) == 0 || t.Exhausted() {
		return trace{}
	}
	plain := squeezed(text)
	found := t.search(plain, name)
	if depth == 0 || found.text != "" && !found.light {
		return found
	}
	for inner := range unpacked(text, plain) {
		if within := t.look(inner, depth-1, name); within.text != "" {
			found = within
			if !within.light {
				break
			}
		}
	}
	return found
}

// search finds a trace in a text without white space; a light one if there is no other.
func (t *Tracer) search(text string, name bool) (light trace) {
	var window uint64
	for i := range len(text) {
		window = window<<8 | uint64(text[i])
		if i < traceable-1 || !t.first.mayHave(window) {
			continue
		}
		for _, found := range t.traces[window] {
			t.work++
			switch {
			case found.light && name || !strings.HasPrefix(text[i-traceable+1:], found.text):
			case !found.light:
				return found
			default:
				light = found
			}
		}
	}
	return light
}

// A filter says of most numbers that were not added that they were not.
type filter [1 << 10]uint64

func bit(of uint64) (word, mask uint64) {
	hash := of * 0x9e3779b97f4a7c15 >> 48 // Fibonacci hashing
	return hash >> 6, 1 << (hash & 63)
}

func (f *filter) add(n uint64) {
	word, mask := bit(n)
	f[word] |= mask
}

func (f *filter) mayHave(n uint64) bool {
	word, mask := bit(n)
	return f[word]&mask != 0
}

// Invented says whether a key of a map is one that somebody made up, where it
// may be anything: names of fields consist of letters and digits.
func Invented(parent, key string) bool {
	switch parent {
	case "labels", "annotations", "matchLabels", "nodeSelector":
		return true
	}
	return strings.ContainsFunc(key, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	})
}
