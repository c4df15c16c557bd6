package protection

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/tree"
)

// A Guard protects fields from untrusted writers.
type Guard struct {
	// Trusted lists the users whose writes are not checked: virtwright's manager, and
	// controllers of Kubernetes.
	Trusted []string
	// Controllers lists the users of controllers that own VMs or VMIs, such as KubeVirt's. They
	// may write all of a VMI, and the owner references of a VM. The rest of a VM they copy from
	// users, so it is checked.
	Controllers []string
	// Addon is true alongside KubeVirt, which has webhooks too.
	Addon bool
	// Manager is the name of the manager's user, the only one that may request templates for other
	// users. If it is empty, no user may.
	Manager string
	// HostDisk is "true" if feature gate HostDisk is enabled.
	HostDisk string
}

// A Write is a create or an update of an object.
type Write struct {
	Kind presets.Kind
	// User is the requesting user, as authenticated by the API server.
	User string
	// Object and Old are decoded JSON; Old is nil on a create.
	Object, Old map[string]any
}

// Trusts reports whether nothing that a user writes to objects of a kind is checked.
func (g Guard) Trusts(user string, kind presets.Kind) bool {
	return slices.Contains(g.Trusted, user) || kind == presets.VirtualMachineInstance && slices.Contains(g.Controllers, user)
}

// Controls reports whether a user may own VMs and VMIs.
func (g Guard) Controls(user string) bool {
	return slices.Contains(g.Trusted, user) || slices.Contains(g.Controllers, user)
}

// Check returns a problem for each rule that a write breaks.
func (g Guard) Check(w Write) field.ErrorList {
	if g.Trusts(w.User, w.Kind) {
		return nil
	}
	var problems field.ErrorList
	for i := range rules {
		if rule := &rules[i]; rule.holds(g, w) && !rule.Part.same(w) {
			problems = append(problems, field.Forbidden(rule.at(w), rule.message(w.User)).WithOrigin(presets.RuleOrigin(rule.ID)))
		}
	}
	return problems
}

func (rule *rule) holds(g Guard, w Write) bool {
	if w.Old == nil && (!rule.Create || rule.NotAddon && g.Addon) || rule.BeforePod && !awaitsPod(w.Old) {
		return false
	}
	if rule.NotControllers && slices.Contains(g.Controllers, w.User) {
		return false
	}
	return slices.Contains(rule.Kinds, w.Kind)
}

// awaitsPod reports whether a stored VMI gets a pod later.
func awaitsPod(vmi map[string]any) bool {
	phase, _ := phasePart.of(vmi).(string)
	return deletionPart.of(vmi) == nil && !slices.Contains(phasesWithPod, phase)
}

// message returns the error message, which is also that of the policies.
func (rule *rule) message(user string) string {
	return fmt.Sprintf("user %s may not write this: %s (%s)", user, rule.Reason, rule.ID)
}

// at returns the path of the changed field, or of the part.
func (rule *rule) at(w Write) *field.Path {
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
		if was, ok := old[key]; !ok || !tree.Equal(was, value) {
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

// same reports whether the part is unchanged; on create, whether it is absent.
func (p part) same(w Write) bool { return tree.Equal(p.of(w.Old), p.of(w.Object)) }

// of returns the part of an object, or nil. Values of a wrong type count as empty.
func (p part) of(object map[string]any) any {
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

// selects reports whether the part consists of some keys or elements only.
func (p part) selects() bool { return p.Prefixes != nil || p.Keys != nil }

// isList reports whether Prefixes select elements of a list, not keys of a map.
func (p part) isList() bool { return p.Path[len(p.Path)-1] == "finalizers" }

func emptyToNil(fields map[string]any) any {
	if len(fields) == 0 {
		return nil
	}
	return fields
}

func (p part) ofMap(fields map[string]any) map[string]any {
	if !p.selects() {
		return fields
	}
	out := maps.Clone(fields)
	maps.DeleteFunc(out, func(key string, _ any) bool { return !p.selectsKey(key) })
	return out
}

func (p part) selectsKey(key string) bool {
	if p.Keys != nil {
		return slices.Contains(p.Keys, key)
	}
	begins := func(prefix string) bool { return strings.HasPrefix(key, prefix) }
	return slices.ContainsFunc(p.Prefixes, begins) && !slices.Contains(p.Except, key)
}

func (p part) ofList(list []any) any {
	if p.selects() && !p.isList() {
		return nil
	}
	var out []any
	for _, e := range list {
		if text, _ := e.(string); !p.selects() || p.selectsKey(text) {
			out = append(out, e)
		}
	}
	if out == nil {
		return nil
	}
	return out
}
