package protection

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/cel-go/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/virtwright/virtwright/presets"
)

const (
	jane       = "jane"
	controller = "system:serviceaccount:virtwright-system:virtwright-manager"
	owner      = "system:serviceaccount:kubevirt:kubevirt-controller"
)

var guard = Guard{Trusted: []string{controller}, Controllers: []string{owner}}

const owned = `metadata: {name: a, ownerReferences: [{kind: VirtualMachine, name: a, uid: u1, controller: true}, {kind: Pool, name: p, uid: u2}]}
spec: {n: 1}`

// cases are writes and the rules that they break.
var cases = map[string]struct {
	kind     presets.Kind
	old, now string
	want     string
}{
	"nothing guarded":             {"VirtualMachine", ``, `{metadata: {name: a, annotations: {virtwright.dev/presets: x, other: y}, finalizers: [kubevirt.io/x]}, spec: {}}`, ""},
	"nothing changes":             {"VirtualMachineInstance", owned, owned, ""},
	"no metadata at all":          {"VirtualMachine", ``, `{spec: {}}`, ""},
	"create owned":                {"VirtualMachineInstance", ``, owned, "owner-references"},
	"create owned VM":             {"VirtualMachine", ``, owned, "owner-references"},
	"create with no owner":        {"VirtualMachine", ``, `metadata: {ownerReferences: []}`, ""},
	"owner in template":           {"VirtualMachine", ``, `spec: {template: {metadata: {ownerReferences: [{uid: u1}]}}}`, ""},
	"owners removed":              {"VirtualMachineInstance", owned, `{metadata: {name: a}, spec: {n: 1}}`, "owner-references"},
	"owners reordered":            {"VirtualMachine", owned, `{metadata: {ownerReferences: [{kind: Pool, name: p, uid: u2}, {kind: VirtualMachine, name: a, uid: u1, controller: true}]}, spec: {n: 1}}`, "owner-references"},
	"controller switched":         {"VirtualMachine", owned, strings.Replace(owned, "true", "false", 1), "owner-references"},
	"uid changed":                 {"VirtualMachine", owned, strings.Replace(owned, "u2", "u3", 1), "owner-references"},
	"spec of an instance":         {"VirtualMachineInstance", owned, strings.Replace(owned, "n: 1", "n: 2", 1), "instance-spec"},
	"spec of a VM":                {"VirtualMachine", owned, strings.Replace(owned, "n: 1", "n: 2", 1), ""},
	"spec said otherwise":         {"VirtualMachineInstance", owned, strings.Replace(owned, "n: 1", "n: 1.0", 1), ""},
	"status of a create":          {"VirtualMachineInstance", ``, `{spec: {}, status: {phase: Running}}`, "instance-status"},
	"empty status of a create":    {"VirtualMachineInstance", ``, `{spec: {}, status: {}}`, ""},
	"null status":                 {"VirtualMachineInstance", `{spec: {}}`, `{spec: {}, status: null}`, ""},
	"status of an instance":       {"VirtualMachineInstance", `{status: {phase: Pending}}`, `{status: {phase: Running, nodeName: n}}`, "instance-status"},
	"status of a VM":              {"VirtualMachine", `{status: {ready: false}}`, `{status: {ready: true}}`, ""},
	"our finalizer":               {"VirtualMachine", `{metadata: {finalizers: [a/b, virtwright.dev/x]}}`, `{metadata: {finalizers: [a/b]}}`, "reserved-finalizers"},
	"other finalizers":            {"VirtualMachine", `{metadata: {finalizers: [a/b, virtwright.dev/x, c/d]}}`, `{metadata: {finalizers: [virtwright.dev/x]}}`, ""},
	"finalizer on create":         {"VirtualMachineInstance", ``, `{metadata: {finalizers: [virtwright.dev/x]}}`, "reserved-finalizers"},
	"annotation added":            {"VirtualMachine", `{metadata: {annotations: {a: b}}}`, `{metadata: {annotations: {virtwright.dev/instance-of: u1}}}`, "reserved-annotations"},
	"annotation removed":          {"VirtualMachineInstance", `{metadata: {annotations: {virtwright.dev/instance-of: u1}}}`, `{metadata: {}}`, "reserved-annotations,instance-annotations"},
	"annotation kept":             {"VirtualMachineInstance", `{metadata: {annotations: {virtwright.dev/instance-of: u1, a: b}}, status: {phase: Running}}`, `{metadata: {annotations: {virtwright.dev/instance-of: u1}}, status: {phase: Running}}`, ""},
	"annotation in template":      {"VirtualMachine", `{spec: {template: {metadata: null}}}`, `{spec: {template: {metadata: {annotations: {virtwright.dev/instance-of: u1}}}}}`, "reserved-template-annotations"},
	"odd template":                {"VirtualMachine", `{spec: {template: {metadata: {annotations: [virtwright.dev/x], labels: [y]}}}}`, `{spec: {template: {metadata: 5}}}`, ""},
	"provenance on create":        {"VirtualMachine", ``, `{metadata: {annotations: {virtwright.dev/provenance: x}}}`, ""},
	"provenance alone":            {"VirtualMachine", `{spec: {}}`, `{metadata: {annotations: {virtwright.dev/provenance: x}}, spec: {}}`, ""},
	"provenance of an instance":   {"VirtualMachineInstance", `{}`, `{metadata: {labels: {a: b}, annotations: {virtwright.dev/provenance: x}}}`, "instance-provenance,instance-labels,instance-annotations"},
	"label":                       {"VirtualMachineInstance", ``, `{metadata: {labels: {kubevirt.io/nodeName: n}}}`, "reserved-labels"},
	"label of a VM":               {"VirtualMachine", ``, `{metadata: {labels: {kubevirt.io/nodeName: n}}}`, ""},
	"label of a template":         {"VirtualMachine", ``, `{spec: {template: {metadata: {labels: {kubevirt.io/nodeName: n, kubevirt.io/vm: a}}}}}`, "reserved-template-labels"},
	"label kept":                  {"VirtualMachineInstance", `{metadata: {labels: {kubevirt.io/nodeName: n}}, status: {phase: Scheduling}}`, `{metadata: {labels: {kubevirt.io/nodeName: n, a: b}}, status: {phase: Scheduling}}`, ""},
	"label removed":               {"VirtualMachineInstance", `{metadata: {labels: {kubevirt.io/nodeName: n}}}`, `{metadata: {}}`, "reserved-labels,instance-labels"},
	"generation on create":        {"VirtualMachineInstance", ``, `{metadata: {annotations: {kubevirt.io/vm-generation: "1"}}}`, "reserved-generation"},
	"generation added":            {"VirtualMachineInstance", `{metadata: {annotations: {a: b}}}`, `{metadata: {annotations: {a: b, kubevirt.io/vm-generation: "1"}}}`, "reserved-generation,instance-annotations"},
	"generation of a VM":          {"VirtualMachine", ``, `{metadata: {annotations: {kubevirt.io/vm-generation: "1"}}}`, ""},
	"finalizer of a template":     {"VirtualMachine", ``, `{spec: {template: {metadata: {finalizers: [virtwright.dev/x, a/b]}}}}`, "reserved-template-finalizers"},
	"finalizers of a template":    {"VirtualMachine", ``, `{spec: {template: {metadata: {finalizers: [a/b]}}}}`, ""},
	"two at once":                 {"VirtualMachineInstance", owned, `{metadata: {annotations: {virtwright.dev/x: y}}, spec: {n: 1}}`, "owner-references,reserved-annotations,instance-annotations"},
	"no pod yet":                  {"VirtualMachineInstance", `{metadata: {labels: {zone: a}, annotations: {note: a}}, status: {phase: Pending}}`, `{metadata: {labels: {zone: b}, annotations: {note: b}}, status: {phase: Pending}}`, "instance-labels,instance-annotations"},
	"no pod yet, by kubectl":      {"VirtualMachineInstance", `{}`, `{metadata: {annotations: {kubectl.kubernetes.io/last-applied-configuration: x}}}`, ""},
	"a forged phase":              {"VirtualMachineInstance", `{}`, `{metadata: {labels: {zone: b}}, status: {phase: Running}}`, "instance-labels,instance-status"},
	"never gets a pod":            {"VirtualMachineInstance", `{metadata: {deletionTimestamp: "2026-01-01T00:00:00Z"}}`, `{metadata: {deletionTimestamp: "2026-01-01T00:00:00Z", labels: {a: b}}}`, ""},
	"labels of a VM":              {"VirtualMachine", `{}`, `{metadata: {labels: {istio.io/rev: a}, annotations: {k8s.v1.cni.cncf.io/networks: a}}}`, ""},
	"what pods get, created":      {"VirtualMachineInstance", ``, `{metadata: {labels: {istio.io/rev: a}, annotations: {k8s.v1.cni.cncf.io/networks: a}}}`, ""},
	"what migrated pods get":      {"VirtualMachineInstance", `{metadata: {labels: {istio.io/rev: a}}, status: {phase: Running}}`, `{metadata: {annotations: {k8s.v1.cni.cncf.io/networks: a, note: a}}, status: {phase: Running}}`, "pod-labels,pod-annotations"},
	"everything that is not ours": {"VirtualMachineInstance", `{metadata: {annotations: {a: b}, labels: {c: d}, finalizers: [e/f]}}`, `{metadata: {annotations: {a: c}, labels: {}, finalizers: []}}`, "instance-labels,instance-annotations"},
}

func TestGuard(t *testing.T) {
	policies := policiesOf(t, guard)
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := Write{Kind: c.kind, User: jane, Object: object(t, c.now), Old: object(t, c.old)}
			if got := broken(guard, w); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if got := policies[c.kind].broken(t, w); got != c.want {
				t.Errorf("the policy says %q, want %q", got, c.want)
			}
			w.User = owner
			want := ""
			if c.kind == presets.VirtualMachine {
				want = strings.Join(slices.DeleteFunc(strings.Split(c.want, ","), func(id string) bool { return id == "owner-references" }), ",")
			}
			if got := broken(guard, w); got != want || policies[c.kind].broken(t, w) != want {
				t.Errorf("a controller of VMs: got %q, by policy %q, want %q", got, policies[c.kind].broken(t, w), want)
			}
			w.User = controller
			if got := broken(guard, w) + policies[c.kind].broken(t, w); got != "" {
				t.Errorf("the trusted writer is rejected: %s", got)
			}
		})
	}
}

// TestEveryRuleHasCases checks that a case breaks each rule.
func TestEveryRuleHasCases(t *testing.T) {
	tried := map[string]bool{}
	for _, c := range cases {
		for id := range strings.SplitSeq(c.want, ",") {
			tried[id] = true
		}
	}
	for _, rule := range rules {
		if !tried[rule.ID] {
			t.Errorf("no case breaks %s", rule.ID)
		}
	}
}

// TestPolicyAgrees compares webhook and policy on random writes.
func TestPolicyAgrees(t *testing.T) {
	for _, g := range []Guard{guard, {Addon: true}, {Addon: true, Controllers: []string{jane}}} {
		policies := policiesOf(t, g)
		random := rand.New(rand.NewPCG(1, 2))
		for range 3000 {
			w := Write{Kind: both[random.IntN(2)], User: jane, Object: anObject(random)}
			if random.IntN(4) > 0 {
				w.Old = anObject(random)
			}
			if got, want := policies[w.Kind].broken(t, w), broken(g, w); got != want {
				t.Fatalf("%s:\nold %s\nnow %s\nthe policy says %q, the webhook %q", w.Kind, text(w.Old), text(w.Object), got, want)
			}
		}
	}
}

func TestMessages(t *testing.T) {
	w := Write{Kind: presets.VirtualMachine, User: jane, Old: object(t, `{}`), Object: object(t, `{metadata: {annotations: {virtwright.dev/x: y}}}`)}
	problems := guard.Check(w)
	if len(problems) != 1 || problems[0].Field != "metadata.annotations[virtwright.dev/x]" {
		t.Fatalf("got %v", problems)
	}
	if said := policiesOf(t, guard)[w.Kind].messages(t, w); len(said) != 1 || said[0] != problems[0].Detail {
		t.Errorf("the policy says %q, the webhook %q", said, problems[0].Detail)
	}
}

// broken lists the rules that a write breaks.
func broken(g Guard, w Write) string {
	var ids []string
	for _, problem := range g.Check(w) {
		ids = append(ids, presets.NewProblem(problem).Rule())
	}
	return strings.Join(ids, ",")
}

// A policy is one as an API server would evaluate it.
type policy struct {
	trusted  cel.Program
	rules    []cel.Program
	sayings  []cel.Program
	ruleName []string
}

// celEnv is what expressions of policies are compiled in.
var celEnv = sync.OnceValues(func() (*cel.Env, error) {
	base := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())
	set, err := base.Extend(environment.VersionedOptions{
		IntroducedVersion: environment.DefaultCompatibilityVersion(),
		EnvOptions:        []cel.EnvOption{cel.Variable("object", cel.DynType), cel.Variable("oldObject", cel.DynType), cel.Variable("request", cel.DynType)},
	})
	if err != nil {
		return nil, err
	}
	return set.Env(environment.NewExpressions)
})

// programs are the compiled expressions; tests evaluate most of them many times.
var programs sync.Map

func compiled(t *testing.T, expression string) cel.Program {
	t.Helper()
	if known, ok := programs.Load(expression); ok {
		return known.(cel.Program)
	}
	env, err := celEnv()
	if err != nil {
		t.Fatal(err)
	}
	checked, issues := env.Compile(expression)
	if issues.Err() != nil {
		t.Fatalf("%s: %v", expression, issues.Err())
	}
	program, err := env.Program(checked)
	if err != nil {
		t.Fatal(err)
	}
	programs.Store(expression, program)
	return program
}

// evaluated is what an expression comes to.
func evaluated(t *testing.T, program cel.Program, variables map[string]any) any {
	t.Helper()
	value, _, err := program.Eval(variables)
	if err != nil {
		t.Fatal(err)
	}
	return value.Value()
}

func policiesOf(t *testing.T, g Guard) map[presets.Kind]policy {
	t.Helper()
	compile := func(expression string) cel.Program { return compiled(t, expression) }
	out := map[presets.Kind]policy{}
	made, _ := g.Policies()
	for i, kind := range both {
		p := policy{trusted: compile(made[i].Spec.MatchConditions[0].Expression)}
		for _, v := range made[i].Spec.Validations {
			p.rules, p.sayings = append(p.rules, compile(v.Expression)), append(p.sayings, compile(v.MessageExpression))
			p.ruleName = append(p.ruleName, strings.TrimSuffix(v.MessageExpression[strings.LastIndex(v.MessageExpression, "(")+1:], `)"`))
		}
		out[kind] = p
	}
	return out
}

func (p policy) broken(t *testing.T, w Write) string {
	t.Helper()
	var ids []string
	for i := range p.indices(t, w) {
		ids = append(ids, p.ruleName[i])
	}
	return strings.Join(ids, ",")
}

func (p policy) messages(t *testing.T, w Write) []string {
	t.Helper()
	var out []string
	for i := range p.indices(t, w) {
		said, _, err := p.sayings[i].Eval(variables(w))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, fmt.Sprint(said.Value()))
	}
	return out
}

// indices yields the rules that are broken.
func (p policy) indices(t *testing.T, w Write) func(func(int) bool) {
	eval := func(program cel.Program) bool {
		value, _, err := program.Eval(variables(w))
		if err != nil {
			t.Fatalf("old %s\nnow %s\n%v", text(w.Old), text(w.Object), err)
		}
		return value.Value().(bool)
	}
	return func(yield func(int) bool) {
		if !eval(p.trusted) {
			return
		}
		for i, rule := range p.rules {
			if !eval(rule) && !yield(i) {
				return
			}
		}
	}
}

func variables(w Write) map[string]any {
	operation, old := "UPDATE", any(w.Old)
	if w.Old == nil {
		operation, old = "CREATE", nil
	}
	return map[string]any{
		"object": w.Object, "oldObject": old,
		"request": map[string]any{"operation": operation, "userInfo": map[string]any{"username": w.User}},
	}
}

// anObject is one of few, so that two are often alike.
func anObject(random *rand.Rand) map[string]any {
	pick := func(from ...any) any { return from[random.IntN(len(from))] }
	fill := func(from map[string][]any) map[string]any {
		out := map[string]any{}
		for key, values := range from {
			if random.IntN(3) == 0 {
				out[key] = pick(values...)
			}
		}
		return out
	}
	annotations := func() any {
		return fill(map[string][]any{"virtwright.dev/x": {"a", "b"}, "virtwright.dev/presets": {"a"}, "virtwright.dev/provenance": {"a", "b"}, "kubevirt.io/vm-generation": {"1"}, "dapr.io/x": {"1", "2"}, "o": {"a"}})
	}
	labels := func() any {
		return fill(map[string][]any{"kubevirt.io/nodeName": {"a", "b"}, "istio.io/rev": {"a", "b"}, "o": {"a"}})
	}
	ref := func(uid string) any { return map[string]any{"uid": uid, "controller": pick(true, false)} }
	return fill(map[string][]any{
		"metadata": {fill(map[string][]any{
			"ownerReferences": {[]any{}, []any{ref("1")}, []any{ref("1"), ref("2")}, []any{ref("2"), ref("1")}},
			"annotations":     {annotations(), annotations()}, "labels": {labels()},
			"deletionTimestamp": {nil, "2026-01-01T00:00:00Z"},
			"finalizers":        {[]any{}, []any{"a/b"}, []any{"virtwright.dev/x", "a/b"}, []any{"a/b", "virtwright.dev/x"}},
		})},
		"spec": {
			map[string]any{}, map[string]any{"n": int64(1)}, map[string]any{"n": 1.0}, map[string]any{"n": "1"}, map[string]any{"n": nil},
			map[string]any{"template": pick(nil, map[string]any{"metadata": pick(nil, "x", map[string]any{"annotations": pick(annotations(), "x", nil), "labels": labels(), "finalizers": pick("x", nil, []any{"a/b"}, []any{"virtwright.dev/x"})})})},
		},
		"status": {nil, map[string]any{}, map[string]any{"phase": "Running"}, map[string]any{"phase": "Pending"}},
	})
}

func object(t *testing.T, manifest string) map[string]any {
	t.Helper()
	if manifest == "" {
		return nil
	}
	raw, err := yaml.YAMLToJSON([]byte(manifest))
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func text(v any) string {
	raw, _ := json.Marshal(v)
	return string(raw)
}
