package validation

import (
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// inProgressRules are about what a snapshot or a restore in progress forbids.
var inProgressRules = []Rule{{
	ID:    "snapshot-keeps-volumes",
	Says:  "While a snapshot is taken, volumes do not change.",
	Scope: VirtualMachines,
	Check: snapshotKeepsVolumes,
}, {
	ID:    "snapshot-keeps-run-state",
	Says:  "While a snapshot is taken, running and runStrategy do not change.",
	Scope: VirtualMachines,
	Check: snapshotKeepsRunState,
}, {
	ID:    "restore-stays-halted",
	Says:  "While a restore is made, only a machine that is halted changes.",
	Scope: VirtualMachines,
	Check: restoreStaysHalted,
}}

// before is the VirtualMachine that is stored; nil where there is none.
func (m *Machine) before() *kubevirtv1.VirtualMachine {
	if m.Old == nil {
		return nil
	}
	return m.Old.VM
}

func snapshotKeepsVolumes(m *Machine, r *Report) {
	if m.before() == nil || m.VM.Status.SnapshotInProgress == nil || m.Spec == nil || m.Old.Spec == nil {
		return
	}
	if !apiequality.Semantic.DeepEqual(m.Spec.Volumes, m.Old.Spec.Volumes) {
		r.Add(field.Forbidden(m.Path("spec", "volumes"), "must stay as they are until snapshot "+quoted(*m.VM.Status.SnapshotInProgress)+" is complete"))
	}
}

func snapshotKeepsRunState(m *Machine, r *Report) {
	old := m.before()
	if old == nil || m.VM.Status.SnapshotInProgress == nil {
		return
	}
	if !equal(m.VM.Spec.Running, old.Spec.Running) || !equal(m.VM.Spec.RunStrategy, old.Spec.RunStrategy) {
		r.Add(field.Forbidden(m.runState(), "must stay as it is until snapshot "+quoted(*m.VM.Status.SnapshotInProgress)+" is complete"))
	}
}

// equal reports whether two optional values are the same.
func equal[T comparable](a, b *T) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

// runState is where the machine says when it runs.
func (m *Machine) runState() *field.Path {
	if m.VM.Spec.Running != nil {
		return field.NewPath("spec", "running")
	}
	return runStrategyPath
}

func restoreStaysHalted(m *Machine, r *Report) {
	old := m.before()
	if old == nil || m.VM.Status.RestoreInProgress == nil {
		return
	}
	strategy, err := m.VM.RunStrategy()
	// One that says it twice is run-state-once's.
	if err == nil && strategy != kubevirtv1.RunStrategyHalted && !apiequality.Semantic.DeepEqual(m.VM.Spec, old.Spec) {
		r.Add(field.Invalid(m.runState(), string(strategy), "must be Halted until restore "+quoted(*m.VM.Status.RestoreInProgress)+" is complete"))
	}
}
