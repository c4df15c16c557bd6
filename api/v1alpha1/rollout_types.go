package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// PresetRollout brings changes of presets to VMs in waves. While it exists, each change of these
// presets follows it: VMs outside the waves that were reached keep the stable revision, and new
// ones get it. Its author must be allowed to update each preset that it names, and VMs in all
// namespaces. For example:
//
//	apiVersion: virtwright.dev/v1alpha1
//	kind: PresetRollout
//	metadata: {name: secure-boot}
//	spec:
//	  presets: [cluster/secure-boot]
//	  waves:
//	  - {name: canary, vms: {matchLabels: {canary: "true"}}, bake: 24h}
//	  - {name: development, namespaces: {matchLabels: {tier: development}}}
//	  - {name: production, approval: Required, steps: ["1%", "10%", "100%"], bake: 1h}
//
// A VM that runs gets values that need a restart when its author restarts it or, with restart:
// Rolling, when the rollout does.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=presetrollouts,singular=presetrollout,shortName=vmpr,categories=virtwright,scope=Cluster
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.conditions[?(@.type=="Progressing")].reason`,description="What the rollout does, or waits for."
// +kubebuilder:printcolumn:name="Wave",type=string,JSONPath=`.status.wave`,description="The wave that was reached."
// +kubebuilder:printcolumn:name="Step",type=string,JSONPath=`.status.step`,description="How much of the wave was reached."
// +kubebuilder:printcolumn:name="Updated",type=integer,JSONPath=`.status.updated`,description="VMs that have the target revision."
// +kubebuilder:printcolumn:name="VMs",type=integer,JSONPath=`.status.selected`,description="VMs in the steps that were reached."
// +kubebuilder:printcolumn:name="Failed",type=integer,JSONPath=`.status.failed`,description="VMs whose update or restart was rejected, or that are not ready in time."
// +kubebuilder:printcolumn:name="Presets",type=string,JSONPath=`.spec.presets`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type PresetRollout struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says how changes of presets reach VMs.
	Spec PresetRolloutSpec `json:"spec"`

	// status reports how far the last change has come. Only virtwright writes it.
	//
	// +optional
	Status PresetRolloutStatus `json:"status,omitempty"`
}

// PresetRolloutSpec says how changes of presets reach VMs.
//
// +kubebuilder:validation:XValidation:rule="self.waves.size() == 0 || !has(self.waves[self.waves.size() - 1].vms) && !has(self.waves[self.waves.size() - 1].namespaces)",message="the last wave takes all other VMs: add a wave without vms and namespaces"
type PresetRolloutSpec struct {
	// presets are the cluster presets whose changes are rolled out, as cluster/NAME. A preset
	// belongs to one rollout at most.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:Pattern=`^cluster/[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	// +kubebuilder:validation:items:MaxLength=261
	// +listType=set
	Presets []string `json:"presets"`

	// waves are reached in order. A VM belongs to the first wave that selects it.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +listType=map
	// +listMapKey=name
	Waves []RolloutWave `json:"waves"`

	// failure says when the rollout stops.
	//
	// +optional
	Failure RolloutFailurePolicy `json:"failure,omitzero"`

	// restart says how running VMs get changes that need a restart. Default: WhenStopped.
	//
	// +optional
	// +kubebuilder:validation:Enum=WhenStopped;Rolling
	Restart RolloutRestart `json:"restart,omitempty"`

	// budgets limit restarts: a VM is restarted if all of them permit it. If none applies, one VM
	// is restarted at a time, as with maxUnavailable 1.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=4
	// +listType=atomic
	Budgets []RolloutBudget `json:"budgets,omitempty"`

	// health says when a VM is well after a restart.
	//
	// +optional
	Health RolloutHealth `json:"health,omitzero"`
}

// RolloutRestart says how running VMs get changes that need a restart.
type RolloutRestart string

// Ways to restart VMs.
const (
	// RestartWhenStopped waits until the owner of a VM restarts it.
	RestartWhenStopped RolloutRestart = "WhenStopped"
	// RestartRolling restarts VMs within budgets. A step is done when they are ready again.
	RestartRolling RolloutRestart = "Rolling"
)

// RolloutBudget limits how many VMs are unavailable: they should run, but are not ready, for any
// reason.
//
// +kubebuilder:validation:XValidation:rule="has(self.schedule) == has(self.duration)",message="schedule and duration need each other"
// +kubebuilder:validation:XValidation:rule="has(self.schedule) || !has(self.timeZone)",message="timeZone needs schedule"
type RolloutBudget struct {
	// maxUnavailable is how many VMs may be unavailable, the one that is restarted included: a
	// number, or a percentage of the VMs that should run, rounded up. With 0, no VM is restarted.
	//
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 : self.matches('^(100|[1-9]?[0-9])%$')",message="must be a number, or a percentage such as 2%"
	MaxUnavailable intstr.IntOrString `json:"maxUnavailable"`

	// per is Namespace if the VMs of each namespace are counted. Default: those of the cluster.
	//
	// +optional
	// +kubebuilder:validation:Enum=Namespace
	Per RolloutBudgetScope `json:"per,omitempty"`

	// schedule is a cron expression: the budget applies only for the duration after each of its
	// times. Default: always.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=100
	Schedule string `json:"schedule,omitempty"`

	// duration is how long the budget applies after each time of the schedule.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1m')",message="must be a duration of at least a minute, such as 12h"
	Duration *metav1.Duration `json:"duration,omitempty"`

	// timeZone of the schedule, such as Europe/Berlin. Default: UTC.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=64
	TimeZone string `json:"timeZone,omitempty"`
}

// RolloutBudgetScope says which VMs a budget counts.
type RolloutBudgetScope string

// BudgetPerNamespace counts the VMs of each namespace.
const BudgetPerNamespace RolloutBudgetScope = "Namespace"

// RolloutHealth says when a VM is well after a restart.
type RolloutHealth struct {
	// vmDeadline is how long a VM may be not ready until it counts as failed. Only restart: Rolling
	// uses it. Default: 20m.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) > duration('0s')",message="must be a duration such as 20m"
	VMDeadline *metav1.Duration `json:"vmDeadline,omitempty"`
}

// RolloutFailurePolicy says when a rollout stops.
type RolloutFailurePolicy struct {
	// maxFailed is how many VMs may fail, as a number or as a percentage of the VMs that were
	// reached, rounded down. With more, the rollout does not reach the next step. Default: 0.
	//
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 : self.matches('^(100|[1-9]?[0-9])%$')",message="must be a number, or a percentage such as 2%"
	MaxFailed *intstr.IntOrString `json:"maxFailed,omitempty"`
}

// RolloutWave is a group of VMs.
type RolloutWave struct {
	// name of the wave.
	//
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`

	// vms selects VMs by label. Default: all.
	//
	// +optional
	VMs *metav1.LabelSelector `json:"vms,omitempty"`

	// namespaces selects VMs by the labels of their namespace. Default: all.
	//
	// +optional
	Namespaces *metav1.LabelSelector `json:"namespaces,omitempty"`

	// steps are parts of the wave, as growing percentages that end with 100%. Which VMs belong to a
	// part follows from their namespace and name. Default: one step with all VMs.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=4
	// +kubebuilder:validation:items:Pattern=`^(100|[1-9][0-9]?)%$`
	// +kubebuilder:validation:XValidation:rule="self.size() == 0 || self[self.size() - 1] == '100%'",message="the last step must be 100%"
	// +kubebuilder:validation:XValidation:rule="self.all(i, s, i == 0 || int(self[i - 1].replace('%', '')) < int(s.replace('%', '')))",message="each step must be larger than the one before"
	// +listType=atomic
	Steps []string `json:"steps,omitempty"`

	// bake is how long a step waits, after its last VM was updated, before the next one begins.
	// After a failure it waits as long again.
	// Default: 0s.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s')",message="must be a duration such as 90m"
	Bake *metav1.Duration `json:"bake,omitempty"`

	// approval is Required if a person must approve the wave before it begins. Default: None.
	//
	// +optional
	// +kubebuilder:validation:Enum=None;Required
	Approval RolloutApproval `json:"approval,omitempty"`
}

// RolloutApproval says whether a wave needs an approval.
type RolloutApproval string

// Approvals of waves.
const (
	// ApprovalNone waves begin on their own.
	ApprovalNone RolloutApproval = "None"
	// ApprovalRequired waves wait for an approval.
	ApprovalRequired RolloutApproval = "Required"
)

// PresetRolloutStatus reports how far the last change has come.
type PresetRolloutStatus struct {
	// observedGeneration is the generation that this status describes.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// presets have the revisions of each preset.
	//
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Presets []RolloutPreset `json:"presets,omitempty"`

	// target identifies the change that is rolled out: a hash of the target revisions. It is part
	// of approvals.
	//
	// +optional
	Target string `json:"target,omitempty"`

	// aborted is true if VMs go back to, or have, the stable revision until a preset changes.
	//
	// +optional
	Aborted bool `json:"aborted,omitempty"`

	// wave is the name of the wave that was reached; empty if none was, and if the change is
	// everywhere.
	//
	// +optional
	Wave string `json:"wave,omitempty"`

	// step is the part of the wave that was reached, such as 10%.
	//
	// +optional
	Step string `json:"step,omitempty"`

	// bakesSince is when the last VM of the step was updated.
	//
	// +optional
	BakesSince *metav1.Time `json:"bakesSince,omitempty"`

	// selected counts the VMs in the steps that were reached. Absent: not counted yet.
	//
	// +optional
	Selected *int64 `json:"selected,omitempty"`

	// updated counts those of them that were updated.
	//
	// +optional
	Updated *int64 `json:"updated,omitempty"`

	// waiting counts updated VMs that do not run with the change yet: they wait for a restart or,
	// with restart: Rolling, are not ready.
	//
	// +optional
	Waiting *int64 `json:"waiting,omitempty"`

	// held counts those of them that are left out: by the annotation virtwright.dev/rollout, or
	// because a controller owns them.
	//
	// +optional
	Held *int64 `json:"held,omitempty"`

	// failed counts those of them whose update or restart was rejected, or that were not ready in
	// time.
	//
	// +optional
	Failed *int64 `json:"failed,omitempty"`

	// failures are up to 20 of these, with the reason.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	Failures []RolloutFailure `json:"failures,omitempty"`

	// conditions contain Progressing: True with reason Updating, Baking or Aborting; False with
	// reason Complete, Paused, WaitingForApproval, Failed, Aborted or Invalid.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// RolloutPreset has the revisions of a preset.
type RolloutPreset struct {
	// name of the preset, as in spec.presets.
	Name string `json:"name"`

	// uid of the preset; empty if it does not exist. A preset with another UID is a new one.
	//
	// +optional
	UID types.UID `json:"uid,omitempty"`

	// stable is the generation that VMs have which were not reached; 0 if the preset did not exist.
	Stable int64 `json:"stable"`

	// target is the generation that is rolled out; 0 if the preset was deleted.
	Target int64 `json:"target"`
}

// RolloutFailure is a VM that has failed.
type RolloutFailure struct {
	// namespace of the VM.
	Namespace string `json:"namespace"`

	// name of the VM.
	Name string `json:"name"`

	// message is the answer of the API server, or says since when the VM is not ready.
	//
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message"`
}

// PresetRolloutList is a list of PresetRollouts.
//
// +kubebuilder:object:root=true
type PresetRolloutList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the rollouts.
	Items []PresetRollout `json:"items"`
}
