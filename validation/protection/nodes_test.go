package protection

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/virtwright/virtwright/api/v1alpha1"
)

const agent = "system:serviceaccount:virtwright-system:virtwright-node"

var nodeGuard = Guard{Trusted: []string{controller, agent}, NodeAgent: agent}

const (
	unclaimed = `{metadata: {name: a, labels: {l: "1"}, annotations: {n: "1"}, finalizers: [a/b], ownerReferences: [{uid: u1}]}, spec: {n: 1}, status: {phase: Pending}}`
	mine      = `{metadata: {name: a, labels: {l: "1"}, annotations: {n: "1"}, finalizers: [a/b, virtwright.dev/node], ownerReferences: [{uid: u1}]}, spec: {n: 1}, status: {phase: Running, nodeName: one}}`
)

// A nodeWrite is what somebody with an agent's credentials tries.
type nodeWrite struct {
	reason         string
	operation      string // UPDATE where it is empty
	resource       string // virtualmachineinstances where it is empty
	claim          []string
	old, now, want string
}

var nodeWrites = []nodeWrite{
	{reason: "a claim", old: unclaimed, now: mine},
	{reason: "a claim of what has no status", old: `{metadata: {name: a}, spec: {n: 1}}`, now: `{metadata: {name: a, finalizers: [virtwright.dev/node]}, spec: {n: 1}, status: {nodeName: one}}`},
	{reason: "status", old: mine, now: strings.Replace(mine, "Running", "Succeeded, conditions: [{type: Ready}]", 1)},
	{reason: "the finalizer goes", old: mine, now: strings.Replace(mine, "[a/b, virtwright.dev/node]", "[a/b]", 1)},
	{reason: "the finalizer goes alone", old: `{metadata: {finalizers: [virtwright.dev/node]}, status: {nodeName: one}}`, now: `{metadata: {}, status: {nodeName: one}}`},
	{reason: "a number said otherwise", old: mine, now: strings.Replace(mine, "n: 1", "n: 1.0", 1)},

	{reason: "no claim", claim: []string{}, old: unclaimed, now: mine, want: "node-own"},
	{reason: "an empty claim", claim: []string{""}, old: unclaimed, now: unclaimed, want: "node-own"},
	{reason: "two claims", claim: []string{"one", "two"}, old: unclaimed, now: mine, want: "node-own"},
	{reason: "another node's", claim: []string{"two"}, old: mine, now: strings.Replace(mine, "Running", "Failed", 1), want: "node-own"},
	{reason: "taken from another node", claim: []string{"two"}, old: mine, now: strings.Replace(mine, "nodeName: one", "nodeName: two", 1), want: "node-own"},
	{reason: "for another node", old: unclaimed, now: strings.Replace(mine, "nodeName: one", "nodeName: two", 1), want: "node-own"},
	{reason: "given to another node", old: mine, now: strings.Replace(mine, "nodeName: one", "nodeName: two", 1), want: "node-own"},
	{reason: "let go", old: mine, now: strings.Replace(mine, ", nodeName: one", "", 1), want: "node-own"},
	{reason: "nobody's, and not claimed", old: unclaimed, now: strings.Replace(unclaimed, "Pending", "Failed", 1), want: "node-own"},
	{reason: "all of status", old: mine, now: strings.Replace(mine, "status: {phase: Running, nodeName: one}", "status: {}", 1), want: "node-own"},

	{reason: "spec", old: mine, now: strings.Replace(mine, "n: 1", "n: 2", 1), want: "node-spec"},
	{reason: "owners", old: mine, now: strings.Replace(mine, "uid: u1", "uid: u2", 1), want: "node-owner-references"},
	{reason: "no owners", old: mine, now: strings.Replace(mine, "[{uid: u1}]", "[]", 1), want: "node-owner-references"},
	{reason: "a label", old: mine, now: strings.Replace(mine, `l: "1"`, `l: "1", kubevirt.io/nodeName: one`, 1), want: "node-labels"},
	{reason: "an annotation", old: mine, now: strings.Replace(mine, `n: "1"`, `n: "1", virtwright.dev/instance-of: u1`, 1), want: "node-annotations"},
	{reason: "an annotation less", old: mine, now: strings.Replace(mine, `n: "1"`, ``, 1), want: "node-annotations"},
	{reason: "another finalizer", old: mine, now: strings.Replace(mine, "[a/b, ", "[a/b, c/d, ", 1), want: "node-finalizers"},
	{reason: "another finalizer of virtwright's", old: mine, now: strings.Replace(mine, "[a/b, ", "[a/b, virtwright.dev/x, ", 1), want: "node-finalizers"},
	{reason: "somebody's finalizer", old: mine, now: strings.Replace(mine, "[a/b, ", "[", 1), want: "node-finalizers"},
	{reason: "several things", old: mine, now: strings.NewReplacer("n: 1", "n: 2", "uid: u1", "uid: u2", "nodeName: one", "nodeName: two").Replace(mine), want: "node-own,node-spec,node-owner-references"},

	{reason: "a create", operation: "CREATE", now: mine, want: "node-update"},
	{reason: "a delete", operation: "DELETE", old: mine, want: "node-update"},
	{reason: "a VM", resource: "virtualmachines", old: `{spec: {n: 1}, status: {nodeName: one}}`, now: `{spec: {n: 1}, status: {nodeName: one}}`, want: "node-update"},
	{reason: "a VM is made", resource: "virtualmachines", operation: "CREATE", now: `{spec: {n: 1}}`, want: "node-update"},
}

// What holds for an agent is what API servers evaluate.
func TestNodePolicy(t *testing.T) {
	policies, bindings := nodeGuard.Policies()
	last := len(policies) - 1
	if policies[last].Name != NodePolicyName || bindings[last].Spec.PolicyName != NodePolicyName || bindings[last].Name != NodePolicyName {
		t.Fatalf("want the policy last, got %s", policies[last].Name)
	}
	spec := policies[last].Spec
	about := compiled(t, spec.MatchConditions[0].Expression)
	tried := map[string]bool{}
	for _, w := range nodeWrites {
		t.Run(w.reason, func(t *testing.T) {
			variables := w.variables(t)
			if !evaluated(t, about, variables).(bool) {
				t.Fatal("the policy is not about an agent")
			}
			var broken []string
			for i, v := range spec.Validations {
				if evaluated(t, compiled(t, v.Expression), variables).(bool) {
					continue
				}
				said, _ := evaluated(t, compiled(t, v.MessageExpression), variables).(string)
				if !strings.Contains(said, nodeRules[i].says) || !strings.HasSuffix(said, "("+nodeRules[i].id+")") {
					t.Errorf("it says %q", said)
				}
				broken = append(broken, nodeRules[i].id)
				tried[nodeRules[i].id] = true
			}
			if diff := cmp.Diff(w.want, strings.Join(broken, ",")); diff != "" {
				t.Errorf("broken rules (-want +got):\n%s", diff)
			}
		})
	}
	for _, rule := range nodeRules {
		if !tried[rule.id] {
			t.Errorf("no case breaks %s", rule.id)
		}
	}
}

// Nobody else is bound, and where there are no agents there is no policy.
func TestNodePolicyIsForAgents(t *testing.T) {
	policies, _ := guard.Policies()
	for _, p := range policies {
		if p.Name == NodePolicyName {
			t.Error("want no policy without agents")
		}
	}
	policies, _ = nodeGuard.Policies()
	about := compiled(t, policies[len(policies)-1].Spec.MatchConditions[0].Expression)
	variables := nodeWrites[0].variables(t)
	variables["request"].(map[string]any)["userInfo"] = map[string]any{"username": controller}
	if evaluated(t, about, variables).(bool) {
		t.Error("want others left alone")
	}
}

// variables are what API servers evaluate with.
func (w nodeWrite) variables(t *testing.T) map[string]any {
	t.Helper()
	user := map[string]any{"username": agent}
	if claim := w.claim; claim == nil {
		user["extra"] = map[string]any{v1alpha1.ExtraNodeName: []any{"one"}}
	} else if len(claim) > 0 {
		var values []any
		for _, node := range claim {
			values = append(values, node)
		}
		user["extra"] = map[string]any{v1alpha1.ExtraNodeName: values}
	}
	orElse := func(text, otherwise string) string {
		if text == "" {
			return otherwise
		}
		return text
	}
	out := map[string]any{
		"object": nil, "oldObject": nil,
		"request": map[string]any{
			"operation": orElse(w.operation, "UPDATE"), "userInfo": user,
			"resource": map[string]any{"resource": orElse(w.resource, "virtualmachineinstances")},
		},
	}
	if now := object(t, w.now); now != nil {
		out["object"] = now
	}
	if old := object(t, w.old); old != nil {
		out["oldObject"] = old
	}
	return out
}
