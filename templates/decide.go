package templates

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	sspv1alpha1 "github.com/virtwright/virtwright/api/ssp/v1alpha1"
	"github.com/virtwright/virtwright/api/v1alpha1"
)

type decision struct {
	status sspv1alpha1.VirtualMachineTemplateRequestStatus // written first, unless the request has it already
	create *unstructured.Unstructured                      // the template to create then; nil for none
	// created is the status once create exists. It lacks the reference to the template.
	created      sspv1alpha1.VirtualMachineTemplateRequestStatus
	expired      bool          // the request is deleted
	requeueAfter time.Duration // when to reconcile again; 0 waits for an event
	retryDelay   time.Duration // when to try again if create fails
	panicErr     error         // a panic of the generation, for the log
}

type outcome struct {
	ready, terminal bool
	reason, message string
	generated       *generated // the template that the request makes; nil if it is not known
	verifyErr       error      // says why processing the template does not give the VM
	panicErr        error
}

func ends(reason, message string) outcome {
	return outcome{reason: reason, message: message, terminal: true}
}

func waits(reason, message string) outcome { return outcome{reason: reason, message: message} }

func exists(o *observation) outcome {
	return outcome{ready: true, terminal: true, reason: sspv1alpha1.ReasonReconciled, message: o.format.Kind.Kind + " " + o.name + " exists"}
}

// decide returns what to do for a request. It is pure.
func decide(o *observation) decision {
	if finished(&o.request.Status) {
		return expire(o)
	}
	result, create := evaluate(o)
	d := decision{status: describe(o, &result), panicErr: result.panicErr}
	if create {
		d.create = result.generated.template
		d.created = withConditions(d.status, exists(o), o)
		d.retryDelay = backoff(o, sspv1alpha1.ReasonWaiting)
		if ready(&d.status) == nil { // keep why an earlier attempt failed: this one may fail, too
			d.status = withConditions(d.status, waits(sspv1alpha1.ReasonReconciling, "creating "+o.format.Kind.Kind+" "+o.name), o)
		}
		return d
	}
	d.status = withConditions(d.status, result, o)
	switch {
	case !result.terminal:
		d.requeueAfter = backoff(o, result.reason)
	case d.status.CompletionTime != nil:
		d.requeueAfter = lifetime(o.request)
	}
	return d
}

// evaluate returns the outcome of a request, or the template to create.
func evaluate(o *observation) (result outcome, create bool) {
	if result, blocked := obstacle(o); blocked {
		return result, false
	}
	if o.existing != nil {
		return adopt(o), false
	}
	result = generate(o)
	return result, result.reason == ""
}

func obstacle(o *observation) (outcome, bool) {
	switch {
	case o.request.Spec.Requester == nil:
		return ends(sspv1alpha1.ReasonUnauthorized, "requester unknown: the webhook did not see this request; delete and recreate it"), true
	case o.codec == nil:
		return ends(sspv1alpha1.ReasonSourceInvalid,
			field.Required(field.NewPath("spec", "target"), "must name one of "+strings.Join(sspv1alpha1.FormatNames(), ", ")).Error()), true
	case o.disabled:
		return waits(sspv1alpha1.ReasonFormatUnavailable, "format "+o.format.Name+" is disabled in this cluster (--template-formats of the manager)"), true
	case len(o.denied) > 0:
		var permissions []string
		for _, permission := range o.denied {
			permissions = append(permissions, permission.String())
		}
		return waits(sspv1alpha1.ReasonUnauthorized, fmt.Sprintf("user %s may not %s; this template requires these permissions",
			o.request.Spec.Requester.Username, strings.Join(permissions, ", nor "))), true
	case o.lookupErr != nil:
		return waits(sspv1alpha1.ReasonWaiting, o.lookupErr.Error()), true
	case o.missingAPI != "":
		return waits(sspv1alpha1.ReasonFormatUnavailable, o.missingAPI+" is not served by this cluster; the template is created once it is served"), true
	}
	return outcome{}, false
}

// adopt decides whether the object with the template's name is the request's template. Users can
// write the request's label, so the content must match: the hash in status or, if status has none,
// the template that this request would make now.
func adopt(o *observation) outcome {
	result, problem := exists(o), ""
	hash := o.codec.Hash(o.existing)
	switch recorded := o.request.Status.TemplateHash; {
	case o.existing.GetLabels()[v1alpha1.LabelTemplateRequest] != string(o.request.UID):
		problem = "was not made for this request"
	case recorded == "":
		expected := generate(o)
		result.generated, result.panicErr = expected.generated, expected.panicErr
		if expected.reason != "" {
			problem = "has the label of this request, but virtwright cannot verify its content: " + expected.message
		} else if expected.generated.hash != hash {
			problem = "has the label of this request, but its content differs from the template that this request makes"
		}
	case recorded != hash:
		problem = "was made for this request and changed since"
	}
	if problem == "" {
		return result
	}
	rejected := ends(sspv1alpha1.ReasonTargetExists, fmt.Sprintf("%s %s already exists and %s; it stays as it is: use another name, or delete it and create a new request",
		o.format.Kind.Kind, o.name, problem))
	rejected.panicErr = result.panicErr
	return rejected
}

// backoff returns when to look again for something that sends no events: later, the older the
// request.
func backoff(o *observation, reason string) time.Duration {
	longest := 5 * time.Minute
	if reason == sspv1alpha1.ReasonFormatUnavailable || reason == sspv1alpha1.ReasonWaiting {
		longest = 15 * time.Second
	}
	age := o.now.Sub(o.request.CreationTimestamp.Time)
	return max(time.Second, min(age/2, longest))
}

// lifetime returns how long a request stays once its template exists; 0 if it is not deleted.
func lifetime(request *sspv1alpha1.VirtualMachineTemplateRequest) time.Duration {
	if ttl := request.Spec.TTLSecondsAfterFinished; ttl != nil {
		return max(conflictDelay, time.Duration(*ttl)*time.Second)
	}
	return 0
}

func expire(o *observation) decision {
	d := decision{status: o.request.Status}
	ttl, completed := o.request.Spec.TTLSecondsAfterFinished, o.request.Status.CompletionTime
	if ttl == nil || completed == nil {
		return d
	}
	left := completed.Add(time.Duration(*ttl) * time.Second).Sub(o.now)
	d.expired, d.requeueAfter = left <= 0, max(0, left)
	return d
}
