package v1alpha1

// Annotations by which the author of a VM controls presets.
const (
	// AnnotationPresets names presets with match.explicit that apply to the VM: "nightly-backup,
	// cluster/gpu-a10".
	AnnotationPresets = "virtwright.dev/presets"

	// AnnotationExclude excludes the VM from defaults, but not from overrides or forbid: "name,
	// cluster/name, name:path, *".
	AnnotationExclude = "virtwright.dev/exclude"

	// AnnotationReapply applies presets to an existing VM as on creation, each time its value
	// changes.
	AnnotationReapply = "virtwright.dev/reapply"

	// ReapplyOnlyPrefix begins a value of AnnotationReapply that names presets, separated by
	// commas: only:cluster/size-small,web. What follows a space has no meaning.
	ReapplyOnlyPrefix = "only:"

	// AnnotationGenerateTemplate requests a template of the given name, made from the VM.
	AnnotationGenerateTemplate = "virtwright.dev/generate-template"
)

// AnnotationProvenance records which preset set which leaf. Only virtwright writes it.
const AnnotationProvenance = "virtwright.dev/provenance"

// AnnotationTemplateRequester records who set AnnotationGenerateTemplate on a VM, as a
// RequesterRecord of api/ssp/v1alpha1. Only the webhook writes it.
const AnnotationTemplateRequester = "virtwright.dev/template-requester"

// Labels and annotations of templates.
const (
	// LabelTemplateRequest is the UID of the request for which the template was created.
	LabelTemplateRequest = "virtwright.dev/template-request"

	// AnnotationSourceVM is NAMESPACE/NAME of the VM from which the template was created.
	AnnotationSourceVM = "virtwright.dev/source-vm"

	// AnnotationSourceUID is the UID of the VM from which the template was created.
	AnnotationSourceUID = "virtwright.dev/source-uid"

	// AnnotationTriggerHash is a hash of the VM's UID and the value of AnnotationGenerateTemplate.
	// It is on the request that was created for that annotation, and on its template.
	AnnotationTriggerHash = "virtwright.dev/template-trigger"
)

// AnnotationOwnerUID is the UID of the VM on a VMI that the lifecycle controller created. It proves
// which VM an orphaned VMI belongs to.
const AnnotationOwnerUID = "virtwright.dev/instance-of"

// AnnotationNoGuest says, on a pod, why no guest runs in it. Simulated nodes write it.
const AnnotationNoGuest = "virtwright.dev/no-guest"

// LabelPresetUID is the UID of the preset on a ControllerRevision that keeps a revision of it.
const LabelPresetUID = "virtwright.dev/preset-uid"

// AnnotationReplicaPhase is on the Lease of a replica: Starting, Serving or Draining.
const AnnotationReplicaPhase = "virtwright.dev/replica-phase"

// AnnotationRollout keeps a VM, or all VMs of a namespace, out of every PresetRollout if its value
// is RolloutHold: they have the stable revision of its presets until it is complete.
const AnnotationRollout = "virtwright.dev/rollout"

// AnnotationRolledOut is on a VM that PresetRollouts have updated. For each of them it names the
// presets, the rollout and its target. A changed value is a reapply of these presets.
const AnnotationRolledOut = "virtwright.dev/rolled-out"

// AnnotationRolloutWaited is on a VM that waited for a restart already when a PresetRollout updated
// it: its owner restarts it. The value is a part of that of AnnotationRolledOut.
const AnnotationRolloutWaited = "virtwright.dev/rollout-waited"

// RolloutHold is the value of AnnotationRollout.
const RolloutHold = "Hold"

// Annotations of a PresetRollout, by which people control it.
const (
	// AnnotationRolloutPaused pauses the rollout if its value is "true".
	AnnotationRolloutPaused = "virtwright.dev/rollout-paused"
	// AnnotationRolloutApproved approves a wave for a target: TARGET/WAVE.
	AnnotationRolloutApproved = "virtwright.dev/rollout-approved"
	// AnnotationRolloutAborted aborts the rollout of a target: VMs go back to the stable revision.
	AnnotationRolloutAborted = "virtwright.dev/rollout-aborted"
)

// ConditionProgressing says what a PresetRollout does.
const ConditionProgressing = "Progressing"

// AnnotationServedPresets is on the Lease of a serving replica: a hash of the generations of its
// presets.
const AnnotationServedPresets = "virtwright.dev/serving"

// AnnotationTemplateHash is the hash of the VM's template on a VMI that the lifecycle controller
// created from it.
const AnnotationTemplateHash = "virtwright.dev/template"

// AnnotationTemplateValues is a hash like AnnotationTemplateHash, in which equal quantities count
// as equal. Earlier releases do not write it.
const AnnotationTemplateValues = "virtwright.dev/template-values"

// AnnotationV1Alpha2DiskNames holds the names of disks of a VM that was written in
// kubevirt.io/v1alpha2, where they may differ from the names of their volumes.
const AnnotationV1Alpha2DiskNames = "virtwright.dev/v1alpha2-names"

// AnnotationPrefix is the prefix of every annotation and finalizer of virtwright.
const AnnotationPrefix = GroupName + "/"

// UserAnnotations returns virtwright's annotations that users write. All others with
// AnnotationPrefix are reserved.
func UserAnnotations() []string {
	return []string{AnnotationPresets, AnnotationExclude, AnnotationReapply, AnnotationRollout, AnnotationRolloutWaited, AnnotationGenerateTemplate, AnnotationV1Alpha2DiskNames}
}

// ConditionReady reports whether every live serving replica uses this generation.
const ConditionReady = "Ready"

// Reasons of ConditionReady.
const (
	// ReasonCompiled means status True: the preset is in use.
	ReasonCompiled = "Compiled"

	// ReasonPending means status False: the preset is valid, but the replicas in the message do not
	// use it yet.
	ReasonPending = "Pending"

	// ReasonInvalid means status False: the preset is invalid and has no effect.
	ReasonInvalid = "Invalid"
)

// ConditionActive reports whether an exception is in force.
const ConditionActive = "Active"

// Reasons of ConditionActive, in addition to ReasonInvalid.
const (
	// ReasonInForce means status True.
	ReasonInForce = "InForce"

	// ReasonEndsSoon means status True: the exception ends within a week.
	ReasonEndsSoon = "EndsSoon"

	// ReasonExpired means status False: until is in the past.
	ReasonExpired = "Expired"
)

// ConditionDeprecated is set on a stored preset that could no longer be created. The preset stays
// in effect; the message says what to change.
const ConditionDeprecated = "Deprecated"

// Conditions of a preset that does not work with other presets. They are absent otherwise.
const (
	// ConditionConflicting means that a preset of the same scope and priority sets a field to
	// another value.
	ConditionConflicting = "Conflicting"
	// ConditionShadowed means that stronger presets overrule this one on every VM.
	ConditionShadowed = "Shadowed"
	// ConditionUnreachable means that the preset cannot match any VM.
	ConditionUnreachable = "Unreachable"
)

// Reasons of these conditions.
const (
	ReasonSamePriority   = "SamePriority"
	ReasonOverruled      = "Overruled"
	ReasonMatchesNothing = "MatchesNothing"
)

// ReasonWouldBeRejected is the reason of ConditionDeprecated.
const ReasonWouldBeRejected = "WouldBeRejected"
