package presets

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/presets/tree"
	"github.com/virtwright/virtwright/presets/vmschema"
)

const (
	maxWarnings = 10
	// MaxWarningBytes is the length of a warning.
	MaxWarningBytes = 256
	// maxListed is how many fields a warning lists before it counts the rest.
	maxListed = 8
)

type effect struct {
	source provenance.Source
	// set fields were absent; overruled ones were set or removed against the user.
	set, overruled tally
}

type tally struct {
	count int
	names []string
}

// add counts one name; name is called only if there is room to show it.
func (t *tally) add(name func() string) {
	t.count++
	if len(t.names) < maxListed {
		t.names = append(t.names, name())
	}
}

func (r *mergeState) effects() []effect {
	out := make([]effect, len(r.record.Sources))
	for i, s := range r.record.Sources {
		out[i].source = s
	}
	r.collect(r.record.Root(), make(provenance.Path, 0, 16), out)
	return out
}

// collect adds the effects at and beneath n, which lies at p. An added element counts once.
func (r *mergeState) collect(n *provenance.Node, p provenance.Path, out []effect) {
	if n.NewElement {
		if first := firstDecided(n); first != nil && r.isNewDecision(first) {
			out[first.Source].set.add(p.String)
		}
		return
	}
	if n.IsDecided() && r.isNewDecision(n) {
		r.count(n, p, &out[n.Source])
	}
	for c := range n.Children() {
		r.collect(c, append(p, c.Segment()), out)
	}
}

func (r *mergeState) count(n *provenance.Node, p provenance.Path, d *effect) {
	switch {
	case n.Overruled && r.keptUserValue(n, p): // the user wrote the same value
	case n.Overruled:
		d.overruled.add(func() string { return p.String() + " (was " + tree.Show(n.UserValue) + ")" })
	case d.source.Role != provenance.Remove:
		d.set.add(p.String)
	}
}

func (r *mergeState) keptUserValue(n *provenance.Node, p provenance.Path) bool {
	return n.Change == provenance.Unchanged && !n.TooLarge && tree.Equal(n.UserValue, vmschema.Value(r.root, p))
}

func (r *mergeState) isNewDecision(n *provenance.Node) bool {
	return n.DecidedNow && r.record.Sources[n.Source].Role != provenance.Platform
}

// warnings lists all warnings, the most important ones first. The list is not limited yet.
func (r *mergeState) warnings(effects []effect, m matchResult, would *previews) []string {
	out := slices.Concat(r.notes, m.budgetWarnings)
	for _, d := range effects {
		if d.overruled.count > 0 {
			verb := "overruled"
			if d.source.Role == provenance.Remove {
				verb = "removed"
			}
			out = append(out, listing("preset "+d.source.Preset+" "+verb, d.overruled))
		}
	}
	for _, c := range r.conflicts {
		out = append(out, c.String())
	}
	out = append(out, m.warnings...)
	out = append(out, r.suggestions...)
	for _, s := range r.skips {
		out = append(out, listing(fmt.Sprintf("preset %s skipped fields, because %s:", s.Preset, s.Reason), tallyOf(s.Paths)))
	}
	if would != nil {
		out = append(out, would.warn...)
	}
	return r.withOwnPaths(r.withInformation(out, effects))
}

func (r *mergeState) withInformation(out []string, effects []effect) []string {
	for _, d := range effects {
		if d.set.count > 0 && r.warnEverything {
			out = append(out, listing("preset "+d.source.Preset+" set", d.set))
		}
		if d.source.Role == provenance.Legacy {
			out = append(out, "kubevirt.io/v1 VirtualMachineInstancePreset is deprecated; use a VirtualMachinePreset with applyAt: Launch")
		}
	}
	return out
}

func (r *mergeState) withOwnPaths(texts []string) []string {
	if r.sentVMI != nil {
		for i, text := range texts {
			texts[i] = pathsOfVMI.Replace(text)
		}
	}
	return texts
}

// pathsOfVMI converts paths in VM form to those of a VMI.
var pathsOfVMI = strings.NewReplacer("spec.template.spec.", "spec.", "spec.template.metadata.", "metadata.")

func limitWarnings(in []string) []string { return LimitWarnings(in, "virtwright explain shows all") }

// LimitWarnings limits the number and length of warnings for a response. Rest says where all of
// them are shown.
func LimitWarnings(in []string, rest string) []string {
	if len(in) > maxWarnings {
		more := len(in) - maxWarnings + 1
		in = append(in[:maxWarnings-1:maxWarnings-1], fmt.Sprintf("and %d more; %s", more, rest))
	}
	for i, text := range in {
		if len(text) > MaxWarningBytes {
			in[i] = tree.Truncate(text, MaxWarningBytes-len("…"))
		}
	}
	return in
}

func tallyOf(names []string) tally {
	return tally{count: len(names), names: names[:min(len(names), maxListed)]}
}

// listing returns head and as many names as fit, with the number of the others.
func listing(head string, t tally) string {
	const tail = len(" and 1000 more")
	shown := 0
	for i, name := range t.names {
		if i > 0 && len(head)+len(", ")+len(name) > MaxWarningBytes-tail {
			break
		}
		if i > 0 {
			head += ","
		}
		head += " " + name
		shown++
	}
	if rest := t.count - shown; rest > 0 {
		head += fmt.Sprintf(" and %d more", rest)
	}
	return head
}

func audit(effects []effect, would *previews) map[string]string {
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

const (
	// maxProblems is the size of an answer's problems, in bytes. It has them twice, also as causes.
	maxProblems = 6 << 10
	// maxPath, maxValue and maxDetail limit the parts of a problem, in bytes.
	maxPath, maxValue, maxDetail = 256, 128, 1 << 10
)

// LimitErrors limits the text that messages repeat from an object: all problems together, and the
// field, value and detail of each. It changes the problems in place.
func LimitErrors(problems field.ErrorList) field.ErrorList {
	size := 0
	for i, p := range problems {
		p.Field, p.Detail = tree.Truncate(p.Field, maxPath), tree.Truncate(p.Detail, maxDetail)
		if text := fmt.Sprint(p.BadValue); len(text) > maxValue {
			p.BadValue = tree.Truncate(text, maxValue)
		}
		if size += len(p.Error()); size > maxProblems && i > 0 {
			return append(problems[:i:i], field.Forbidden(field.NewPath("spec"), fmt.Sprintf("and %d more problems", len(problems)-i)))
		}
	}
	return problems
}
