package fleet

import (
	"regexp"
	"slices"
	"strings"

	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/provenance"
)

// A printer writes keys and values that presets compute from a VM's name as patterns such as
// *-root, so that VMs with equal changes have equal texts.
type printer struct {
	// keys are the computed keys of lists, by path of the list with computed keys as patterns.
	keys map[string][]computedText
	// values are the computed values, by printed path.
	values map[string][]computedText
	// allKeys are those of all lists.
	allKeys []computedText
}

type computedText struct {
	presets.PresetName
	pattern string
	matches *regexp.Regexp
}

func newComputedText(c *presets.Compiled, pattern string) computedText {
	literal := strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, `.*`)
	return computedText{c.Name(), pattern, regexp.MustCompile("^" + literal + "$")}
}

func newPrinter(sets ...[]*presets.Compiled) *printer {
	p := &printer{keys: map[string][]computedText{}, values: map[string][]computedText{}}
	for _, c := range slices.Concat(sets...) {
		p.add(c)
	}
	return p
}

func (p *printer) add(c *presets.Compiled) {
	keys := c.ComputedKeys()
	for _, a := range c.Actions() {
		for i, segment := range a.Path {
			if pattern, isComputed := keys[a.Path[:i+1].String()]; isComputed && segment.Kind == provenance.Element {
				list := printedPath(a.Path[:i], keys)
				key := newComputedText(c, pattern)
				p.keys[list], p.allKeys = append(p.keys[list], key), append(p.allKeys, key)
			}
		}
		if a.Computed {
			path := printedPath(a.Path, keys)
			p.values[path] = append(p.values[path], newComputedText(c, a.Pattern))
		}
	}
}

// printedPath returns a path of Actions with the patterns of computed keys.
func printedPath(path provenance.Path, keys map[string]string) string {
	printed := slices.Clone(path)
	for i := range printed {
		if pattern, isComputed := keys[path[:i+1].String()]; isComputed {
			printed[i].Name = pattern
		}
	}
	return withPatterns(printed)
}

// withPatterns formats a path. A path escapes *, which names do not contain.
func withPatterns(path provenance.Path) string { return strings.ReplaceAll(path.String(), `\*`, "*") }

// best returns the longest pattern of a preset for a text that contains the name of the VM. An
// empty Ref stands for any preset.
func best(found []computedText, by presets.PresetName, text, name string) string {
	pattern := ""
	for _, c := range found {
		isBy := by.Ref == "" || c.Ref == by.Ref && (c.Namespace == "" || c.Namespace == by.Namespace)
		if isBy && len(c.pattern) > len(pattern) && strings.Contains(text, name) && c.matches.MatchString(text) {
			pattern = c.pattern
		}
	}
	return pattern
}

// A vmName is the namespace and the name of a VM.
type vmName struct{ namespace, name string }

func (p *printer) path(path provenance.Path, by string, vm vmName) string {
	printed := slices.Clone(path)
	for i, segment := range path {
		if segment.Kind != provenance.Element || len(p.keys) == 0 {
			continue
		}
		of := presets.PresetName{Namespace: vm.namespace, Ref: by}
		if pattern := best(p.keys[withPatterns(printed[:i])], of, segment.Name, vm.name); pattern != "" {
			printed[i].Name = pattern
		}
	}
	return withPatterns(printed)
}

func (p *printer) value(path string, v any, by string, vm vmName) any {
	text, isText := v.(string)
	if !isText || by == "" || presets.MayHoldSecret(path) {
		return hidden(path, v)
	}
	if pattern := best(p.values[path], presets.PresetName{Namespace: vm.namespace, Ref: by}, text, vm.name); pattern != "" {
		return pattern
	}
	return v
}

// changes returns changes as they are printed: without secrets, and with patterns unless they hide
// a difference.
func (p *printer) changes(all []Change, vm vmName) []Change {
	out := make([]Change, 0, len(all))
	for _, c := range all {
		printed := c
		printed.Path = p.path(c.at, c.Preset, vm)
		printed.Before = p.value(printed.Path, c.Before, c.was, vm)
		printed.After = p.value(printed.Path, c.After, c.Preset, vm)
		if isText(c.Before) && isText(c.After) && printed.Before == printed.After && !presets.MayHoldSecret(c.Path) {
			printed.Before, printed.After = c.Before, c.After
		}
		out = append(out, printed)
	}
	return out
}

func isText(v any) bool { _, is := v.(string); return is }

// named matches the keys of list elements in messages.
var named = regexp.MustCompile(`\[[^\]"]+\]`)

// texts returns messages with patterns for the keys that presets compute from the name of the VM.
func (p *printer) texts(all []string, vm vmName) []string {
	if len(p.keys) == 0 {
		return all
	}
	out := make([]string, len(all))
	for i, text := range all {
		out[i] = named.ReplaceAllStringFunc(text, func(element string) string {
			key := element[1 : len(element)-1]
			if pattern := best(p.allKeys, presets.PresetName{Namespace: vm.namespace}, key, vm.name); pattern != "" {
				return "[" + pattern + "]"
			}
			return element
		})
	}
	return out
}
