package protection

import (
	"fmt"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/virtwright/virtwright/api/v1alpha1"
)

// NodePolicyName is the name of the policy that binds node agents, and of its
// binding.
const NodePolicyName = "nodes" + policySuffix

// A nodeRule is one of what binds a node agent, which rules about other users
// let pass: who has the credentials of one agent has one node, and no more.
type nodeRule struct {
	// id names the rule in messages.
	id string
	// cel holds unless the rule is broken.
	cel string
	// says why, and what to do instead.
	says string
}

// claimCEL is the name of the node that a user's token is bound to; empty where
// it is bound to none.
var claimCEL = fmt.Sprintf(`[request.userInfo.?extra[?%s].orValue([])].map(c, c.size() == 1 ? c[0] : "")[0]`, quote(v1alpha1.ExtraNodeName))

// onUpdate is CEL that holds for every other operation: the first rule refuses
// those already, and then there are no two objects to compare.
func onUpdate(cel string) string { return `request.operation != "UPDATE" || ` + cel }

// unchanged holds when a part of the instance is as it was.
func unchanged(path ...string) string { return onUpdate(Part{Path: path}.sameCEL()) }

// nodeRules are the rules for node agents, in the order in which they are checked.
var nodeRules = []nodeRule{{
	id:   "node-update",
	cel:  `request.operation == "UPDATE" && request.resource.resource == "virtualmachineinstances"`,
	says: "a node agent updates instances, and neither makes nor deletes machines",
}, {
	id: "node-own",
	cel: onUpdate(fmt.Sprintf(`[[dyn(%s), %s, %s]].all(n, n[0] != "" && n[1] == n[0] && (n[2] == null || n[2] == "" || n[2] == n[0]))`,
		claimCEL, nodeNameCEL("object"), nodeNameCEL("oldObject"))),
	says: "a node agent writes instances of its own node alone, by the node that its token is bound to, and claims those of none",
}, {
	id: "node-spec", cel: unchanged("spec"),
	says: "a node agent runs the spec that there is",
}, {
	id: "node-owner-references", cel: unchanged("metadata", "ownerReferences"),
	says: "a node agent does not say whose an instance is",
}, {
	id: "node-labels", cel: unchanged("metadata", "labels"),
	says: "a node agent writes status, and no labels",
}, {
	id: "node-annotations", cel: unchanged("metadata", "annotations"),
	says: "a node agent writes status, and no annotations",
}, {
	id:   "node-finalizers",
	cel:  onUpdate(othersCEL("object") + " == " + othersCEL("oldObject")),
	says: "a node agent adds and removes the finalizer " + v1alpha1.FinalizerNode + " alone",
}}

func nodeNameCEL(object string) string {
	return Part{Path: []string{"status", "nodeName"}}.valueCEL(object)
}

// othersCEL are the finalizers that are not the node agent's.
func othersCEL(object string) string {
	return fmt.Sprintf("%s.?metadata.?finalizers.orValue([]).filter(f, f != %s)", object, quote(v1alpha1.FinalizerNode))
}

// nodePolicy binds the node agent. It is the only rule for that user, so it is
// about all that the others guard, and about every operation.
func (g Guard) nodePolicy() *admissionregistrationv1.ValidatingAdmissionPolicy {
	out := newPolicy(NodePolicyName)
	out.Spec.MatchConstraints = constraints(
		[]admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update, admissionregistrationv1.Delete},
		"virtualmachineinstances", "virtualmachineinstances/*", "virtualmachines", "virtualmachines/*")
	out.Spec.MatchConditions = []admissionregistrationv1.MatchCondition{{
		Name: "a-node-agent", Expression: "request.userInfo.username == " + quote(g.NodeAgent),
	}}
	for _, rule := range nodeRules {
		out.Spec.Validations = append(out.Spec.Validations, admissionregistrationv1.Validation{
			Expression: rule.cel, Message: rule.says,
			MessageExpression: strings.Join([]string{quote("node agent of "), claimCEL, quote(" may not write this: " + rule.says + " (" + rule.id + ")")}, " + "),
			Reason:            new(metav1.StatusReasonForbidden),
		})
	}
	return out
}
