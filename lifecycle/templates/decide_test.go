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
	"github.com/virtwright/virtwright/lifecycle/templates/blueprint"
	"github.com/virtwright/virtwright/lifecycle/templates/format"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// aSight is of a request made a minute ago, for a VM that is there.
func aSight(change ...func(*sight)) *sight {
	form, _ := sspv1alpha1.FormatNamed(sspv1alpha1.FormatOpenShiftTemplate)
	s := &sight{
		now: noon, format: form, maker: makerOf(form.Name), name: "golden",
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

func standing(status *sspv1alpha1.VirtualMachineTemplateRequestStatus) string {
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

// broken is a maker with a defect.
type broken struct {
	maker
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
	return b.maker.Encode(of, meta)
}

func (b broken) Verify(template *unstructured.Unstructured, of *blueprint.Blueprint) error {
	if b.how == "verify" {
		return errors.New("spec.template.spec.x differs")
	}
	return b.maker.Verify(template, of)
}

func breaks(how string) func(*sight) {
	return func(s *sight) { s.maker = broken{s.maker, how} }
}

// ours is what decide made of a sight, as if it had been created.
func ours(s *sight) {
	p := decide(s)
	s.existing, s.request.Status = p.create, p.status
	s.source = nil
}

// cleared removes the status of a request whose template exists. The VM exists as it was.
func cleared(s *sight) {
	source := s.source
	ours(s)
	s.source, s.request.Status = source, sspv1alpha1.VirtualMachineTemplateRequestStatus{}
}

// forged is an object that a user created, with the request's label.
func forged(s *sight) {
	s.existing = &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "template.openshift.io/v1", "kind": "Template",
		"metadata": map[string]any{"name": "golden", "namespace": "shop", "uid": "forged", "labels": map[string]any{v1alpha1.LabelTemplateRequest: "r1"}},
		"objects":  []any{map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "planted"}}},
	}}
}

func TestDecide(t *testing.T) {
	for name, c := range map[string]struct {
		reason string
		seen   *sight
		want   string
		ends   bool
		makes  bool
	}{
		"all is there":      {"it is made", aSight(), "False/Reconciling True True/RoundTrip", false, true},
		"no requester":      {"failing closed", aSight(func(s *sight) { s.request.Spec.Requester = nil }), "False/Unauthorized False -", true, false},
		"no known form":     {"a newer request, perhaps", aSight(func(s *sight) { s.maker, s.format = nil, sspv1alpha1.Format{} }), "False/SourceInvalid False -", true, false},
		"a form not wanted": {"flags may change", aSight(func(s *sight) { s.disabled = true }), "False/FormatUnavailable True -", false, false},
		"refused": {"rights may come", aSight(func(s *sight) {
			s.refused = []sspv1alpha1.Need{{What: authorizationv1.ResourceAttributes{Verb: "get"}}}
		}), "False/Unauthorized True -", false, false},
		"refused, all there":  {"rights are asked first", aSight(ours, func(s *sight) { s.refused = []sspv1alpha1.Need{{}} }), "False/Unauthorized True True/RoundTrip", false, false},
		"no answer":           {"it may come", aSight(func(s *sight) { s.mute = errors.New("cannot ask") }), "False/Waiting True -", false, false},
		"not served":          {"it may come", aSight(func(s *sight) { s.lack = "x/v1" }), "False/FormatUnavailable True -", false, false},
		"taken":               {"nothing is overwritten", aSight(func(s *sight) { s.existing = &unstructured.Unstructured{} }), "False/TargetExists False -", true, false},
		"ours":                {"the end of what was interrupted", aSight(ours), "True/Reconciled False True/RoundTrip", true, false},
		"ours, of another":    {"another request's", aSight(ours, func(s *sight) { s.request.UID = "r2" }), "False/TargetExists False True/RoundTrip", true, false},
		"ours, changed":       {"somebody else's now", aSight(ours, func(s *sight) { s.existing.Object["message"] = "x" }), "False/TargetExists False True/RoundTrip", true, false},
		"ours, no status":     {"its content is what would be made", aSight(cleared), "True/Reconciled False True/RoundTrip", true, false},
		"a forged label":      {"users can write labels", aSight(forged), "False/TargetExists False -", true, false},
		"forged, no VM":       {"nothing proves it", aSight(forged, func(s *sight) { s.source = nil }), "False/TargetExists False -", true, false},
		"forged, a panic":     {"nothing proves it", aSight(forged, breaks("panic")), "False/TargetExists False -", true, false},
		"no VM":               {"it may come", aSight(func(s *sight) { s.source = nil }), "False/SourceNotFound True -", false, false},
		"the VM has gone":     {"it was there", aSight(func(s *sight) { s.source, s.request.Status.SourceUID = nil, "vm1" }), "False/SourceChanged False -", true, false},
		"another VM":          {"not the one that was meant", aSight(func(s *sight) { s.request.Spec.Source.VMUID = "vm2" }), "False/SourceChanged False -", true, false},
		"another VM by now":   {"not the one that was seen", aSight(func(s *sight) { s.request.Status.SourceUID = "vm2" }), "False/SourceChanged False -", true, false},
		"a VM that goes":      {"nothing to keep", aSight(func(s *sight) { s.source.SetDeletionTimestamp(&metav1.Time{Time: noon}) }), "False/SourceInvalid False -", true, false},
		"a VM without a spec": {"nothing can be made", aSight(func(s *sight) { delete(s.source.Object, "spec") }), "False/SourceInvalid False -", true, false},
		"cannot be encoded":   {"nothing can be made", aSight(breaks("encode")), "False/SourceInvalid False -", true, false},
		"too large":           {"it could not be stored", aSight(breaks("large")), "False/TemplateTooLarge False -", true, false},
		"too many values": {"it could not be stored", aSight(func(s *sight) {
			many := map[string]any{}
			for i := range 20_000 {
				many[fmt.Sprint("k", i)] = "v"
			}
			s.source.Object["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)["nodeSelector"] = many
		}), "False/TemplateTooLarge False -", true, false},
		"does not come back": {"what is wrong is not published", aSight(breaks("verify")), "False/VerificationFailed False False/VerificationFailed", true, false},
		"a panic":            {"it is our defect", aSight(breaks("panic")), "False/SourceInvalid False -", true, false},
	} {
		t.Run(name, func(t *testing.T) {
			before := c.seen.request.DeepCopy()
			p := decide(c.seen)
			if got := standing(&p.status); got != c.want {
				t.Errorf("%s: got %q, want %q", c.reason, got, c.want)
			}
			if (p.create != nil) != c.makes {
				t.Errorf("%s: it makes %v", c.reason, p.create)
			}
			if goes := p.after > 0; goes == (c.ends || c.makes) {
				t.Errorf("%s: the next look is after %s", c.reason, p.after)
			}
			if finished(&p.status) != c.ends {
				t.Errorf("%s: finished is %t", c.reason, finished(&p.status))
			}
			for _, condition := range p.status.Conditions {
				if strings.Contains(condition.Message, "hunter2") {
					t.Errorf("a condition has a secret: %s", condition.Message)
				}
			}
			if p.panicked != nil && strings.Contains(p.panicked.Error(), "hunter2") {
				t.Error("the log has a secret")
			}
			if c.seen.request.Status.ObservedGeneration != before.Status.ObservedGeneration || len(c.seen.request.Status.Conditions) != len(before.Status.Conditions) {
				t.Error("the request has changed")
			}
		})
	}
}

// TestDecideAdopts checks that a request without a status adopts only the template that it would make.
func TestDecideAdopts(t *testing.T) {
	p := decide(aSight(cleared))
	if p.status.TemplateRef == nil || p.status.TemplateHash == "" || p.status.SourceUID != "vm1" || p.status.ParameterCount != 3 || p.create != nil {
		t.Errorf("status is %+v", p.status)
	}
	const rest = "; it stays as it is: use another name, or delete it and create a new request"
	for want, seen := range map[string]*sight{
		"was not made for this request":               aSight(ours, func(s *sight) { s.request.UID = "r2" }),
		"was made for this request and changed since": aSight(ours, func(s *sight) { s.existing.Object["message"] = "x" }),
		"has the label of this request, but its content differs from the template that this request makes": aSight(forged),
		"has the label of this request, but virtwright cannot verify its content: there is no VirtualMachine web in namespace shop": aSight(cleared,
			func(s *sight) { s.source = nil }),
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

// What is made says where it comes from, and what it withholds.
func TestDecideDescribes(t *testing.T) {
	s := aSight(func(s *sight) {
		s.request.Spec.TemplateLabels = map[string]sspv1alpha1.TemplateLabel{"team": "x"}
		s.request.Annotations = map[string]string{v1alpha1.AnnotationTrigger: "t1"}
	})
	p := decide(s)
	if got := p.create.GetLabels(); got["team"] != "x" || got[v1alpha1.LabelTemplateRequest] != "r1" {
		t.Errorf("labels are %v", got)
	}
	if got := p.create.GetAnnotations(); got[v1alpha1.AnnotationSourceVM] != "shop/web" || got[v1alpha1.AnnotationSourceUID] != "vm1" || got[v1alpha1.AnnotationTrigger] != "t1" {
		t.Errorf("annotations are %v", got)
	}
	if p.status.SourceUID != types.UID("vm1") || p.status.TemplateHash == "" || p.status.ParameterCount != 3 || len(p.status.WithheldParameters) != 1 {
		t.Errorf("status is %+v", p.status)
	}
	if got := standing(&p.done); got != "True/Reconciled False True/RoundTrip" || p.done.CompletionTime == nil || p.status.CompletionTime != nil {
		t.Errorf("once it is made, status is %s", got)
	}
}

// A request that came to something goes when its time is up, and no other does.
func TestTimeToLive(t *testing.T) {
	ended := func(ready metav1.ConditionStatus, ago time.Duration, ttl *int32) *sight {
		return aSight(func(s *sight) {
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
		seen   *sight
		remove bool
		after  time.Duration
	}{
		"no time":       {ended(metav1.ConditionTrue, time.Hour, nil), false, 0},
		"time is left":  {ended(metav1.ConditionTrue, 4*time.Second, ten), false, 6 * time.Second},
		"time is up":    {ended(metav1.ConditionTrue, 10*time.Second, ten), true, 0},
		"at once":       {ended(metav1.ConditionTrue, 0, new(int32(0))), true, 0},
		"it has failed": {ended(metav1.ConditionFalse, time.Hour, ten), false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if p := decide(c.seen); p.remove != c.remove || p.after != c.after || p.create != nil {
				t.Errorf("remove is %t, after is %s", p.remove, p.after)
			}
		})
	}
}

// Each format that may be asked for has a maker, of the same kind.
func TestFormatsAgree(t *testing.T) {
	made := map[string]format.Format{}
	for _, f := range format.Formats() {
		made[f.Name] = f
	}
	for _, f := range sspv1alpha1.Formats() {
		if m := made[f.Name]; m.Kind != f.Kind || m.Resource != f.Resource {
			t.Errorf("%s is %v of %s here and %v of %s there", f.Name, f.Kind, f.Resource, m.Kind, m.Resource)
		}
		delete(made, f.Name)
	}
	if len(made) > 0 {
		t.Errorf("nobody can ask for %v", made)
	}
}
