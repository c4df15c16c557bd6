package decide

import (
	"encoding/json"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/api/v1alpha1"
)

// guestOf returns a running VMI with changes.
func guestOf(changes ...func(*kubevirtv1.VirtualMachineInstance)) *kubevirtv1.VirtualMachineInstance {
	vmi := &kubevirtv1.VirtualMachineInstance{
		ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "vmi-1", ResourceVersion: "7"},
		Status:     kubevirtv1.VirtualMachineInstanceStatus{Phase: kubevirtv1.Running, ActivePods: map[types.UID]string{"pod-1": "one"}},
	}
	for _, change := range changes {
		change(vmi)
	}
	return vmi
}

func has(conditions ...kubevirtv1.VirtualMachineInstanceConditionType) func(*kubevirtv1.VirtualMachineInstance) {
	return func(vmi *kubevirtv1.VirtualMachineInstance) {
		for _, c := range conditions {
			vmi.Status.Conditions = append(vmi.Status.Conditions, kubevirtv1.VirtualMachineInstanceCondition{Type: c, Status: "True"})
		}
	}
}

func in(phase kubevirtv1.VirtualMachineInstancePhase) func(*kubevirtv1.VirtualMachineInstance) {
	return func(vmi *kubevirtv1.VirtualMachineInstance) { vmi.Status.Phase = phase }
}

func acpi(on bool) func(*kubevirtv1.VirtualMachineInstance) {
	return func(vmi *kubevirtv1.VirtualMachineInstance) {
		vmi.Spec.Domain.Features = &kubevirtv1.Features{ACPI: kubevirtv1.FeatureState{Enabled: &on}}
	}
}

func TestCheckGuest(t *testing.T) {
	const (
		away     = "VMI is not running"
		neither  = "VMI neither have the agent connected nor the ACPI feature enabled"
		leaves   = "VMI is being deleted"
		liveness = "Pausing VMIs with LivenessProbe is currently not supported"
	)
	type says = map[v1alpha1.LauncherAction]string
	all := func(text string) says {
		return says{"pause": text, "unpause": text, "reset": text, "softreboot": text, "console": text, "vnc": text}
	}
	deleted := func(vmi *kubevirtv1.VirtualMachineInstance) {
		vmi.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	}
	probed := func(vmi *kubevirtv1.VirtualMachineInstance) { vmi.Spec.LivenessProbe = &kubevirtv1.Probe{} }
	bare := func(vmi *kubevirtv1.VirtualMachineInstance) {
		vmi.Spec.Domain.Devices.AutoattachSerialConsole, vmi.Spec.Domain.Devices.AutoattachGraphicsDevice = new(false), new(false)
	}
	for name, test := range map[string]struct {
		vmi *kubevirtv1.VirtualMachineInstance
		// want are rejections; dry those of a dry run, if they differ.
		want, dry says
	}{
		"it runs":         {guestOf(), nil, says{"unpause": "VMI is not paused"}},
		"it is paused":    {guestOf(has("Ready", "Paused")), nil, says{"pause": "VMI is already paused", "softreboot": "VMI is paused"}},
		"it starts":       {guestOf(in(kubevirtv1.Scheduled)), all(away), nil},
		"it has ended":    {guestOf(in(kubevirtv1.Succeeded)), all(away), nil},
		"it failed":       {guestOf(in(kubevirtv1.Failed)), says{"pause": away, "unpause": away, "reset": away, "softreboot": away, "vnc": away, "console": "VMI is in failed status"}, nil},
		"it goes":         {guestOf(deleted), says{"pause": leaves, "unpause": leaves, "reset": leaves, "softreboot": leaves}, nil},
		"it is probed":    {guestOf(probed), says{"pause": liveness}, says{"pause": liveness, "unpause": "VMI is not paused"}},
		"it has no ACPI":  {guestOf(acpi(false)), says{"softreboot": neither}, says{"softreboot": neither, "unpause": "VMI is not paused"}},
		"it has ACPI":     {guestOf(acpi(true), has("Paused")), nil, says{"pause": "VMI is already paused", "softreboot": "VMI is paused"}},
		"its agent works": {guestOf(acpi(false), has("AgentConnected")), nil, says{"unpause": "VMI is not paused"}},
		"it has no devices": {guestOf(bare), says{"console": "No serial consoles are present.", "vnc": "No graphics devices are present."},
			says{"console": "No serial consoles are present.", "vnc": "No graphics devices are present.", "unpause": "VMI is not paused"}},
	} {
		t.Run(name, func(t *testing.T) {
			if test.dry == nil {
				test.dry = test.want
			}
			for action := range all("") {
				for dry, want := range map[bool]string{false: test.want[action], true: test.dry[action]} {
					device := action == v1alpha1.LauncherConsole || action == v1alpha1.LauncherVNC
					text, code := "", func(err error) bool { return err == nil }
					switch {
					case want == "":
					case want == liveness:
						text, code = `virtualmachineinstance.kubevirt.io "web" is forbidden: `+want, apierrors.IsForbidden
					case device && want != "VMI is in failed status":
						text, code = want, apierrors.IsBadRequest
					default:
						text, code = `Operation cannot be fulfilled on virtualmachineinstance.kubevirt.io "web": `+want, apierrors.IsConflict
					}
					err := CheckGuest(test.vmi, action, dry)
					if !code(err) || err != nil && err.Error() != text {
						t.Errorf("%s, dry %t: got %v, want %q", action, dry, err, text)
					}
				}
			}
		})
	}
}

func TestCheckPod(t *testing.T) {
	vmi := guestOf()
	owned := metav1.ObjectMeta{Name: "virt-launcher-web", UID: "pod-1", OwnerReferences: []metav1.OwnerReference{
		*metav1.NewControllerRef(vmi, kubevirtv1.VirtualMachineInstanceGroupVersionKind),
	}}
	other := *owned.DeepCopy()
	other.UID = "pod-2"
	free := *owned.DeepCopy()
	free.OwnerReferences[0].Controller = nil
	earlier := *owned.DeepCopy()
	earlier.OwnerReferences[0].UID = "vmi-0"
	for name, test := range map[string]struct {
		meta  metav1.ObjectMeta
		phase corev1.PodPhase
		want  string
	}{
		"it runs the VMI":        {owned, corev1.PodRunning, ""},
		"it has ended":           {owned, corev1.PodFailed, "VMI is not running"},
		"the status names none":  {other, corev1.PodRunning, "pod virt-launcher-web does not run this VMI"},
		"nothing controls it":    {free, corev1.PodRunning, "pod virt-launcher-web does not run this VMI"},
		"an earlier VMI does":    {earlier, corev1.PodRunning, "pod virt-launcher-web does not run this VMI"},
		"there is no pod at all": {metav1.ObjectMeta{Name: "virt-launcher-web"}, "", "pod virt-launcher-web does not run this VMI"},
	} {
		err := CheckPod(vmi, &corev1.Pod{ObjectMeta: test.meta, Status: corev1.PodStatus{Phase: test.phase}})
		if test.want == "" && err != nil || test.want != "" && (!apierrors.IsConflict(err) || err.Error() != `Operation cannot be fulfilled on virtualmachineinstance.kubevirt.io "web": `+test.want) {
			t.Errorf("%s: got %v, want %q", name, err, test.want)
		}
	}
}

func TestSetPaused(t *testing.T) {
	const (
		same      = `[{"op":"test","path":"/metadata/uid","value":"vmi-1"},{"op":"test","path":"/metadata/resourceVersion","value":"7"},`
		condition = `{"lastTransitionTime":"1970-01-01T00:00:01Z","message":"VMI was paused by user","reason":"PausedByUser","status":"True","type":"Paused"}`
	)
	for name, test := range map[string]struct {
		vmi    *kubevirtv1.VirtualMachineInstance
		paused bool
		want   string
	}{
		"the first condition":  {guestOf(), true, same + `{"op":"add","path":"/status/conditions","value":[` + condition + `]}]`},
		"another condition":    {guestOf(has("Ready")), true, same + `{"op":"add","path":"/status/conditions/-","value":` + condition + `}]`},
		"it is known":          {guestOf(has("Paused")), true, "null"},
		"it goes on":           {guestOf(has("Ready", "Paused", "LiveMigratable")), false, same + `{"op":"remove","path":"/status/conditions/1","value":null}]`},
		"it is known to go on": {guestOf(has("Ready")), false, "null"},
	} {
		changes := SetPaused(test.vmi, test.paused, time.Unix(1, 0).UTC())
		got, err := json.Marshal(changes.VMI)
		if err != nil || string(got) != test.want {
			t.Errorf("%s: got %s, want %s", name, got, test.want)
		}
	}
}
