package protection

import (
	"fmt"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	sspv1alpha1 "github.com/virtwright/virtwright/api/ssp/v1alpha1"
	"github.com/virtwright/virtwright/api/v1alpha1"
)

// TemplatePolicyName is the name of the policy by which nobody asks for templates
// in somebody else's name, and of its binding.
const TemplatePolicyName = "templates" + policySuffix

// A templateRule is about who asks for a template.
type templateRule struct {
	// id names the rule in messages.
	id string
	// cel holds unless the rule is broken.
	cel string
	// says why, and what to do instead.
	says string
}

// isRequest is CEL that holds for what is written of requests.
const isRequest = `request.resource.resource == "` + sspv1alpha1.ResourceVirtualMachineTemplateRequests + `"`

// userCEL is the user who writes, as lists and maps that may be compared.
const userCEL = `[dyn(request.userInfo.username), dyn(request.userInfo.?uid.orValue("")), dyn(request.userInfo.?groups.orValue([])), dyn(request.userInfo.?extra.orValue({}))]`

// requesterCEL is the user whom a request names, of the same form.
const requesterCEL = `object.spec.?requester.optMap(r, [dyn(r.?username.orValue("")), dyn(r.?uid.orValue("")), dyn(r.?groups.orValue([])), dyn(r.?extra.orValue({}))]).orValue([])`

// quotedCEL is a list of texts as JSON writes it, without brackets.
func quotedCEL(list string) string {
	return list + `.map(q, strings.quote(q)).join(",")`
}

// annotationCEL is an annotation; empty where there is none.
func annotationCEL(object, key string) string {
	return fmt.Sprintf("[%s].map(s, type(s) == string ? string(s) : '')[0]", Part{Path: []string{"metadata", "annotations", key}}.valueCEL(object))
}

// headCEL and tailCEL are how the stamp of the user who writes begins and ends.
// What lies between, extra, is in no order that CEL knows: its entries must all
// be there, and nothing else.
var (
	headCEL = `'{"username":' + strings.quote(request.userInfo.username) + ',"uid":' + strings.quote(request.userInfo.?uid.orValue("")) + ` +
		`',"groups":[' + ` + quotedCEL(`request.userInfo.?groups.orValue([])`) + ` + '],"extra":{'`
	tailCEL = `'},"vmUID":' + strings.quote(request.operation == "UPDATE" ? oldObject.metadata.?uid.orValue("") : "") + ` +
		`',"value":' + strings.quote(` + annotationCEL("object", v1alpha1.AnnotationGenerateTemplate) + `) + '}'`
	entriesCEL = `[request.userInfo.?extra.orValue({})].map(x, x.map(k, strings.quote(k) + ":[" + ` + quotedCEL(`x[k]`) + ` + "]"))[0]`
)

// ownStampCEL holds for a stamp of the user who writes.
func ownStampCEL(stamp string) string {
	return fmt.Sprintf(`[[%s, %s, %s]].all(p, p[0].startsWith(p[1]) && p[0].endsWith(p[2]) && `+
		`[%s].all(l, size(p[0]) == size(p[1]) + size(p[2]) + size(l.join(",")) && `+
		`l.all(e, p[0].substring(size(p[1]), size(p[0]) - size(p[2])).contains(e))))`,
		stamp, headCEL, tailCEL, entriesCEL)
}

// templateRules are the rules about who asks, in the order in which they are checked.
func templateRules() []templateRule {
	now, old := annotationCEL("object", v1alpha1.AnnotationTemplateRequester), annotationCEL("oldObject", v1alpha1.AnnotationTemplateRequester)
	trigger := annotationCEL("object", v1alpha1.AnnotationTrigger)
	return []templateRule{{
		id:   "template-requester",
		cel:  fmt.Sprintf(`!(%s) || request.operation != "CREATE" || dyn(%s) == dyn(%s)`, isRequest, requesterCEL, userCEL),
		says: "spec.requester of a request for a template is who makes the request: virtwright writes it",
	}, {
		id: "template-trigger",
		cel: fmt.Sprintf(`!(%s) || %s == (request.operation == "UPDATE" ? %s : "")`,
			isRequest, trigger, annotationCEL("oldObject", v1alpha1.AnnotationTrigger)),
		says: "virtwright writes " + v1alpha1.AnnotationTrigger + " on requests that it makes for an annotation",
	}, {
		id: "template-stamp",
		cel: fmt.Sprintf(`!(%s in object.?metadata.?annotations.orValue({})) || %s || %s == "" || (request.operation == "UPDATE" && %s == %s) || (%s)`,
			quote(v1alpha1.AnnotationTemplateRequester), isRequest, now, now, old, ownStampCEL(now)),
		says: "virtwright writes " + v1alpha1.AnnotationTemplateRequester + ", which says who asks for a template by " + v1alpha1.AnnotationGenerateTemplate,
	}}
}

// templatePolicy holds stamps to the truth, also while no webhook answers.
func (g Guard) templatePolicy() *admissionregistrationv1.ValidatingAdmissionPolicy {
	out := newPolicy(TemplatePolicyName)
	out.Spec.MatchConstraints = constraints(
		[]admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update}, resources["VirtualMachine"])
	requests := out.Spec.MatchConstraints.ResourceRules[0].DeepCopy()
	requests.APIGroups, requests.Resources = []string{sspv1alpha1.GroupName}, []string{sspv1alpha1.ResourceVirtualMachineTemplateRequests}
	out.Spec.MatchConstraints.ResourceRules = append(out.Spec.MatchConstraints.ResourceRules, *requests)
	var forwarders []string
	if g.Manager != "" {
		forwarders = []string{g.Manager}
	}
	out.Spec.MatchConditions = []admissionregistrationv1.MatchCondition{{
		Name:       "not-who-may-ask-for-others",
		Expression: fmt.Sprintf("!(request.userInfo.username in (%s ? %s : %s))", isRequest, quote(nonNil(forwarders)), quote(nonNil(g.Trusted))),
	}}
	for _, rule := range templateRules() {
		out.Spec.Validations = append(out.Spec.Validations, admissionregistrationv1.Validation{
			Expression: rule.cel, Message: rule.says,
			MessageExpression: strings.Join([]string{quote("user "), "request.userInfo.username", quote(" may not write this: " + rule.says + " (" + rule.id + ")")}, " + "),
			Reason:            new(metav1.StatusReasonForbidden),
		})
	}
	return out
}
