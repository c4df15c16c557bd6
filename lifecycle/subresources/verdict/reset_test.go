package verdict

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

func TestResets(t *testing.T) {
	const (
		same    = `[{"op":"test","path":"/metadata/uid","value":"vmi-1"},{"op":"test","path":"/metadata/resourceVersion","value":"7"},`
		written = `{"op":"add","path":"/metadata/annotations/virtwright.dev~1power-request","value":"{\"id\":\"one\",\"action\":\"%s\",\"at\":\"1970-01-01T00:00:01Z\"}"}]`
		none    = `{"op":"add","path":"/metadata/annotations","value":{"virtwright.dev/power-request":"{\"id\":\"one\",\"action\":\"%s\",\"at\":\"1970-01-01T00:00:01Z\"}"}}]`
	)
	refused := func(why string) string {
		return `Operation cannot be fulfilled on virtualmachineinstance.kubevirt.io "web": ` + why
	}
	is := func(condition kubevirtv1.VirtualMachineInstanceConditionType) func(*kubevirtv1.VirtualMachineInstance) {
		return func(vmi *kubevirtv1.VirtualMachineInstance) {
			vmi.Status.Conditions = append(vmi.Status.Conditions, kubevirtv1.VirtualMachineInstanceCondition{Type: condition, Status: "True"})
		}
	}
	acpi := func(on bool) func(*kubevirtv1.VirtualMachineInstance) {
		return func(vmi *kubevirtv1.VirtualMachineInstance) {
			vmi.Spec.Domain.Features = &kubevirtv1.Features{ACPI: kubevirtv1.FeatureState{Enabled: &on}}
		}
	}
	const neither = "VMI neither have the agent connected nor the ACPI feature enabled"
	for name, test := range map[string]struct {
		change      []func(*kubevirtv1.VirtualMachineInstance)
		reset, soft string // "" for accepted
		patch       string
	}{
		"it runs": {patch: written},
		"it has no annotations": {
			change: []func(*kubevirtv1.VirtualMachineInstance){func(vmi *kubevirtv1.VirtualMachineInstance) { vmi.Annotations = nil }}, patch: none},
		"an earlier request": {
			change: []func(*kubevirtv1.VirtualMachineInstance){func(vmi *kubevirtv1.VirtualMachineInstance) {
				vmi.Annotations["virtwright.dev/power-request"] = `{"id": "zero", "action": "reset"}`
			}}, patch: written},
		"it is not running yet": {
			change: []func(*kubevirtv1.VirtualMachineInstance){func(vmi *kubevirtv1.VirtualMachineInstance) { vmi.Status.Phase = kubevirtv1.Scheduled }},
			reset:  "VMI is not running", soft: "VMI is not running"},
		"it has ended": {
			change: []func(*kubevirtv1.VirtualMachineInstance){func(vmi *kubevirtv1.VirtualMachineInstance) { vmi.Status.Phase = kubevirtv1.Succeeded }},
			reset:  "VMI is not running", soft: "VMI is not running"},
		"nobody runs it": {
			change: []func(*kubevirtv1.VirtualMachineInstance){func(vmi *kubevirtv1.VirtualMachineInstance) { vmi.Status.NodeName = "" }},
			reset:  "no node agent runs the VMI, which could do it: status.nodeName is empty",
			soft:   "no node agent runs the VMI, which could do it: status.nodeName is empty"},
		"it goes": {
			change: []func(*kubevirtv1.VirtualMachineInstance){func(vmi *kubevirtv1.VirtualMachineInstance) {
				vmi.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
			}}, reset: "VMI is being deleted", soft: "VMI is being deleted"},
		"it is paused":      {change: []func(*kubevirtv1.VirtualMachineInstance){is(kubevirtv1.VirtualMachineInstancePaused)}, soft: "VMI is paused", patch: written},
		"it has no ACPI":    {change: []func(*kubevirtv1.VirtualMachineInstance){acpi(false)}, soft: neither, patch: written},
		"it has ACPI":       {change: []func(*kubevirtv1.VirtualMachineInstance){acpi(true)}, patch: written},
		"its agent answers": {change: []func(*kubevirtv1.VirtualMachineInstance){acpi(false), is(kubevirtv1.VirtualMachineInstanceAgentConnected)}, patch: written},
	} {
		t.Run(name, func(t *testing.T) {
			vmi := &kubevirtv1.VirtualMachineInstance{
				ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "vmi-1", ResourceVersion: "7", Annotations: map[string]string{"a": "b"}},
				Status:     kubevirtv1.VirtualMachineInstanceStatus{Phase: kubevirtv1.Running, NodeName: "one"},
			}
			for _, change := range test.change {
				change(vmi)
			}
			for action, why := range map[string]string{"reset": test.reset, "softreboot": test.soft} {
				decide := map[string]func(*kubevirtv1.VirtualMachineInstance, string, time.Time) (*Changes, error){"reset": Reset, "softreboot": SoftReboot}[action]
				changes, err := decide(vmi, "one", time.Unix(1, 0))
				if why != "" {
					if !apierrors.IsConflict(err) || err.Error() != refused(why) {
						t.Errorf("%s: got %v, want %s", action, err, why)
					}
					continue
				}
				if err != nil {
					t.Errorf("%s: %v", action, err)
					continue
				}
				got, _ := json.Marshal(changes.Instance)
				if want := same + strings.Replace(test.patch, "%s", action, 1); string(got) != want || changes.Machine != nil || changes.Status != nil {
					t.Errorf("%s: got %s, want %s", action, got, want)
				}
			}
		})
	}
}
