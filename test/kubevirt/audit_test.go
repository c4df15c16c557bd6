package kubevirt

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// event is one of virt-controller, which updated a VM, with changes.
func event(code int32, message string, changes ...func(*auditv1.Event)) auditv1.Event {
	e := auditv1.Event{
		Verb: "update", User: authenticationv1.UserInfo{Username: "system:serviceaccount:kubevirt:kubevirt-controller"},
		ObjectRef:      &auditv1.ObjectReference{Resource: "virtualmachines", Namespace: "lab", Name: "web"},
		ResponseStatus: &metav1.Status{Code: code, Message: message},
	}
	for _, change := range changes {
		change(&e)
	}
	return e
}

func TestAuditedWrites(t *testing.T) {
	const update = "system:serviceaccount:kubevirt:kubevirt-controller update virtualmachines lab/web"
	verb := func(verb string) func(*auditv1.Event) { return func(e *auditv1.Event) { e.Verb = verb } }
	by := func(user string) func(*auditv1.Event) { return func(e *auditv1.Event) { e.User.Username = user } }
	review := func(e *auditv1.Event) { e.ObjectRef.Resource = "subjectaccessreviews" }
	dryRun := func(e *auditv1.Event) { e.RequestURI = "/apis/kubevirt.io/v1/virtualmachines?dryRun=All" }
	asHandler := func(e *auditv1.Event) {
		e.User.Username = "admin"
		e.ImpersonatedUser = &authenticationv1.UserInfo{Username: "system:serviceaccount:kubevirt:kubevirt-handler"}
		e.ObjectRef.Subresource = "status"
	}
	for name, c := range map[string]struct {
		event             auditv1.Event
		written, rejected []string
	}{
		"a write":                     {event: event(200, ""), written: []string{"1 × " + update}},
		"a rejected write":            {event: event(403, "policy"), written: []string{"1 × " + update}, rejected: []string{"1 × " + update + ": 403 policy"}},
		"a conflict":                  {event: event(409, "modified"), written: []string{"1 × " + update}},
		"an older object":             {event: event(422, "the server rejected our request due to an error in our request"), written: []string{"1 × " + update}},
		"an invalid object":           {event: event(422, "spec.x: Invalid"), written: []string{"1 × " + update}, rejected: []string{"1 × " + update + ": 422 spec.x: Invalid"}},
		"a namespace that is deleted": {event: event(403, "forbidden: unable to create new content in namespace lab because it is being terminated"), written: []string{"1 × " + update}},
		"a read":                      {event: event(403, "policy", verb("list"))},
		"a review":                    {event: event(403, "policy", review)},
		"a dry run":                   {event: event(403, "policy", dryRun)},
		"a user's write":              {event: event(403, "policy", by("jane"))},
		"a write of virtwright":       {event: event(403, "policy", by("system:serviceaccount:virtwright-system:virtwright")), written: []string{"1 × system:serviceaccount:virtwright-system:virtwright update virtualmachines lab/web"}},
		"a write of a simulated node": {event: event(200, "", asHandler), written: []string{"1 × system:serviceaccount:kubevirt:kubevirt-handler update virtualmachines/status lab/web"}},
	} {
		t.Run(name, func(t *testing.T) {
			events := []auditv1.Event{c.event}
			if diff := cmp.Diff(c.written, writes(events)); diff != "" {
				t.Errorf("writes: %s", diff)
			}
			if diff := cmp.Diff(c.rejected, rejected(events)); diff != "" {
				t.Errorf("rejected writes: %s", diff)
			}
		})
	}
}
