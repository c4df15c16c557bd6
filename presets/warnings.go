package presets

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/virtwright/virtwright/presets/provenance"
)

const (
	// MaxWarnings is how many warnings one answer has at most.
	MaxWarnings = 10
	// MaxWarningBytes is how long each of them may be.
	MaxWarningBytes = 256
	// maxListed is how many fields a warning lists before it counts the rest.
	maxListed = 8
)

// A effect is what one source did in this request.
type effect struct {
	source provenance.Source
	// set where nothing was, and overruled: set or removed against the user.
	set, overruled tally
}

// A tally counts things and names the first of them.
type tally struct {
	count int
	names []string
	bytes int
}

// add counts one thing; name is called only while there is room to show it.
func (t *tally) add(name func() string) {
	t.count++
	if len(t.names) < maxListed && t.bytes < MaxWarningBytes {
		text := name()
		if t.names == nil {
			t.names = make([]string, 0, 4)
		}
		t.names = append(t.names, text)
		t.bytes += len(text)
	}
}

// effects collects what sources did, in the order in which they acted.
func (w *resolution) effects() []effect {
	out := make([]effect, len(w.rec.Sources))
	for i, s := range w.rec.Sources {
		out[i].source = s
	}
	w.collect(w.rec.Root(), make(provenance.Path, 0, 16), out)
	return out
}

// collect adds what the record says at and beneath n, which lies at p. An
// element that was added counts as one thing.
func (w *resolution) collect(n *provenance.Node, p provenance.Path, out []effect) {
	if n.New {
		if first := firstDecided(n); first != nil && w.isNews(first) {
			out[first.Source].set.add(p.String)
		}
		return
	}
	if n.Source != provenance.NoSource && w.isNews(n) {
		w.count(n, p, &out[n.Source])
	}
	for c := range n.Children() {
		w.collect(c, append(p, c.Segment()), out)
	}
}

// count adds to d what its source did at p.
func (w *resolution) count(n *provenance.Node, p provenance.Path, d *effect) {
	switch {
	case n.Overruled && w.isAsBefore(n, p): // the user had the same
	case n.Overruled:
		d.overruled.add(func() string { return p.String() + " (was " + show(n.Was) + ")" })
	case d.source.Role != provenance.Remove:
		d.set.add(p.String)
	}
}

// isAsBefore reports whether the user's value at p is there still.
func (w *resolution) isAsBefore(n *provenance.Node, p provenance.Path) bool {
	return n.Change == provenance.Kept && !n.Lost && equalJSON(n.Was, lookup(w.root, vmSchema(), p))
}

// isNews reports whether n was decided in this request, by a preset.
func (w *resolution) isNews(n *provenance.Node) bool {
	return n.Now && w.rec.Sources[n.Source].Role != provenance.Platform
}

// warnings says what happened, what matters most first. The list is not bounded yet.
func (w *resolution) warnings(effects []effect, m matching, would *preview) []string {
	out := slices.Concat(w.notes, m.budgetWarnings)
	for _, d := range effects {
		if d.overruled.count > 0 {
			verb := "overruled"
			if d.source.Role == provenance.Remove {
				verb = "removed"
			}
			out = append(out, listing("preset "+d.source.Preset+" "+verb, d.overruled))
		}
	}
	for _, c := range w.conflicts {
		out = append(out, c.String())
	}
	out = append(out, m.warnings...)
	out = append(out, w.typos...)
	for _, s := range w.skips {
		out = append(out, listing(fmt.Sprintf("preset %s held back, as %s:", s.ref, s.why), tallyOf(s.fields)))
	}
	if would != nil {
		out = append(out, would.warn...)
	}
	return w.withOwnPaths(w.informing(out, effects))
}

// informing adds to warnings what no author is surprised by.
func (w *resolution) informing(out []string, effects []effect) []string {
	for _, d := range effects {
		if d.set.count > 0 && w.warnEverything {
			out = append(out, listing("preset "+d.source.Preset+" set", d.set))
		}
		if d.source.Role == provenance.Legacy {
			out = append(out, "kubevirt.io/v1 VirtualMachineInstancePreset is deprecated; write a VirtualMachinePreset with applyAt: Launch")
		}
	}
	return out
}

// withOwnPaths gives texts about a VMI its own paths.
func (w *resolution) withOwnPaths(texts []string) []string {
	if w.instance != nil {
		for i, text := range texts {
			texts[i] = pathsOfVMI.Replace(text)
		}
	}
	return texts
}

// pathsOfVMI turns paths in VM form into those of a VMI.
var pathsOfVMI = strings.NewReplacer("spec.template.spec.", "spec.", "spec.template.metadata.", "metadata.")

func bounded(in []string) []string { return Bounded(in, "virtwright explain shows all") }

// Bounded makes a list of warnings short enough for a response: at most
// MaxWarnings, each at most MaxWarningBytes. Rest says where all can be seen.
func Bounded(in []string, rest string) []string {
	if len(in) > MaxWarnings {
		more := len(in) - MaxWarnings + 1
		in = append(in[:MaxWarnings-1:MaxWarnings-1], fmt.Sprintf("and %d more; %s", more, rest))
	}
	for i, text := range in {
		if len(text) > MaxWarningBytes {
			in[i] = Cut(text, MaxWarningBytes-len("…"))
		}
	}
	return in
}

func tallyOf(names []string) tally {
	return tally{count: len(names), names: names[:min(len(names), maxListed)]}
}

// listing is head and as many names as fit, with a count of the rest.
func listing(head string, t tally) string {
	const tail = len(" and 1000 more")
	out := make([]byte, 0, MaxWarningBytes)
	out = append(out, head...)
	for i, name := range t.names {
		if i > 0 && len(out)+len(", ")+len(name) > MaxWarningBytes-tail {
			return string(andMore(out, t.count-i))
		}
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(out, ' '), name...)
	}
	if rest := t.count - len(t.names); rest > 0 {
		out = andMore(out, rest)
	}
	return string(out)
}

func andMore(b []byte, n int) []byte {
	return append(strconv.AppendInt(append(b, " and "...), int64(n), 10), " more"...)
}

// audit says for the audit log which presets acted.
func audit(effects []effect, would *preview) map[string]string {
	out := map[string]string{}
	var acted []string
	for _, d := range effects {
		if d.set.count > 0 || d.overruled.count > 0 {
			acted = append(acted, d.source.String()+" set="+strconv.Itoa(d.set.count)+" overruled="+strconv.Itoa(d.overruled.count))
		}
	}
	if len(acted) > 0 {
		out["presets"] = strings.Join(acted, "; ")
	}
	if would != nil && len(would.audit) > 0 {
		out["would"] = strings.Join(would.audit, "; ")
	}
	return out
}
