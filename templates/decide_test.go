package templates

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	sspv1alpha1 "github.com/virtwright/virtwright/api/ssp/v1alpha1"
	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/templates/blueprint"
	"github.com/virtwright/virtwright/templates/format"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// observationWith returns the observation of a request that is a minute old and for an existing VM.
func observationWith(change ...func(*observation)) *observation {
	form, _ := sspv1alpha1.FormatNamed(sspv1alpha1.FormatOpenShiftTemplate)
	s := &observation{
		now: noon, format: form, codec: codecOf(form), name: "golden",
		request: &sspv1alpha1.VirtualMachineTemplateRequest{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "r", UID: "r1", Generation: 1, CreationTimestamp: metav1.Time{Time: noon.Add(-time.Minute)}},
			Spec: sspv1alpha1.VirtualMachineTemplateRequestSpec{
				Source:    sspv1alpha1.VirtualMachineTemplateRequestSource{VMName: "web", VMNamespace: "shop"},
				Target:    sspv1alpha1.VirtualMachineTemplateRequestTarget{OpenShiftTemplate: &sspv1alpha1.OpenShiftTemplate{Name: "golden"}},
				Requester: &sspv1alpha1.Requester{Username: "jane"},
			},
		},
		source: &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine",
			"metadata": map[string]any{"namespace": "shop", "name": "web", "uid": "vm1"},
			"spec": map[string]any{"template": map[string]any{"spec": map[string]any{
				"domain":  map[string]any{"cpu": map[string]any{"cores": int64(2)}},
				"volumes": []any{map[string]any{"name": "seed", "cloudInitNoCloud": map[string]any{"userData": "password: hunter2"}}},
			}}},
		}},
	}
	for _, c := range change {
		c(s)
	}
	return s
}

func summary(status *sspv1alpha1.VirtualMachineTemplateRequestStatus) string {
	word := func(kind string) string {
		c := meta.FindStatusCondition(status.Conditions, kind)
		if c == nil {
			return "-"
		}
		return string(c.Status) + "/" + c.Reason
	}
	progressing, _, _ := strings.Cut(word(sspv1alpha1.ConditionProgressing), "/")
	return word(sspv1alpha1.ConditionReady) + " " + progressing + " " + word(sspv1alpha1.ConditionVerified)
}

// broken is a codec with a defect.
type broken struct {
	codec
	how string
}

func (b broken) Encode(of *blueprint.Blueprint, meta format.Meta) (*unstructured.Unstructured, error) {
	switch b.how {
	case "large":
		return nil, &format.TooLarge{Bytes: 2 << 20, Most: 1 << 20}
	case "panic":
		panic("password: hunter2")
	case "encode":
		return nil, errors.New("spec.x cannot be in it")
	}
	return b.codec.Encode(of, meta)
}

func (b broken) Verify(template *unstructured.Unstructured, of *blueprint.Blueprint) error {
	if b.how == "verify" {
		return errors.New("spec.template.spec.x differs")
	}
	return b.codec.Verify(template, of)
}

func breaks(how string) func(*observation) {
	return func(s *observation) { s.codec = broken{s.codec, how} }
}

// created changes an observation as if the template had been created.
func created(s *observation) {
	p := decide(s)
	s.existing, s.request.Status = p.create, p.status
	s.source = nil
}

// cleared removes the status of a request for which the template exists. The VM is unchanged.
func cleared(s *observation) {
	source := s.source
	created(s)
	s.source, s.request.Status = source, sspv1alpha1.VirtualMachineTemplateRequestStatus{}
}

// forged adds an object that a user created with the request's label.
func forged(s *observation) {
	s.existing = &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "template.openshift.io/v1", "kind": "Template",
		"metadata": map[string]any{"name": "golden", "namespace": "shop", "uid": "forged", "labels": map[string]any{v1alpha1.LabelTemplateRequest: "r1"}},
		"objects":  []any{map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "planted"}}},
	}}
}

func TestDecide(t *testing.T) {
	for name, c := range map[string]struct {
		reason  string
		seen    *observation
		want    string
		ends    bool
		creates bool
	}{
		"nothing missing": {"the template is created", observationWith(), "False/Reconciling True True/RoundTrip", false, true},
		"no requester":    {"it fails closed", observationWith(func(s *observation) { s.request.Spec.Requester = nil }), "False/Unauthorized False -", true, false},
		"unknown format":  {"a newer client may have sent it", observationWith(func(s *observation) { s.codec, s.format = nil, sspv1alpha1.Format{} }), "False/SourceInvalid False -", true, false},
		"disabled format": {"flags may change", observationWith(func(s *observation) { s.disabled = true }), "False/FormatUnavailable True -", false, false},
		"denied": {"permissions may be granted", observationWith(func(s *observation) {
			s.denied = []sspv1alpha1.Permission{{Attributes: authorizationv1.ResourceAttributes{Verb: "get"}}}
		}), "False/Unauthorized True -", false, false},
		"denied, created":    {"permissions are reviewed first", observationWith(created, func(s *observation) { s.denied = []sspv1alpha1.Permission{{}} }), "False/Unauthorized True True/RoundTrip", false, false},
		"no discovery":       {"the API server may recover", observationWith(func(s *observation) { s.lookupErr = errors.New("no answer") }), "False/Waiting True -", false, false},
		"not served":         {"the API may be installed", observationWith(func(s *observation) { s.missingAPI = "x/v1" }), "False/FormatUnavailable True -", false, false},
		"name taken":         {"nothing is overwritten", observationWith(func(s *observation) { s.existing = &unstructured.Unstructured{} }), "False/TargetExists False -", true, false},
		"created":            {"an interrupted loop continues", observationWith(created), "True/Reconciled False True/RoundTrip", true, false},
		"another request's":  {"labels differ", observationWith(created, func(s *observation) { s.request.UID = "r2" }), "False/TargetExists False True/RoundTrip", true, false},
		"created, changed":   {"a user changed it", observationWith(created, func(s *observation) { s.existing.Object["message"] = "x" }), "False/TargetExists False True/RoundTrip", true, false},
		"created, no status": {"its content matches", observationWith(cleared), "True/Reconciled False True/RoundTrip", true, false},
		"forged label":       {"users can write labels", observationWith(forged), "False/TargetExists False -", true, false},
		"forged, no VM":      {"its content cannot be verified", observationWith(forged, func(s *observation) { s.source = nil }), "False/TargetExists False -", true, false},
		"forged, panic":      {"its content cannot be verified", observationWith(forged, breaks("panic")), "False/TargetExists False -", true, false},
		"no VM":              {"the VM may be created", observationWith(func(s *observation) { s.source = nil }), "False/SourceNotFound True -", false, false},
		"VM deleted":         {"status has its UID", observationWith(func(s *observation) { s.source, s.request.Status.SourceUID = nil, "vm1" }), "False/SourceChanged False -", true, false},
		"another VM":         {"spec names another UID", observationWith(func(s *observation) { s.request.Spec.Source.VMUID = "vm2" }), "False/SourceChanged False -", true, false},
		"recreated VM":       {"status has another UID", observationWith(func(s *observation) { s.request.Status.SourceUID = "vm2" }), "False/SourceChanged False -", true, false},
		"VM being deleted":   {"a template of it is of no use", observationWith(func(s *observation) { s.source.SetDeletionTimestamp(&metav1.Time{Time: noon}) }), "False/SourceInvalid False -", true, false},
		"VM without a spec":  {"no template can be made", observationWith(func(s *observation) { delete(s.source.Object, "spec") }), "False/SourceInvalid False -", true, false},
		"encoding error":     {"no template can be made", observationWith(breaks("encode")), "False/SourceInvalid False -", true, false},
		"too large":          {"it cannot be stored", observationWith(breaks("large")), "False/TemplateTooLarge False -", true, false},
		"too many values": {"it cannot be stored", observationWith(func(s *observation) {
			many := map[string]any{}
			for i := range 20_000 {
				many[fmt.Sprint("k", i)] = "v"
			}
			s.source.Object["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)["nodeSelector"] = many
		}), "False/TemplateTooLarge False -", true, false},
		"verify error": {"it is not published", observationWith(breaks("verify")), "False/VerificationFailed False False/VerificationFailed", true, false},
		"panic":        {"it is a defect of virtwright", observationWith(breaks("panic")), "False/SourceInvalid False -", true, false},
	} {
		t.Run(name, func(t *testing.T) {
			before := c.seen.request.DeepCopy()
			p := decide(c.seen)
			if got := summary(&p.status); got != c.want {
				t.Errorf("%s: got %q, want %q", c.reason, got, c.want)
			}
			if (p.create != nil) != c.creates {
				t.Errorf("%s: creates %v", c.reason, p.create)
			}
			if requeued := p.requeueAfter > 0; requeued == (c.ends || c.creates) {
				t.Errorf("%s: requeued after %s", c.reason, p.requeueAfter)
			}
			if finished(&p.status) != c.ends {
				t.Errorf("%s: finished is %t", c.reason, finished(&p.status))
			}
			for _, condition := range p.status.Conditions {
				if strings.Contains(condition.Message, "hunter2") {
					t.Errorf("a condition has a secret: %s", condition.Message)
				}
			}
			if p.panicErr != nil && strings.Contains(p.panicErr.Error(), "hunter2") {
				t.Error("the log has a secret")
			}
			if c.seen.request.Status.ObservedGeneration != before.Status.ObservedGeneration || len(c.seen.request.Status.Conditions) != len(before.Status.Conditions) {
				t.Error("the request has changed")
			}
		})
	}
}

// TestDecideAdopts checks that a request without a status adopts only the template that it would
// make.
func TestDecideAdopts(t *testing.T) {
	p := decide(observationWith(cleared))
	if p.status.TemplateRef == nil || p.status.TemplateHash == "" || p.status.SourceUID != "vm1" || p.status.ParameterCount != 3 || p.create != nil {
		t.Errorf("status is %+v", p.status)
	}
	const rest = "; it stays as it is: use another name, or delete it and create a new request"
	for want, seen := range map[string]*observation{
		"was not made for this request":               observationWith(created, func(s *observation) { s.request.UID = "r2" }),
		"was made for this request and changed since": observationWith(created, func(s *observation) { s.existing.Object["message"] = "x" }),
		"has the label of this request, but its content differs from the template that this request makes": observationWith(forged),
		"has the label of this request, but virtwright cannot verify its content: VirtualMachine web not found in namespace shop": observationWith(cleared,
			func(s *observation) { s.source = nil }),
	} {
		p := decide(seen)
		if got := ready(&p.status).Message; got != "Template golden already exists and "+want+rest {
			t.Errorf("got %q, want %q", got, want)
		}
		if p.status.TemplateRef != nil || p.create != nil {
			t.Errorf("%s: status refers to %+v", want, p.status.TemplateRef)
		}
	}
}

// TestDecideDescribes checks the metadata of the template and its description in status.
func TestDecideDescribes(t *testing.T) {
	s := observationWith(func(s *observation) {
		s.request.Spec.TemplateLabels = map[string]sspv1alpha1.TemplateLabel{"team": "x"}
		s.request.Annotations = map[string]string{v1alpha1.AnnotationTriggerHash: "t1"}
	})
	p := decide(s)
	if got := p.create.GetLabels(); got["team"] != "x" || got[v1alpha1.LabelTemplateRequest] != "r1" {
		t.Errorf("labels are %v", got)
	}
	if got := p.create.GetAnnotations(); got[v1alpha1.AnnotationSourceVM] != "shop/web" || got[v1alpha1.AnnotationSourceUID] != "vm1" || got[v1alpha1.AnnotationTriggerHash] != "t1" {
		t.Errorf("annotations are %v", got)
	}
	if p.status.SourceUID != types.UID("vm1") || p.status.TemplateHash == "" || p.status.ParameterCount != 3 || len(p.status.WithheldParameters) != 1 {
		t.Errorf("status is %+v", p.status)
	}
	if got := summary(&p.created); got != "True/Reconciled False True/RoundTrip" || p.created.CompletionTime == nil || p.status.CompletionTime != nil {
		t.Errorf("after creation, status is %s", got)
	}
}

// TestTimeToLive checks that only successful requests expire.
func TestTimeToLive(t *testing.T) {
	ended := func(ready metav1.ConditionStatus, ago time.Duration, ttl *int32) *observation {
		return observationWith(func(s *observation) {
			s.request.Spec.TTLSecondsAfterFinished = ttl
			for kind, status := range map[string]metav1.ConditionStatus{sspv1alpha1.ConditionReady: ready, sspv1alpha1.ConditionProgressing: metav1.ConditionFalse} {
				meta.SetStatusCondition(&s.request.Status.Conditions, metav1.Condition{Type: kind, Status: status, Reason: "R"})
			}
			if ready == metav1.ConditionTrue {
				s.request.Status.CompletionTime = &metav1.Time{Time: noon.Add(-ago)}
			}
		})
	}
	ten := new(int32(10))
	for name, c := range map[string]struct {
		seen         *observation
		expired      bool
		requeueAfter time.Duration
	}{
		"no TTL":      {ended(metav1.ConditionTrue, time.Hour, nil), false, 0},
		"not expired": {ended(metav1.ConditionTrue, 4*time.Second, ten), false, 6 * time.Second},
		"expired":     {ended(metav1.ConditionTrue, 10*time.Second, ten), true, 0},
		"zero":        {ended(metav1.ConditionTrue, 0, new(int32(0))), true, 0},
		"failed":      {ended(metav1.ConditionFalse, time.Hour, ten), false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if p := decide(c.seen); p.expired != c.expired || p.requeueAfter != c.requeueAfter || p.create != nil {
				t.Errorf("expired is %t, requeueAfter is %s", p.expired, p.requeueAfter)
			}
		})
	}
}

// TestFormatsAgree checks that the API and package format have the same formats.
func TestFormatsAgree(t *testing.T) {
	made := map[string]format.Format{}
	for _, f := range format.Formats() {
		made[f.Name] = f
	}
	for _, f := range sspv1alpha1.Formats() {
		if m := made[f.Name]; m.Kind != f.Kind || m.Resource != f.Resource {
			t.Errorf("%s is %v of %s in package format and %v of %s in the API", f.Name, f.Kind, f.Resource, m.Kind, m.Resource)
		}
		delete(made, f.Name)
	}
	if len(made) > 0 {
		t.Errorf("the API lacks %v", made)
	}
}

// TestHostileMessage checks that no terminal obeys a condition.
func TestHostileMessage(t *testing.T) {
	var status sspv1alpha1.VirtualMachineTemplateRequestStatus
	setCondition(&status, &observation{request: &sspv1alpha1.VirtualMachineTemplateRequest{}}, metav1.Condition{Type: sspv1alpha1.ConditionReady, Message: "cannot write \x1b[2J"})
	if got := status.Conditions[0].Message; got != `cannot write \u001b[2J` {
		t.Errorf("got %q", got)
	}
}
