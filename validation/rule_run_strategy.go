package validation

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

var runStrategyRules = []Rule{{
	ID:    "run-state-given",
	Says:  "A VirtualMachine says when it runs: by runStrategy, or by running.",
	Scope: VirtualMachines,
	Check: runStateGiven,
}, {
	ID:    "run-state-once",
	Says:  "A VirtualMachine has runStrategy or running, not both.",
	Scope: VirtualMachines,
	Check: runStateOnce,
}, {
	ID:    "running-deprecated",
	Says:  "The field running is deprecated; it is warned of.",
	Scope: VirtualMachines,
	Check: runningDeprecated,
}, {
	ID:    "run-strategy-known",
	Leaf:  true,
	Says:  "The run strategy is Always, Halted, Manual, Once, RerunOnFailure or WaitAsReceiver.",
	Scope: VirtualMachines,
	Check: runStrategyKnown,
}, {
	ID:      "wait-as-receiver-enabled",
	Leaf:    true,
	Says:    "The run strategy is WaitAsReceiver only where DecentralizedLiveMigration is enabled.",
	Scope:   VirtualMachines,
	Cluster: true,
	Check:   waitAsReceiverEnabled,
}}

var runStrategyPath = field.NewPath("spec", "runStrategy")

func runStateGiven(m *Machine, r *Report) {
	if m.VM.Spec.Running == nil && m.VM.Spec.RunStrategy == nil {
		r.Add(field.Required(runStrategyPath, "must be given, such as Always or Halted"))
	}
}

func runStateOnce(m *Machine, r *Report) {
	if m.VM.Spec.Running != nil && m.VM.Spec.RunStrategy != nil {
		r.Add(field.Forbidden(field.NewPath("spec", "running"), "must be left out where runStrategy is given"))
	}
}

// runningDeprecated is silent beside KubeVirt, which says so itself.
func runningDeprecated(m *Machine, r *Report) {
	if m.VM.Spec.Running == nil || m.Config.Addon {
		return
	}
	instead := kubevirtv1.RunStrategyHalted
	if *m.VM.Spec.Running {
		instead = kubevirtv1.RunStrategyAlways
	}
	r.Warn("spec.running: is deprecated; write runStrategy: %s", instead)
}

func runStrategyKnown(m *Machine, r *Report) {
	if m.VM.Spec.RunStrategy == nil {
		return
	}
	switch strategy := *m.VM.Spec.RunStrategy; strategy {
	case kubevirtv1.RunStrategyAlways, kubevirtv1.RunStrategyHalted, kubevirtv1.RunStrategyManual, kubevirtv1.RunStrategyOnce,
		kubevirtv1.RunStrategyRerunOnFailure, kubevirtv1.RunStrategyWaitAsReceiver:
	default:
		r.Add(r.unsupported(runStrategyPath, string(strategy), "Always", "Halted", "Manual", "Once", "RerunOnFailure", "WaitAsReceiver"))
	}
}

func waitAsReceiverEnabled(m *Machine, r *Report) {
	strategy := m.VM.Spec.RunStrategy
	if strategy != nil && *strategy == kubevirtv1.RunStrategyWaitAsReceiver && !m.Config.Enabled(GateDecentralizedLiveMigrate) {
		r.Add(disabled(runStrategyPath, GateDecentralizedLiveMigrate))
	}
}
