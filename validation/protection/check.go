package protection

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtwright/virtwright/presets"
)

// A Guard knows who is trusted.
type Guard struct {
	// Trusted are the names of the users who may write what is guarded.
	Trusted []string
	// Addon says that KubeVirt is in the cluster, whose webhooks act too.
	Addon bool
	// NodeAgent is the name of the user as which node agents run instances; empty
	// where there are none. It is one of Trusted, and bound by a policy of its own.
	NodeAgent string
	// Manager is the name of the user as which controllers run, who alone may ask
	// for templates in somebody else's name; empty where nobody may.
	Manager string
}

// A Write is what somebody wants to write.
type Write struct {
	Kind presets.Kind
	// User is who writes, as the API server authenticated.
	User string
	// Object and Old are decoded JSON; Old is nil on a create.
	Object, Old map[string]any
}

// Trusts reports whether a user is a trusted writer.
func (g Guard) Trusts(user string) bool { return slices.Contains(g.Trusted, user) }

// Check returns a problem for each rule that a write breaks.
func (g Guard) Check(w Write) field.ErrorList {
	if g.Trusts(w.User) {
		return nil
	}
	var problems field.ErrorList
	for i := range rules {
		if rule := &rules[i]; rule.holds(g, w) && rule.broken(w) {
			problems = append(problems, field.Forbidden(rule.at(w), rule.message(w.User)))
		}
	}
	return problems
}

func (rule *Rule) holds(g Guard, w Write) bool {
	if w.Old == nil && (!rule.Create || rule.NotAddon && g.Addon) {
		return false
	}
	return slices.Contains(rule.Kinds, w.Kind)
}

func (rule *Rule) broken(w Write) bool {
	return !rule.Part.same(w) && !slices.ContainsFunc(rule.Unless, func(p Part) bool { return !p.same(w) })
}

// message is what a user is told; the policies say the same.
func (rule *Rule) message(user string) string {
	return fmt.Sprintf("user %s may not write this: %s (%s)", user, rule.Says, rule.ID)
}

// at is the field that was changed, as near as the rule knows.
func (rule *Rule) at(w Write) *field.Path {
	path := field.NewPath(rule.Part.Path[0], rule.Part.Path[1:]...)
	if !rule.Part.selects() {
		return path
	}
	before, after := rule.Part.of(w.Old), rule.Part.of(w.Object)
	if changed := changedKeys(before, after); len(changed) > 0 {
		return path.Key(changed[0])
	}
	return path
}

func changedKeys(before, after any) []string {
	old, _ := before.(map[string]any)
	now, _ := after.(map[string]any)
	var changed []string
	for key, value := range now {
		if was, ok := old[key]; !ok || !equal(was, value) {
			changed = append(changed, key)
		}
	}
	for key := range old {
		if _, ok := now[key]; !ok {
			changed = append(changed, key)
		}
	}
	slices.Sort(changed)
	return changed
}

// same reports whether the part is as it was; on a create, whether there is none.
func (p Part) same(w Write) bool { return equal(p.of(w.Old), p.of(w.Object)) }

// of is the part of an object; nil for nothing. What is no map has no keys,
// and what is no list no elements.
func (p Part) of(object map[string]any) any {
	var v any = object
	for _, name := range p.Path {
		fields, _ := v.(map[string]any)
		v = fields[name]
	}
	switch at := v.(type) {
	case map[string]any:
		return emptyToNil(p.ofMap(at))
	case []any:
		return p.ofList(at)
	}
	if p.selects() {
		return nil
	}
	return v
}

// selects reports whether the part is some keys or elements, not all that is at Path.
func (p Part) selects() bool { return p.Prefix != "" || p.Keys != nil }

// isList reports whether Prefix selects elements of a list, not keys of a map.
func (p Part) isList() bool { return p.Path[len(p.Path)-1] == "finalizers" }

func emptyToNil(fields map[string]any) any {
	if len(fields) == 0 {
		return nil
	}
	return fields
}

func (p Part) ofMap(fields map[string]any) map[string]any {
	if !p.selects() {
		return fields
	}
	out := maps.Clone(fields)
	maps.DeleteFunc(out, func(key string, _ any) bool { return !p.means(key) })
	return out
}

func (p Part) means(key string) bool {
	if p.Keys != nil {
		return slices.Contains(p.Keys, key)
	}
	return strings.HasPrefix(key, p.Prefix) && !slices.Contains(p.Except, key)
}

func (p Part) ofList(list []any) any {
	if p.selects() && !p.isList() {
		return nil
	}
	var out []any
	for _, e := range list {
		if text, _ := e.(string); p.Prefix == "" || p.means(text) {
			out = append(out, e)
		}
	}
	if out == nil {
		return nil
	}
	return out
}

// equal compares decoded JSON as CEL does: numbers by value.
func equal(a, b any) bool {
	switch x := a.(type) {
	case map[string]any:
		y, ok := b.(map[string]any)
		return ok && maps.EqualFunc(x, y, equal)
	case []any:
		y, ok := b.([]any)
		return ok && slices.EqualFunc(x, y, equal)
	}
	switch b.(type) {
	case map[string]any, []any:
		return false
	}
	n, ok := number(a)
	m, okToo := number(b)
	return a == b || ok && okToo && n == m
}

func number(v any) (float64, bool) {
	switch n := v.(type) {
	case int64:
		return float64(n), -1<<53 < n && n < 1<<53
	case float64:
		return n, true
	}
	return 0, false
}
