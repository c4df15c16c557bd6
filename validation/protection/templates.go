package protection

import (
	"fmt"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	sspv1alpha1 "github.com/virtwright/virtwright/api/ssp/v1alpha1"
	"github.com/virtwright/virtwright/api/v1alpha1"
)

// templatePolicyName is the name of the policy that prevents template requests in the name of
// another user, and of its binding.
const templatePolicyName = "templates" + policySuffix

// A templateRule protects the recorded requester of a template.
type templateRule struct {
	// id names the rule in messages.
	id string
	// cel holds unless the rule is broken.
	cel string
	// reason explains the rule, and what to do instead.
	reason string
}

// isRequest is CEL that is true for writes of template requests.
const isRequest = `request.resource.resource == "` + sspv1alpha1.ResourceVirtualMachineTemplateRequests + `"`

// userCEL is the requesting user, as lists and maps that can be compared.
const userCEL = `[dyn(request.userInfo.username), dyn(request.userInfo.?uid.orValue("")), dyn(request.userInfo.?groups.orValue([])), dyn(request.userInfo.?extra.orValue({}))]`

// requesterCEL is the requester in a template request, in the same format.
const requesterCEL = `object.spec.?requester.optMap(r, [dyn(r.?username.orValue("")), dyn(r.?uid.orValue("")), dyn(r.?groups.orValue([])), dyn(r.?extra.orValue({}))]).orValue([])`

// quotedCEL is a list of strings in JSON, without brackets.
func quotedCEL(list string) string {
	return list + `.map(q, strings.quote(q)).join(",")`
}

// annotationCEL is the value of an annotation, or "".
func annotationCEL(object, key string) string {
	return fmt.Sprintf("[%s].map(s, type(s) == string ? string(s) : '')[0]", part{Path: []string{"metadata", "annotations", key}}.valueCEL(object))
}

// headCEL and tailCEL are the start and the end of the record of the requesting user. Between them
// is extra, in an order that CEL cannot reproduce: all entries must be present, and nothing else.
var (
	headCEL = `'{"username":' + strings.quote(request.userInfo.username) + ',"uid":' + strings.quote(request.userInfo.?uid.orValue("")) + ` +
		`',"groups":[' + ` + quotedCEL(`request.userInfo.?groups.orValue([])`) + ` + '],"extra":{'`
	tailCEL = `'},"vmUID":' + strings.quote(request.operation == "UPDATE" ? oldObject.metadata.?uid.orValue("") : "") + ` +
		`',"value":' + strings.quote(` + annotationCEL("object", v1alpha1.AnnotationGenerateTemplate) + `) + '}'`
	entriesCEL = `[request.userInfo.?extra.orValue({})].map(x, x.map(k, strings.quote(k) + ":[" + ` + quotedCEL(`x[k]`) + ` + "]"))[0]`
)

// ownStampCEL is true for a record of the requesting user.
func ownStampCEL(stamp string) string {
	return fmt.Sprintf(`[[%s, %s, %s]].all(p, p[0].startsWith(p[1]) && p[0].endsWith(p[2]) && `+
		`[%s].all(l, size(p[0]) == size(p[1]) + size(p[2]) + size(l.join(",")) && `+
		`l.all(e, p[0].substring(size(p[1]), size(p[0]) - size(p[2])).contains(e))))`,
		stamp, headCEL, tailCEL, entriesCEL)
}

// templateRules returns the rules about requesters, in the order of evaluation.
func templateRules() []templateRule {
	now, old := annotationCEL("object", v1alpha1.AnnotationTemplateRequester), annotationCEL("oldObject", v1alpha1.AnnotationTemplateRequester)
	trigger := annotationCEL("object", v1alpha1.AnnotationTriggerHash)
	return []templateRule{{
		id:     "template-requester",
		cel:    fmt.Sprintf(`!(%s) || request.operation != "CREATE" || dyn(%s) == dyn(%s)`, isRequest, requesterCEL, userCEL),
		reason: "spec.requester of a template request is the requesting user: virtwright sets it",
	}, {
		id: "template-trigger",
		cel: fmt.Sprintf(`!(%s) || %s == (request.operation == "UPDATE" ? %s : "")`,
			isRequest, trigger, annotationCEL("oldObject", v1alpha1.AnnotationTriggerHash)),
		reason: "virtwright writes " + v1alpha1.AnnotationTriggerHash + " on requests that it makes for an annotation",
	}, {
		id: "template-stamp",
		cel: fmt.Sprintf(`!(%s in object.?metadata.?annotations.orValue({})) || %s || %s == "" || (request.operation == "UPDATE" && %s == %s) || (%s)`,
			quote(v1alpha1.AnnotationTemplateRequester), isRequest, now, now, old, ownStampCEL(now)),
		reason: "virtwright writes " + v1alpha1.AnnotationTemplateRequester + ", which records the user of " + v1alpha1.AnnotationGenerateTemplate,
	}}
}

// templatePolicy checks recorded requesters while no webhook answers, too.
func (g Guard) templatePolicy() *admissionregistrationv1.ValidatingAdmissionPolicy {
	out := newPolicy(templatePolicyName)
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
		Name: "not-a-request-for-another-user", Expression: fmt.Sprintf("!(%s && %s)", isRequest, userInCEL(forwarders)),
	}}
	for _, rule := range templateRules() {
		out.Spec.Validations = append(out.Spec.Validations, admissionregistrationv1.Validation{
			Expression: rule.cel, Message: rule.reason,
			MessageExpression: strings.Join([]string{quote("user "), "request.userInfo.username", quote(" may not write this: " + rule.reason + " (" + rule.id + ")")}, " + "),
			Reason:            new(metav1.StatusReasonForbidden),
		})
	}
	return out
}
