package node

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// instance is a VMI that runs on the first node, with changes.
func instance(changes ...func(*kubevirtv1.VirtualMachineInstance)) *kubevirtv1.VirtualMachineInstance {
	v := &kubevirtv1.VirtualMachineInstance{}
	v.Name, v.Labels, v.Annotations = "web", map[string]string{kubevirtv1.NodeNameLabel: first}, map[string]string{}
	v.Status.Phase, v.Status.NodeName = kubevirtv1.Running, first
	for _, change := range changes {
		change(v)
	}
	return v
}

func phase(p kubevirtv1.VirtualMachineInstancePhase) func(*kubevirtv1.VirtualMachineInstance) {
	return func(v *kubevirtv1.VirtualMachineInstance) { v.Status.Phase = p }
}

func guest(behaviour string) func(*kubevirtv1.VirtualMachineInstance) {
	return func(v *kubevirtv1.VirtualMachineInstance) { v.Annotations[Guest] = behaviour }
}

func migration(state kubevirtv1.VirtualMachineInstanceMigrationState) func(*kubevirtv1.VirtualMachineInstance) {
	state.SourceNode, state.SourcePod, state.TargetNode, state.TargetPod = first, "source", second, "target"
	return func(v *kubevirtv1.VirtualMachineInstance) { v.Status.MigrationState = &state }
}

// plugged is a hotplug volume in a phase, which the spec has or does not have any more.
func plugged(p kubevirtv1.VolumePhase, inSpec bool) func(*kubevirtv1.VirtualMachineInstance) {
	return func(v *kubevirtv1.VirtualMachineInstance) {
		v.Status.VolumeStatus = []kubevirtv1.VolumeStatus{{Name: "extra", Phase: p, HotplugVolume: &kubevirtv1.HotplugVolumeStatus{AttachPodUID: "uid"}}}
		if inSpec {
			v.Spec.Volumes = []kubevirtv1.Volume{{Name: "extra"}}
		}
	}
}

func TestDecideInstance(t *testing.T) {
	now := metav1.Now()
	phaseOf := func(v *kubevirtv1.VirtualMachineInstance) any { return v.Status.Phase }
	paused := func(v *kubevirtv1.VirtualMachineInstance) any {
		return slices.ContainsFunc(v.Status.Conditions, func(c kubevirtv1.VirtualMachineInstanceCondition) bool {
			return c.Type == kubevirtv1.VirtualMachineInstancePaused
		})
	}
	volume := func(v *kubevirtv1.VirtualMachineInstance) any { return v.Status.VolumeStatus[0].Phase }
	migrates := func(v *kubevirtv1.VirtualMachineInstance) any {
		m := v.Status.MigrationState
		return []any{m.TargetNodeAddress != "", m.StartTimestamp != nil, m.Completed, m.Failed, v.Status.NodeName, v.Labels[kubevirtv1.NodeNameLabel]}
	}
	prepared := kubevirtv1.VirtualMachineInstanceMigrationState{TargetNodeAddress: address}
	started := kubevirtv1.VirtualMachineInstanceMigrationState{TargetNodeAddress: address, StartTimestamp: &now}
	for name, c := range map[string]struct {
		vmi       *kubevirtv1.VirtualMachineInstance
		migration kubevirtv1.VirtualMachineInstanceMigrationPhase
		of        func(*kubevirtv1.VirtualMachineInstance) any
		want      any // nil: nothing is written
	}{
		"a scheduled guest boots": {vmi: instance(phase(kubevirtv1.Scheduled)), of: phaseOf, want: kubevirtv1.Running},
		"a guest boots unpaused":  {vmi: instance(phase(kubevirtv1.Scheduled)), of: paused, want: false},
		"a guest boots paused": {vmi: instance(phase(kubevirtv1.Scheduled), func(v *kubevirtv1.VirtualMachineInstance) {
			v.Spec.StartStrategy = new(kubevirtv1.StartStrategyPaused)
		}), of: paused, want: true},
		"a guest that hangs does not":      {vmi: instance(phase(kubevirtv1.Scheduled), guest(Hang))},
		"a VMI without a node is left":     {vmi: instance(phase(kubevirtv1.Scheduling))},
		"a running guest runs on":          {vmi: instance()},
		"a guest shuts down":               {vmi: instance(guest(Shutdown)), of: phaseOf, want: kubevirtv1.Succeeded},
		"a guest crashes":                  {vmi: instance(guest(Crash)), of: phaseOf, want: kubevirtv1.Failed},
		"a deleted VMI ends well":          {vmi: instance(func(v *kubevirtv1.VirtualMachineInstance) { v.DeletionTimestamp = &now }), of: phaseOf, want: kubevirtv1.Succeeded},
		"a final VMI is left":              {vmi: instance(phase(kubevirtv1.Failed), guest(Shutdown))},
		"a volume is attached":             {vmi: instance(plugged(kubevirtv1.HotplugVolumeAttachedToNode, true)), of: volume, want: kubevirtv1.VolumeReady},
		"a volume stays attached":          {vmi: instance(plugged(kubevirtv1.VolumeReady, true))},
		"a volume is detached":             {vmi: instance(plugged(kubevirtv1.VolumeReady, false)), of: volume, want: kubevirtv1.HotplugVolumeUnMounted},
		"the target prepares":              {vmi: instance(migration(kubevirtv1.VirtualMachineInstanceMigrationState{})), of: migrates, want: []any{true, false, false, false, first, first}},
		"the source waits for the target":  {vmi: instance(migration(prepared)), migration: kubevirtv1.MigrationPreparingTarget},
		"the source starts":                {vmi: instance(migration(prepared)), migration: kubevirtv1.MigrationTargetReady, of: migrates, want: []any{true, true, false, false, first, first}},
		"the guest moves":                  {vmi: instance(migration(started)), migration: kubevirtv1.MigrationRunning, of: migrates, want: []any{true, true, true, false, second, second}},
		"a migration is cancelled":         {vmi: instance(migration(started), func(v *kubevirtv1.VirtualMachineInstance) { v.Status.MigrationState.AbortRequested = true }), of: migrates, want: []any{true, true, true, true, first, first}},
		"a guest that hangs does not move": {vmi: instance(migration(started), guest(Hang)), migration: kubevirtv1.MigrationRunning},
	} {
		t.Run(name, func(t *testing.T) {
			var got any
			if plan := decideInstance(instanceObservation{vmi: c.vmi, migration: c.migration, now: now}); plan.vmi != nil {
				if c.of == nil {
					t.Fatalf("the VMI is written: %s", cmp.Diff(c.vmi, plan.vmi))
				}
				got = c.of(plan.vmi)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestLaunchersEndWithTheirGuest(t *testing.T) {
	pods := []corev1.Pod{*pod("source", in(corev1.PodRunning)), *pod("target", in(corev1.PodRunning)), *pod("next", in(corev1.PodRunning))}
	moved := kubevirtv1.VirtualMachineInstanceMigrationState{Completed: true}
	failed := kubevirtv1.VirtualMachineInstanceMigrationState{Completed: true, Failed: true}
	for name, c := range map[string]struct {
		vmi  *kubevirtv1.VirtualMachineInstance
		want []string
	}{
		"a guest that runs":                  {vmi: instance()},
		"a guest that migrates":              {vmi: instance(migration(kubevirtv1.VirtualMachineInstanceMigrationState{}))},
		"a guest that ended":                 {vmi: instance(phase(kubevirtv1.Succeeded)), want: []string{"source", "target", "next"}},
		"a guest that moved":                 {vmi: instance(migration(moved)), want: []string{"source"}},
		"a guest whose migration has failed": {vmi: instance(migration(failed)), want: []string{"target"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, p := range decideInstance(instanceObservation{vmi: c.vmi, pods: pods}).ended {
				got = append(got, p.Name)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
