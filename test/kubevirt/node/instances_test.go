package node

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
)

// instance is a VMI that runs on the first node, with changes.
func instance(changes ...func(*v1.VirtualMachineInstance)) *v1.VirtualMachineInstance {
	v := &v1.VirtualMachineInstance{}
	v.Name, v.Labels, v.Annotations = "web", map[string]string{v1.NodeNameLabel: first}, map[string]string{}
	v.Status.Phase, v.Status.NodeName = v1.Running, first
	for _, change := range changes {
		change(v)
	}
	return v
}

func phase(p v1.VirtualMachineInstancePhase) func(*v1.VirtualMachineInstance) {
	return func(v *v1.VirtualMachineInstance) { v.Status.Phase = p }
}

func guest(behaviour string) func(*v1.VirtualMachineInstance) {
	return func(v *v1.VirtualMachineInstance) { v.Annotations[Guest] = behaviour }
}

func migration(state v1.VirtualMachineInstanceMigrationState) func(*v1.VirtualMachineInstance) {
	state.SourceNode, state.SourcePod, state.TargetNode, state.TargetPod = first, "source", second, "target"
	return func(v *v1.VirtualMachineInstance) { v.Status.MigrationState = &state }
}

// plugged is a hotplug volume in a phase, which the spec has or does not have any more.
func plugged(p v1.VolumePhase, inSpec bool) func(*v1.VirtualMachineInstance) {
	return func(v *v1.VirtualMachineInstance) {
		v.Status.VolumeStatus = []v1.VolumeStatus{{Name: "extra", Phase: p, HotplugVolume: &v1.HotplugVolumeStatus{AttachPodUID: "uid"}}}
		if inSpec {
			v.Spec.Volumes = []v1.Volume{{Name: "extra"}}
		}
	}
}

func TestDecideInstance(t *testing.T) {
	now := metav1.Now()
	phaseOf := func(v *v1.VirtualMachineInstance) any { return v.Status.Phase }
	volume := func(v *v1.VirtualMachineInstance) any { return v.Status.VolumeStatus[0].Phase }
	migrates := func(v *v1.VirtualMachineInstance) any {
		m := v.Status.MigrationState
		return []any{m.TargetNodeAddress != "", m.StartTimestamp != nil, m.Completed, m.Failed, v.Status.NodeName, v.Labels[v1.NodeNameLabel]}
	}
	prepared := v1.VirtualMachineInstanceMigrationState{TargetNodeAddress: address}
	started := v1.VirtualMachineInstanceMigrationState{TargetNodeAddress: address, StartTimestamp: &now}
	for name, c := range map[string]struct {
		vmi       *v1.VirtualMachineInstance
		migration v1.VirtualMachineInstanceMigrationPhase
		of        func(*v1.VirtualMachineInstance) any
		want      any // nil: nothing is written
	}{
		"a scheduled guest boots":          {vmi: instance(phase(v1.Scheduled)), of: phaseOf, want: v1.Running},
		"a guest that hangs does not":      {vmi: instance(phase(v1.Scheduled), guest(Hang))},
		"a VMI without a node is left":     {vmi: instance(phase(v1.Scheduling))},
		"a running guest runs on":          {vmi: instance()},
		"a guest shuts down":               {vmi: instance(guest(Shutdown)), of: phaseOf, want: v1.Succeeded},
		"a guest crashes":                  {vmi: instance(guest(Crash)), of: phaseOf, want: v1.Failed},
		"a deleted VMI ends well":          {vmi: instance(func(v *v1.VirtualMachineInstance) { v.DeletionTimestamp = &now }), of: phaseOf, want: v1.Succeeded},
		"a final VMI is left":              {vmi: instance(phase(v1.Failed), guest(Shutdown))},
		"a volume is attached":             {vmi: instance(plugged(v1.HotplugVolumeAttachedToNode, true)), of: volume, want: v1.VolumeReady},
		"a volume stays attached":          {vmi: instance(plugged(v1.VolumeReady, true))},
		"a volume is detached":             {vmi: instance(plugged(v1.VolumeReady, false)), of: volume, want: v1.HotplugVolumeUnMounted},
		"the target prepares":              {vmi: instance(migration(v1.VirtualMachineInstanceMigrationState{})), of: migrates, want: []any{true, false, false, false, first, first}},
		"the source waits for the target":  {vmi: instance(migration(prepared)), migration: v1.MigrationPreparingTarget},
		"the source starts":                {vmi: instance(migration(prepared)), migration: v1.MigrationTargetReady, of: migrates, want: []any{true, true, false, false, first, first}},
		"the guest moves":                  {vmi: instance(migration(started)), migration: v1.MigrationRunning, of: migrates, want: []any{true, true, true, false, second, second}},
		"a migration is cancelled":         {vmi: instance(migration(started), func(v *v1.VirtualMachineInstance) { v.Status.MigrationState.AbortRequested = true }), of: migrates, want: []any{true, true, true, true, first, first}},
		"a guest that hangs does not move": {vmi: instance(migration(started), guest(Hang)), migration: v1.MigrationRunning},
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
	moved := v1.VirtualMachineInstanceMigrationState{Completed: true}
	failed := v1.VirtualMachineInstanceMigrationState{Completed: true, Failed: true}
	for name, c := range map[string]struct {
		vmi  *v1.VirtualMachineInstance
		want []string
	}{
		"a guest that runs":                  {vmi: instance()},
		"a guest that migrates":              {vmi: instance(migration(v1.VirtualMachineInstanceMigrationState{}))},
		"a guest that ended":                 {vmi: instance(phase(v1.Succeeded)), want: []string{"source", "target", "next"}},
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
