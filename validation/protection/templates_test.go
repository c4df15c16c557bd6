package protection

import (
	"maps"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	admissioncel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	"k8s.io/apiserver/pkg/cel/environment"

	sspv1alpha1 "github.com/virtwright/virtwright/api/ssp/v1alpha1"
	"github.com/virtwright/virtwright/api/v1alpha1"
)

// users are requesting users, whom other users may impersonate.
var users = map[string]authenticationv1.UserInfo{
	"jane": {Username: "jane", Groups: []string{"system:authenticated"}},
	"without groups": {
		Username: "lone", UID: "7",
	},
	"a service account": {
		Username: "system:serviceaccount:shop:robot", UID: "0a1b", Groups: []string{"system:serviceaccounts", "system:serviceaccounts:shop", "system:authenticated"},
		Extra: map[string]authenticationv1.ExtraValue{
			"authentication.kubernetes.io/pod-name": {"robot-1"}, "authentication.kubernetes.io/node-name": {"one"}, "scopes": {"a", "b"},
		},
	},
	"a name with signs": {Username: `o"b\r,ien<&>`, Groups: []string{`g"1,`, "ü"}, Extra: map[string]authenticationv1.ExtraValue{"k:[": {`"`}, "none": {}}},
}

func stampOf(user authenticationv1.UserInfo, vmUID string) string {
	return sspv1alpha1.RequesterRecord{Requester: sspv1alpha1.RequesterOf(user), VMUID: vmUID, Value: "golden"}.String()
}

func userVariables(user authenticationv1.UserInfo) map[string]any {
	out := map[string]any{"username": user.Username}
	if user.UID != "" {
		out["uid"] = user.UID
	}
	if user.Groups != nil {
		out["groups"] = anyList(user.Groups)
	}
	if user.Extra != nil {
		extra := map[string]any{}
		for key, values := range user.Extra {
			extra[key] = anyList(values)
		}
		out["extra"] = extra
	}
	return out
}

func anyList(in []string) []any {
	out := []any{}
	for _, text := range in {
		out = append(out, text)
	}
	return out
}

func stampedVM(uid, stamp string) map[string]any {
	annotations := map[string]any{"a": "b", v1alpha1.AnnotationGenerateTemplate: "golden"}
	if stamp != "" {
		annotations[v1alpha1.AnnotationTemplateRequester] = stamp
	}
	return map[string]any{"metadata": map[string]any{"name": "web", "uid": uid, "annotations": annotations}}
}

// templatesRejected is which rule rejects a write, if any.
func templatesRejected(t *testing.T, operation, resource string, user authenticationv1.UserInfo, old, now map[string]any) string {
	t.Helper()
	g := Guard{Trusted: []string{controller, "trusted"}, Controllers: []string{"owner"}, Manager: controller}
	spec := g.templatePolicy().Spec
	variables := map[string]any{"object": now, "oldObject": nil, "request": map[string]any{
		"operation": operation, "userInfo": userVariables(user), "resource": map[string]any{"resource": resource},
	}}
	if old != nil {
		variables["oldObject"] = old
	}
	if !evaluated(t, compiled(t, spec.MatchConditions[0].Expression), variables).(bool) {
		return ""
	}
	var broken []string
	for i, v := range spec.Validations {
		if !evaluated(t, compiled(t, v.Expression), variables).(bool) {
			if said, _ := evaluated(t, compiled(t, v.MessageExpression), variables).(string); !strings.Contains(said, user.Username) {
				t.Errorf("it says %q", said)
			}
			broken = append(broken, templateRules()[i].id)
		}
	}
	return strings.Join(broken, ",")
}

// A stamp is of the user who writes it, or was there before.
func TestStamps(t *testing.T) {
	jane := users["jane"]
	for name, user := range users {
		t.Run(name, func(t *testing.T) {
			parsed, err := sspv1alpha1.ParseRequesterRecord(stampOf(user, "u1"))
			if err != nil || parsed.String() != stampOf(user, "u1") {
				t.Errorf("got %v, %v", parsed, err)
			}
			other := user
			other.Username += "x"
			more := user
			more.Groups = append([]string{"system:masters"}, user.Groups...)
			extra := user
			extra.Extra = maps.Clone(user.Extra)
			if extra.Extra == nil {
				extra.Extra = map[string]authenticationv1.ExtraValue{}
			}
			extra.Extra["more"] = authenticationv1.ExtraValue{"1"}
			for _, c := range []struct{ reason, operation, old, now, want string }{
				{"none", "CREATE", "", "", ""},
				{"of a new VM", "CREATE", "", stampOf(user, ""), ""},
				{"on an update", "UPDATE", "", stampOf(user, "u1"), ""},
				{"as it was", "UPDATE", stampOf(other, "u1"), stampOf(other, "u1"), ""},
				{"taken away", "UPDATE", stampOf(other, "u1"), "", ""},
				{"another user's", "CREATE", "", stampOf(other, ""), "template-stamp"},
				{"another user's on an update", "UPDATE", stampOf(user, "u1"), stampOf(other, "u1"), "template-stamp"},
				{"of another VM", "UPDATE", "", stampOf(user, "u2"), "template-stamp"},
				{"of a VM that is not yet", "CREATE", "", stampOf(user, "u1"), "template-stamp"},
				{"in more groups", "CREATE", "", stampOf(more, ""), "template-stamp"},
				{"with more extra", "CREATE", "", stampOf(extra, ""), "template-stamp"},
				{"with more behind it", "CREATE", "", stampOf(user, "") + " ", "template-stamp"},
				{"something else", "CREATE", "", "{}", "template-stamp"},
				{"for another value", "CREATE", "", strings.Replace(stampOf(user, ""), "golden", "silver", 1), "template-stamp"},
			} {
				var old map[string]any
				if c.operation == "UPDATE" {
					old = stampedVM("u1", c.old)
				}
				if got := templatesRejected(t, c.operation, "virtualmachines", user, old, stampedVM("u1", c.now)); got != c.want {
					t.Errorf("%s: got %q, want %q", c.reason, got, c.want)
				}
			}
		})
	}
	for _, writer := range []string{controller, "trusted", "owner"} {
		for operation, old := range map[string]map[string]any{"CREATE": nil, "UPDATE": stampedVM("u1", "")} {
			if got := templatesRejected(t, operation, "virtualmachines", authenticationv1.UserInfo{Username: writer}, old, stampedVM("u1", stampOf(jane, "u1"))); got != "template-stamp" {
				t.Errorf("%s copies a forged stamp on %s: got %q", writer, operation, got)
			}
		}
	}
}

// What a user's groups say is not taken for what extra says, and a stamp can be read in one way.
func TestStampsOfOddUsers(t *testing.T) {
	mallory := authenticationv1.UserInfo{
		Username: "mallory", Groups: []string{"system:authenticated"}, Extra: map[string]authenticationv1.ExtraValue{"groups": {"system:authenticated"}},
	}
	head := `{"username":"mallory","uid":"","groups":["system:authenticated"],"extra":{`
	tail := `},"vmUID":"","value":"golden"}`
	middle := `},"username":"bob","extra":{`
	middle += strings.Repeat(" ", len(`"groups":["system:authenticated"]`)-len(middle))
	if got := templatesRejected(t, "CREATE", "virtualmachines", mallory, nil, stampedVM("u1", head+middle+tail)); got != "template-stamp" {
		t.Errorf("got %q", got)
	}
	if got := templatesRejected(t, "CREATE", "virtualmachines", mallory, nil, stampedVM("u1", stampOf(mallory, ""))); got != "" {
		t.Errorf("the genuine one: got %q", got)
	}
	for _, text := range []string{head + middle + tail, stampOf(mallory, "") + " ", "{}", `{"Username":"a"}`} {
		if stamp, err := sspv1alpha1.ParseRequesterRecord(text); err == nil {
			t.Errorf("%s is read as %v", text, stamp)
		}
	}
}

// A request names who makes it.
func TestRequesters(t *testing.T) {
	request := func(user *authenticationv1.UserInfo) map[string]any {
		spec := map[string]any{"source": map[string]any{"vmName": "web"}}
		if user != nil {
			spec["requester"] = userVariables(*user)
		}
		return map[string]any{"metadata": map[string]any{"name": "r"}, "spec": spec}
	}
	for name, user := range users {
		t.Run(name, func(t *testing.T) {
			other := user
			other.Groups = append([]string{"system:masters"}, user.Groups...)
			manager := authenticationv1.UserInfo{Username: controller}
			for _, c := range []struct {
				reason, operation string
				by                authenticationv1.UserInfo
				names             *authenticationv1.UserInfo
				want              string
			}{
				{"itself", "CREATE", user, &user, ""},
				{"no user", "CREATE", user, nil, "template-requester"},
				{"itself in more groups", "CREATE", user, &other, "template-requester"},
				{"the manager for another user", "CREATE", manager, &user, ""},
				{"a trusted writer for another user", "CREATE", authenticationv1.UserInfo{Username: "trusted"}, &user, "template-requester"},
				{"a change of labels", "UPDATE", manager, &user, ""},
				{"a change of labels by another user", "UPDATE", other, &user, ""},
			} {
				if got := templatesRejected(t, c.operation, sspv1alpha1.ResourceVirtualMachineTemplateRequests, c.by, request(c.names), request(c.names)); got != c.want {
					t.Errorf("%s: got %q, want %q", c.reason, got, c.want)
				}
			}
		})
	}
}

// API servers take every expression of every policy: they know the types of the fields of a
// request, which other tests here leave open.
func TestPoliciesCompile(t *testing.T) {
	compiler := admissioncel.NewCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	options := admissioncel.OptionalVariableDeclarations{HasAuthorizer: true}
	try := func(policy, expression string, of admissioncel.ExpressionAccessor) {
		if result := compiler.CompileCELExpression(of, options, environment.NewExpressions); result.Error != nil {
			t.Errorf("%s: %s: %v", policy, expression, result.Error)
		}
	}
	for _, g := range []Guard{{}, {Trusted: []string{"a"}, Controllers: []string{"b"}, Manager: "m"}, {Addon: true}} {
		policies, _ := g.Policies()
		for _, p := range policies {
			for _, c := range p.Spec.MatchConditions {
				try(p.Name, c.Expression, &matchconditions.MatchCondition{Name: c.Name, Expression: c.Expression})
			}
			for _, v := range p.Spec.Validations {
				try(p.Name, v.Expression, &validating.ValidationCondition{Expression: v.Expression})
				if v.MessageExpression == "" {
					continue
				}
				try(p.Name, v.MessageExpression, &validating.MessageExpressionCondition{MessageExpression: v.MessageExpression})
			}
		}
	}
}
