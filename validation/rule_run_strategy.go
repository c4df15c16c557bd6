package validation

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

var runStrategyRules = []Rule{{
	ID:          "run-state-given",
	Requirement: "A VirtualMachine has runStrategy or running.",
	Scope:       VirtualMachines,
	Check: func(vm *ExpandedVM, r *Report) {
		if vm.VM.Spec.Running == nil && vm.VM.Spec.RunStrategy == nil {
			r.Add(field.Required(runStrategyPath, "must be given, such as Always or Halted"))
		}
	},
}, {
	ID:          "run-state-once",
	Requirement: "A VirtualMachine has runStrategy or running, not both.",
	Scope:       VirtualMachines,
	Check: func(vm *ExpandedVM, r *Report) {
		if vm.VM.Spec.Running != nil && vm.VM.Spec.RunStrategy != nil {
			r.Add(field.Forbidden(field.NewPath("spec", "running"), "must be left out if runStrategy is set"))
		}
	},
}, {
	ID:          "running-deprecated",
	Requirement: "The field running is deprecated; use runStrategy.",
	Scope:       VirtualMachines,
	Check: func(vm *ExpandedVM, r *Report) {
		// Does nothing alongside KubeVirt, which has the same warning.
		if vm.VM.Spec.Running == nil || vm.Config.Addon {
			return
		}
		instead := kubevirtv1.RunStrategyHalted
		if *vm.VM.Spec.Running {
			instead = kubevirtv1.RunStrategyAlways
		}
		r.Warn("spec.running: is deprecated; write runStrategy: %s", instead)
	},
}, {
	ID:          "run-strategy-known",
	Leaf:        true,
	Requirement: "The run strategy is " + runStrategies.String() + ".",
	Scope:       VirtualMachines,
	Check: func(vm *ExpandedVM, r *Report) {
		if strategy := vm.VM.Spec.RunStrategy; strategy != nil {
			runStrategies.check(r, string(*strategy), func() *field.Path { return runStrategyPath })
		}
	},
}, {
	ID:                "wait-as-receiver",
	Requirement:       "The run strategy is not WaitAsReceiver in mode standalone, where VMs do not migrate.",
	Scope:             VirtualMachines,
	ClusterConfigured: true,
	Check: func(vm *ExpandedVM, r *Report) {
		strategy := vm.VM.Spec.RunStrategy
		if strategy != nil && *strategy == kubevirtv1.RunStrategyWaitAsReceiver {
			r.Add(field.Invalid(runStrategyPath, *strategy, "VMs do not migrate in mode standalone: choose another run strategy"))
		}
	},
}}

var (
	runStrategyPath = field.NewPath("spec", "runStrategy")
	runStrategies   = valueSet{"Always", "Halted", "Manual", "Once", "RerunOnFailure", "WaitAsReceiver"}
)
