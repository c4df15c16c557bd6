package fleet

// A Severity says whether a finding should stop a change.
type Severity string

// The severities.
const (
	// Error is for presets that a cluster rejects, that refuse VMs, or whose outcome only their
	// names decide.
	Error Severity = "error"
	// Warning is for presets, or parts of them, that have no effect.
	Warning Severity = "warning"
)

// A Check is one kind of finding. Its ID never changes: the first digit is the class.
type Check struct {
	ID, Name string
	Severity Severity
	// Summary says what is found, Reason why it matters, and Fix what to do.
	Summary, Reason, Fix string
	// Example is YAML that the check finds.
	Example string
}

// The checks: 1xx presets that a cluster rejects, 2xx presets without effect, 3xx presets that
// disagree, 4xx expressions, 5xx instancetypes.
var (
	UnknownField = &Check{
		ID: "VW101", Name: "unknown-field", Severity: Error,
		Summary: "The preset names a field that does not exist.",
		Reason:  "The cluster rejects the preset. Without the check, a misspelt field would be dropped, and no VM would get it.",
		Fix:     "Correct the name. The message suggests the nearest field.",
		Example: `apiVersion: virtwright.dev/v1alpha1
kind: ClusterVirtualMachinePreset
metadata: {name: baseline}
spec:
  defaults:
    spec: {template: {spec: {domain: {memroy: {guest: 2Gi}}}}}
`,
	}
	InvalidPreset = &Check{
		ID: "VW102", Name: "invalid-preset", Severity: Error,
		Summary: "The preset has the wrong form: a bad selector, an expression that does not compile, a path that does not exist, a wrong type.",
		Reason:  "The cluster rejects the preset.",
		Fix:     "Correct the field that the message names.",
		Example: `apiVersion: virtwright.dev/v1alpha1
kind: ClusterVirtualMachinePreset
metadata: {name: no-tablet}
spec:
  remove: [spec.template.spec.domain.devices.inputs]
  match: {labels: {matchExpressions: [{key: os, operator: Is, values: [linux]}]}}
`,
	}
	InvalidValue = &Check{
		ID: "VW103", Name: "invalid-value", Severity: Error,
		Summary: "The preset gives a value that no VM may have.",
		Reason:  "The cluster rejects the preset. Each VM that got the value would be refused.",
		Fix:     "Use a supported value. The message lists them, or suggests the nearest one.",
		Example: `apiVersion: virtwright.dev/v1alpha1
kind: ClusterVirtualMachinePreset
metadata: {name: baseline}
spec:
  defaults:
    spec: {template: {spec: {domain: {machine: {type: q53}}}}}
`,
	}
	Unreachable = &Check{
		ID: "VW201", Name: "unreachable", Severity: Warning,
		Summary: "The preset can match no VM: its selectors contradict each other, or a condition is always false.",
		Reason:  "The preset never acts. Often a selector was copied and only half of it was changed.",
		Fix:     "Correct the selector or the condition, or delete the preset.",
		Example: `apiVersion: virtwright.dev/v1alpha1
kind: ClusterVirtualMachinePreset
metadata: {name: windows}
spec:
  match:
    labels:
      matchLabels: {os: windows}
      matchExpressions: [{key: os, operator: NotIn, values: [windows]}]
  defaults:
    spec: {template: {spec: {domain: {cpu: {cores: 2}}}}}
`,
	}
	NoOp = &Check{
		ID: "VW202", Name: "no-op", Severity: Warning,
		Summary: "The preset has no defaults, overrides, remove or forbid.",
		Reason:  "The preset does nothing.",
		Fix:     "Add what it should do, or delete it.",
		Example: `apiVersion: virtwright.dev/v1alpha1
kind: ClusterVirtualMachinePreset
metadata: {name: empty}
spec:
  match: {labels: {matchLabels: {os: linux}}}
`,
	}
	Shadowed = &Check{
		ID: "VW203", Name: "shadowed", Severity: Warning,
		Summary: "Stronger presets overrule everything that the preset sets, on each VM that it matches and that does not exclude them.",
		Reason:  "The preset has no effect.",
		Fix:     "Raise its priority, narrow the match of the other preset, or delete it.",
		Example: `apiVersion: virtwright.dev/v1alpha1
kind: ClusterVirtualMachinePreset
metadata: {name: small}
spec:
  match: {labels: {matchLabels: {size: small}}}
  defaults:
    spec: {template: {spec: {domain: {cpu: {cores: 1}}}}}
---
apiVersion: virtwright.dev/v1alpha1
kind: ClusterVirtualMachinePreset
metadata: {name: four-cores}
spec:
  priority: 100
  defaults:
    spec: {template: {spec: {domain: {cpu: {cores: 4}}}}}
`,
	}
	Conflicting = &Check{
		ID: "VW301", Name: "conflict", Severity: Error,
		Summary: "Two presets of one scope, layer and priority set a field to different values, and can match the same VM.",
		Reason:  "Only the names of the presets decide which value the VM gets. With presetConflicts: Reject the VM is refused.",
		Fix:     "Give the presets different priorities, or make their selectors exclude each other.",
		Example: `apiVersion: virtwright.dev/v1alpha1
kind: ClusterVirtualMachinePreset
metadata: {name: linux}
spec:
  match: {labels: {matchLabels: {os: linux}}}
  defaults:
    spec: {template: {spec: {domain: {cpu: {cores: 2}}}}}
---
apiVersion: virtwright.dev/v1alpha1
kind: ClusterVirtualMachinePreset
metadata: {name: web}
spec:
  match: {labels: {matchLabels: {app: web}}}
  defaults:
    spec: {template: {spec: {domain: {cpu: {cores: 4}}}}}
`,
	}
	RemovesStronger = &Check{
		ID: "VW302", Name: "removes-stronger", Severity: Warning,
		Summary: "The preset removes a field that a stronger preset overrides on every VM that it matches.",
		Reason:  "The stronger preset wins, so the field stays.",
		Fix:     "Raise the priority of the removal, or take the override out of the other preset.",
		Example: `apiVersion: virtwright.dev/v1alpha1
kind: ClusterVirtualMachinePreset
metadata: {name: no-tpm}
spec:
  remove: [spec.template.spec.domain.devices.tpm]
---
apiVersion: virtwright.dev/v1alpha1
kind: ClusterVirtualMachinePreset
metadata: {name: windows}
spec:
  priority: 100
  overrides:
    spec: {template: {spec: {domain: {devices: {tpm: {persistent: true}}}}}}
`,
	}
	Forbidden = &Check{
		ID: "VW303", Name: "forbidden", Severity: Error,
		Summary: "The preset sets a field that a preset of the set forbids, and both can match the same VM.",
		Reason:  "Such a VM is refused, although its author did nothing wrong.",
		Fix:     "Make the selectors exclude each other, or take out the field or the forbid rule.",
		Example: `apiVersion: virtwright.dev/v1alpha1
kind: ClusterVirtualMachinePreset
metadata: {name: entropy}
spec:
  defaults:
    spec: {template: {spec: {domain: {devices: {rng: {}}}}}}
---
apiVersion: virtwright.dev/v1alpha1
kind: ClusterVirtualMachinePreset
metadata: {name: no-entropy}
spec:
  forbid: [{path: spec.template.spec.domain.devices.rng}]
`,
	}
	Unguarded = &Check{
		ID: "VW401", Name: "unguarded-expression", Severity: Error,
		Summary: "A condition, or a computed override, fails for VMs that lack a field.",
		Reason:  "The cluster rejects the preset. A preset that may overrule would refuse each VM without the field.",
		Fix:     "Use the optional form that the message shows.",
		Example: `apiVersion: virtwright.dev/v1alpha1
kind: ClusterVirtualMachinePreset
metadata: {name: production}
spec:
  match:
    conditions: [{name: production, expression: object.metadata.labels.tier == 'prod'}]
  overrides:
    spec: {runStrategy: Always}
`,
	}
	UnderInstancetype = &Check{
		ID: "VW501", Name: "default-under-instancetype", Severity: Warning,
		Summary: "The preset gives CPU or memory to VMs that get an instancetype from a preset.",
		Reason:  "The instancetype owns these fields. The default acts only where the instancetype is held back, because the author of the VM wrote CPU or memory.",
		Fix:     "Take out the field, or the instancetype.",
		Example: `apiVersion: virtwright.dev/v1alpha1
kind: ClusterVirtualMachinePreset
metadata: {name: medium}
spec:
  defaults:
    spec:
      instancetype: {name: u1.medium}
      template: {spec: {domain: {memory: {guest: 4Gi}}}}
`,
	}
)

// Checks are all checks, by ID.
var Checks = []*Check{
	UnknownField, InvalidPreset, InvalidValue, Unreachable, NoOp, Shadowed,
	Conflicting, RemovesStronger, Forbidden, Unguarded, UnderInstancetype,
}
