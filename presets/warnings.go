package presets

import (
	"fmt"
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

// A deed is what one source did in this request.
type deed struct {
	source    provenance.Source
	fields    []string // set where nothing was
	overruled []string // set or removed against the user
}

// deeds collects what sources did, in the order in which they acted.
func (w *work) deeds() []deed {
	out := make([]deed, len(w.rec.Sources))
	for i, s := range w.rec.Sources {
		out[i].source = s
	}
	for p, n := range w.rec.Decided() {
		d := &out[n.Source]
		switch {
		case n.Weak || int(n.Source) < w.inherited || d.source.Role == provenance.Platform:
		case n.Overruled && n.Change == provenance.Kept && !n.Lost && equalJSON(n.Was, lookup(w.root, vmSchema(), p)):
		case n.Overruled:
			d.overruled = append(d.overruled, overruledText(p, n))
		case d.source.Role != provenance.Remove:
			d.fields = append(d.fields, p.String())
		}
	}
	return out
}

func overruledText(p provenance.Path, n *provenance.Node) string {
	return p.String() + " (was " + show(n.Was) + ")"
}

// warnings says what happened, what matters most first.
func (w *work) warnings(deeds []deed, conditions []string, would *preview) []string {
	var out []string
	for _, d := range deeds {
		if len(d.overruled) > 0 {
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
	out = append(out, conditions...)
	for _, s := range w.skips {
		out = append(out, listing(fmt.Sprintf("preset %s held back: %s", s.ref, s.why), s.fields))
	}
	if would != nil {
		out = append(out, would.warn...)
	}
	for _, d := range deeds {
		if len(d.fields) > 0 {
			out = append(out, listing("preset "+d.source.Preset+" set", d.fields))
		}
		if d.source.Role == provenance.Legacy {
			out = append(out, "kubevirt.io/v1 VirtualMachineInstancePreset is deprecated; virtwright import converts it")
		}
	}
	return bounded(out)
}

// bounded keeps warnings within what an API server passes on.
func bounded(in []string) []string {
	if len(in) > MaxWarnings {
		rest := len(in) - MaxWarnings + 1
		in = append(in[:MaxWarnings-1:MaxWarnings-1], fmt.Sprintf("and %d more; virtwright explain shows all", rest))
	}
	for i, text := range in {
		if len(text) > MaxWarningBytes {
			in[i] = strings.ToValidUTF8(text[:MaxWarningBytes-3], "") + "..."
		}
	}
	return in
}

// listing is head and as many items as fit, with a count of the rest.
func listing(head string, items []string) string {
	const tail = len(" and 1000 more")
	out := head
	for i, item := range items {
		separator := ", "
		if i == 0 {
			separator = " "
		}
		if room := MaxWarningBytes - len(out) - len(separator); i > 0 && (i >= maxListed || len(item) > room-tail) {
			return fmt.Sprintf("%s and %d more", out, len(items)-i)
		}
		out += separator + item
	}
	return out
}

// audit says for the audit log which presets acted.
func audit(deeds []deed, would *preview) map[string]string {
	out := map[string]string{}
	var acted []string
	for _, d := range deeds {
		if len(d.fields) > 0 || len(d.overruled) > 0 {
			acted = append(acted, fmt.Sprintf("%s set=%d overruled=%d", d.source, len(d.fields), len(d.overruled)))
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
