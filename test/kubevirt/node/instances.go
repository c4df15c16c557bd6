package node

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Guest is an annotation of a VMI that says how its guest behaves.
const Guest = "node.virtwright.dev/guest"

// The values of Guest.
const (
	// Shutdown ends the guest, and Crash ends it with an error.
	Shutdown = "shutdown"
	Crash    = "crash"
	// Hang keeps the guest from starting, and a migration of it from ending.
	Hang = "hang"
)

// instanceObservation is a VMI and what decides about it.
type instanceObservation struct {
	vmi *kubevirtv1.VirtualMachineInstance
	// migration is the phase of the migration that the status of the VMI names.
	migration kubevirtv1.VirtualMachineInstanceMigrationPhase
	pods      []corev1.Pod
	now       metav1.Time
}

// instancePlan is what virt-handler and the launchers of a VMI do next.
type instancePlan struct {
	// vmi is what virt-handler writes; nil if nothing changes.
	vmi *kubevirtv1.VirtualMachineInstance
	// ended are pods whose guest has ended.
	ended []corev1.Pod
}

func (n *Nodes) reconcileInstance(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	o := instanceObservation{vmi: &kubevirtv1.VirtualMachineInstance{}, now: metav1.Now()}
	if err := n.client.Get(ctx, req.NamespacedName, o.vmi); err != nil {
		return reconcile.Result{}, err
	}
	var pods corev1.PodList
	if err := n.client.List(ctx, &pods, client.InNamespace(req.Namespace), client.MatchingLabels{kubevirtv1.CreatedByLabel: string(o.vmi.UID)}); err != nil {
		return reconcile.Result{}, err
	}
	o.pods = pods.Items
	if state := o.vmi.Status.MigrationState; state != nil {
		var migrations kubevirtv1.VirtualMachineInstanceMigrationList
		if err := n.client.List(ctx, &migrations, client.InNamespace(req.Namespace)); err != nil {
			return reconcile.Result{}, err
		}
		for i := range migrations.Items {
			if m := &migrations.Items[i]; m.UID == state.MigrationUID {
				o.migration = m.Status.Phase
			}
		}
	}
	return reconcile.Result{}, n.applyInstance(ctx, o.vmi.Status.NodeName, decideInstance(o))
}

// applyInstance writes as the virt-handler of the VMI's node, which is the source of a migration.
func (n *Nodes) applyInstance(ctx context.Context, node string, plan instancePlan) error {
	for i := range plan.ended {
		pod := &plan.ended[i]
		status := pod.Status.DeepCopy()
		status.Phase, status.Conditions = corev1.PodSucceeded, nil
		if err := n.writePodStatus(ctx, pod, *status); err != nil {
			return err
		}
	}
	if plan.vmi == nil {
		return nil
	}
	ctrl.LoggerFrom(ctx).Info("Writes", "node", node, "phase", plan.vmi.Status.Phase)
	return n.handlers[node].Update(ctx, plan.vmi)
}

// decideInstance is the next step of virt-handler.
func decideInstance(o instanceObservation) instancePlan {
	v := o.vmi.DeepCopy()
	if v.IsFinal() {
		return instancePlan{ended: o.running(func(*corev1.Pod) bool { return true })}
	}
	guest := v.Annotations[Guest]
	if v.Status.NodeName == "" || v.Status.Phase != kubevirtv1.Scheduled && v.Status.Phase != kubevirtv1.Running {
		return instancePlan{}
	}
	switch {
	case guest == Crash:
		v.Status.Phase = kubevirtv1.Failed
	case v.DeletionTimestamp != nil || guest == Shutdown:
		v.Status.Phase = kubevirtv1.Succeeded
	case v.Status.Phase == kubevirtv1.Scheduled && guest != Hang:
		o.boots(v)
	default:
		o.plugs(v)
		o.migrates(v)
	}
	plan := instancePlan{ended: o.running(func(pod *corev1.Pod) bool { return left(o.vmi.Status.MigrationState, pod) })}
	if !equality.Semantic.DeepEqual(o.vmi, v) {
		plan.vmi = v
	}
	return plan
}

// left reports whether a migration has ended and left a pod without a guest.
func left(m *kubevirtv1.VirtualMachineInstanceMigrationState, pod *corev1.Pod) bool {
	switch {
	case m == nil || !m.Completed:
		return false
	case m.Failed:
		return pod.Name == m.TargetPod
	}
	return pod.Name == m.SourcePod
}

// running are the launchers of the VMI that run.
func (o *instanceObservation) running(where func(*corev1.Pod) bool) []corev1.Pod {
	return slices.DeleteFunc(slices.Clone(o.pods), func(pod corev1.Pod) bool {
		return pod.Labels[kubevirtv1.AppLabel] != launcherPod || pod.Status.Phase != corev1.PodRunning || !where(&pod)
	})
}

// boots writes what virt-handler knows of a guest that has started.
func (o *instanceObservation) boots(v *kubevirtv1.VirtualMachineInstance) {
	v.Status.Phase = kubevirtv1.Running
	v.Status.PhaseTransitionTimestamps = append(v.Status.PhaseTransitionTimestamps,
		kubevirtv1.VirtualMachineInstancePhaseTransitionTimestamp{Phase: kubevirtv1.Running, PhaseTransitionTimestamp: o.now})
	if v.Status.Machine == nil && v.Spec.Domain.Machine != nil {
		v.Status.Machine = &kubevirtv1.Machine{Type: "pc-q35-rhel9.6.0"}
	}
	for _, condition := range []kubevirtv1.VirtualMachineInstanceConditionType{
		kubevirtv1.VirtualMachineInstanceIsMigratable, kubevirtv1.VirtualMachineInstanceIsStorageLiveMigratable, kubevirtv1.VirtualMachineInstanceAgentConnected,
	} {
		o.setCondition(v, condition)
	}
	if start := v.Spec.StartStrategy; start != nil && *start == kubevirtv1.StartStrategyPaused {
		o.setCondition(v, kubevirtv1.VirtualMachineInstancePaused)
	}
	v.Status.SelinuxContext = "none" // without one, no migration starts
	v.Status.MigrationMethod = kubevirtv1.BlockMigration
	v.Status.GuestOSInfo = kubevirtv1.VirtualMachineInstanceGuestOSInfo{Name: "Simulated", ID: "simulated"}
	hardware(v)
}

// hardware writes the CPUs and the memory that the guest has. Changes need a migration.
func hardware(v *kubevirtv1.VirtualMachineInstance) {
	if cpu := v.Spec.Domain.CPU; cpu != nil {
		v.Status.CurrentCPUTopology = &kubevirtv1.CPUTopology{Cores: max(cpu.Cores, 1), Sockets: max(cpu.Sockets, 1), Threads: max(cpu.Threads, 1)}
	}
	if memory := v.Spec.Domain.Memory; memory != nil && memory.Guest != nil {
		if v.Status.Memory == nil {
			v.Status.Memory = &kubevirtv1.MemoryStatus{GuestAtBoot: memory.Guest}
		}
		v.Status.Memory.GuestCurrent, v.Status.Memory.GuestRequested = memory.Guest, memory.Guest
	}
}

// plugs attaches and detaches volumes.
func (o *instanceObservation) plugs(v *kubevirtv1.VirtualMachineInstance) {
	for i := range v.Status.VolumeStatus {
		status := &v.Status.VolumeStatus[i]
		wanted := slices.ContainsFunc(v.Spec.Volumes, func(volume kubevirtv1.Volume) bool { return volume.Name == status.Name })
		switch {
		case status.HotplugVolume == nil:
		case wanted && status.Phase == kubevirtv1.HotplugVolumeAttachedToNode && status.HotplugVolume.AttachPodUID != "":
			status.Phase, status.Reason, status.Message = kubevirtv1.VolumeReady, "VolumeReady", "the volume is attached to the guest"
			status.Target = "sd" + string(rune('a'+i))
		case !wanted && (status.Phase == kubevirtv1.VolumeReady || status.Phase == kubevirtv1.HotplugVolumeMounted || status.Phase == kubevirtv1.HotplugVolumeAttachedToNode):
			status.Phase, status.Reason, status.Message = kubevirtv1.HotplugVolumeUnMounted, "VolumeUnMountedFromPod", "the volume is unmounted from the pod"
			status.Target = ""
		}
	}
}

// migrates takes a migration one step further.
func (o *instanceObservation) migrates(v *kubevirtv1.VirtualMachineInstance) {
	m := v.Status.MigrationState
	if m == nil || m.Completed || m.TargetNode == "" {
		return
	}
	switch {
	case m.AbortRequested:
		m.AbortStatus, m.Failed, m.Completed, m.EndTimestamp = kubevirtv1.MigrationAbortSucceeded, true, true, &o.now
	case m.TargetNodeAddress == "":
		m.TargetNodeAddress, m.TargetNodeDomainDetected = address, true
		m.TargetDirectMigrationNodePorts = map[string]int{"44444": 0}
	case m.StartTimestamp == nil && o.migration == kubevirtv1.MigrationTargetReady:
		m.StartTimestamp, m.Mode = &o.now, kubevirtv1.MigrationPreCopy
	case m.StartTimestamp != nil && o.migration == kubevirtv1.MigrationRunning && v.Annotations[Guest] != Hang:
		m.TargetNodeDomainReadyTimestamp, m.EndTimestamp, m.Completed = &o.now, &o.now, true
		v.Status.NodeName, v.Status.EvacuationNodeName = m.TargetNode, ""
		v.Labels[kubevirtv1.NodeNameLabel] = m.TargetNode
		hardware(v)
		dropConditions(v, kubevirtv1.VirtualMachineInstanceVCPUChange, kubevirtv1.VirtualMachineInstanceMemoryChange, kubevirtv1.VirtualMachineInstanceMigrationRequired)
	}
}

// setCondition makes a condition true.
func (o *instanceObservation) setCondition(v *kubevirtv1.VirtualMachineInstance, kind kubevirtv1.VirtualMachineInstanceConditionType) {
	dropConditions(v, kind)
	v.Status.Conditions = append(v.Status.Conditions, kubevirtv1.VirtualMachineInstanceCondition{
		Type: kind, Status: corev1.ConditionTrue, LastProbeTime: o.now, LastTransitionTime: o.now,
	})
}

func dropConditions(v *kubevirtv1.VirtualMachineInstance, kinds ...kubevirtv1.VirtualMachineInstanceConditionType) {
	v.Status.Conditions = slices.DeleteFunc(v.Status.Conditions, func(c kubevirtv1.VirtualMachineInstanceCondition) bool {
		return slices.Contains(kinds, c.Type)
	})
}
