package templates

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	sspv1alpha1 "github.com/virtwright/virtwright/api/ssp/v1alpha1"
	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/lifecycle/partialobject"
)

func vmWithAnnotation(name string, uid types.UID, value, stamp string) *partialobject.VirtualMachine {
	vm := &partialobject.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: uid, Annotations: map[string]string{}}}
	if value != "" {
		vm.Annotations[v1alpha1.AnnotationGenerateTemplate] = value
	}
	if stamp != "" {
		vm.Annotations[v1alpha1.AnnotationTemplateRequester] = stamp
	}
	return vm
}

func TestTriggerRequests(t *testing.T) {
	stamp := func(vmUID string) string {
		return sspv1alpha1.RequesterRecord{Requester: sspv1alpha1.Requester{Username: "jane", Groups: []string{"g"}}, VMUID: vmUID, Value: "golden"}.String()
	}
	trigger := &Trigger{Excluded: []string{"kube-system"}, Formats: sspv1alpha1.FormatNames()}
	for name, c := range map[string]struct {
		vm             *partialobject.VirtualMachine
		requests, errs bool
	}{
		"stamped":               {vmWithAnnotation("web", "u1", "golden", stamp("u1")), true, false},
		"stamped on creation":   {vmWithAnnotation("web", "u1", "golden", stamp("")), true, false},
		"copied with its stamp": {vmWithAnnotation("web", "u2", "golden", stamp("u1")), false, false},
		"not stamped":           {vmWithAnnotation("web", "u1", "golden", ""), false, false},
		"not annotated":         {vmWithAnnotation("web", "u1", "", stamp("u1")), false, false},
		"invalid stamp":         {vmWithAnnotation("web", "u1", "golden", "x"), false, true},
		"for another value":     {vmWithAnnotation("web", "u1", "silver", stamp("u1")), false, false},
		"excluded namespace": {func() *partialobject.VirtualMachine {
			vm := vmWithAnnotation("web", "u1", "golden", stamp("u1"))
			vm.Namespace = "kube-system"
			return vm
		}(), false, true},
		"empty stamp": {vmWithAnnotation("web", "u1", "golden", "{}"), false, true},
	} {
		t.Run(name, func(t *testing.T) {
			request, err := trigger.request(c.vm)
			if (err != nil) != c.errs || (request != nil) != c.requests {
				t.Fatalf("got %v, %v", request, err)
			}
			if request == nil {
				return
			}
			if request.Spec.Requester.Username != "jane" || request.Spec.Source.VMUID != "u1" || request.Spec.TemplateName != "golden" || request.Spec.Target != (sspv1alpha1.VirtualMachineTemplateRequestTarget{}) ||
				request.Spec.TTLSecondsAfterFinished != nil || request.OwnerReferences[0].UID != "u1" {
				t.Errorf("got %+v", request)
			}
		})
	}
}

// TestRequestNames checks that names are valid, and that only the VM and the value determine them.
func TestRequestNames(t *testing.T) {
	one := requestName("web", triggerOf("u1", "golden"))
	if one != requestName("web", triggerOf("u1", "golden")) {
		t.Error("the same trigger gives another name")
	}
	for _, other := range []string{triggerOf("u2", "golden"), triggerOf("u1", "silver"), triggerOf("u", "1golden")} {
		if requestName("web", other) == one {
			t.Error("another trigger gives the same name")
		}
	}
	for _, vm := range []string{"a", strings.Repeat("a", 253), strings.Repeat("a", 235) + "." + strings.Repeat("b", 17)} {
		if problems := validation.IsDNS1123Subdomain(requestName(vm, triggerOf("u1", "x"))); len(problems) > 0 {
			t.Errorf("%s: %v", vm, problems)
		}
	}
}
