package validation

import (
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// inProgressRules restrict updates during a snapshot or a restore.
var inProgressRules = []Rule{{
	ID:          "snapshot-keeps-volumes",
	Requirement: "While a snapshot is taken, volumes do not change.",
	Scope:       VirtualMachines,
	Check: func(vm *ExpandedVM, r *Report) {
		if vm.storedVM() == nil || vm.VM.Status.SnapshotInProgress == nil || vm.Spec == nil || vm.Old.Spec == nil {
			return
		}
		if !apiequality.Semantic.DeepEqual(vm.Spec.Volumes, vm.Old.Spec.Volumes) {
			r.Add(field.Forbidden(vm.Path("spec", "volumes"),
				"must stay as they are until snapshot "+quoted(*vm.VM.Status.SnapshotInProgress)+" is complete"))
		}
	},
}, {
	ID:          "snapshot-keeps-run-state",
	Requirement: "While a snapshot is taken, running and runStrategy do not change.",
	Scope:       VirtualMachines,
	Check: func(vm *ExpandedVM, r *Report) {
		old := vm.storedVM()
		if old == nil || vm.VM.Status.SnapshotInProgress == nil {
			return
		}
		if !ptr.Equal(vm.VM.Spec.Running, old.Spec.Running) || !ptr.Equal(vm.VM.Spec.RunStrategy, old.Spec.RunStrategy) {
			r.Add(field.Forbidden(vm.runStatePath(), "must stay as it is until snapshot "+quoted(*vm.VM.Status.SnapshotInProgress)+" is complete"))
		}
	},
}, {
	ID:          "restore-stays-halted",
	Requirement: "While a restore is made, spec changes only with run strategy Halted.",
	Scope:       VirtualMachines,
	Check: func(vm *ExpandedVM, r *Report) {
		old := vm.storedVM()
		if old == nil || vm.VM.Status.RestoreInProgress == nil {
			return
		}
		strategy, err := vm.VM.RunStrategy()
		// RunStrategy returns an error if both fields are set, which run-state-once reports.
		if err == nil && strategy != kubevirtv1.RunStrategyHalted && !apiequality.Semantic.DeepEqual(vm.VM.Spec, old.Spec) {
			r.Add(field.Invalid(vm.runStatePath(), string(strategy),
				"must be Halted until restore "+quoted(*vm.VM.Status.RestoreInProgress)+" is complete"))
		}
	},
}}

func (vm *ExpandedVM) storedVM() *kubevirtv1.VirtualMachine {
	if vm.Old == nil {
		return nil
	}
	return vm.Old.VM
}

// runStatePath returns the path of running if it is set, and of runStrategy otherwise.
func (vm *ExpandedVM) runStatePath() *field.Path {
	if vm.VM.Spec.Running != nil {
		return field.NewPath("spec", "running")
	}
	return runStrategyPath
}
