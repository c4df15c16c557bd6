package v1alpha1

// Annotations by which a VM's author steers what presets do to it.
const (
	// AnnotationPresets names presets with match.explicit that shall act: "nightly-backup, cluster/gpu-a10".
	AnnotationPresets = "virtwright.dev/presets"

	// AnnotationExclude keeps defaults away, never overrides or forbid: "name, cluster/name, name:path, *".
	AnnotationExclude = "virtwright.dev/exclude"

	// AnnotationReapply makes presets act on an existing VM as on creation, each time its value is a new one.
	AnnotationReapply = "virtwright.dev/reapply"

	// AnnotationGenerateTemplate asks for a template of the given name made from the annotated VM.
	AnnotationGenerateTemplate = "virtwright.dev/generate-template"
)

// AnnotationProvenance is written by virtwright alone: which preset gave which leaf. What a user sends is discarded.
const AnnotationProvenance = "virtwright.dev/provenance"

// AnnotationTemplateRequester is on a VirtualMachine beside
// AnnotationGenerateTemplate: who wrote that, as a Stamp of
// api/ssp/v1alpha1 in JSON. The webhook writes it, and what a user sends is discarded.
const AnnotationTemplateRequester = "virtwright.dev/template-requester"

// Labels and annotations of templates.
const (
	// LabelTemplateRequest is on a template: the UID of the request that it was made for.
	LabelTemplateRequest = "virtwright.dev/template-request"

	// AnnotationSourceVM is on a template: NAMESPACE/NAME of the VM of which it was made.
	AnnotationSourceVM = "virtwright.dev/source-vm"

	// AnnotationSourceUID is on a template: the UID of the VM of which it was made.
	AnnotationSourceUID = "virtwright.dev/source-uid"

	// AnnotationTrigger is on a request that was made for AnnotationGenerateTemplate,
	// and on its template: a hash of the VM's UID and the annotation's value.
	AnnotationTrigger = "virtwright.dev/template-trigger"
)

// AnnotationInstanceOf is on an instance that the lifecycle controller made:
// the UID of its VirtualMachine. It proves whose orphan the instance is once
// its owner is gone.
const AnnotationInstanceOf = "virtwright.dev/instance-of"

// AnnotationReplicaPhase is on the Lease of a replica: Starting, Serving or Draining.
const AnnotationReplicaPhase = "virtwright.dev/replica-phase"

// AnnotationServing is on the Lease of a replica that serves: a hash of the
// generations of the presets that it serves with.
const AnnotationServing = "virtwright.dev/serving"

// AnnotationTemplate is on an instance that the lifecycle controller made: the
// hash of the template that it was made of.
const AnnotationTemplate = "virtwright.dev/template"

// AnnotationSeedNames is on a VirtualMachine written in kubevirt.io/v1alpha2,
// where disks have a name beside that of their volume: those names.
const AnnotationSeedNames = "virtwright.dev/v1alpha2-names"

// AnnotationPowerRequest is on an instance that somebody asked to be reset or
// rebooted: a PowerRequest in JSON. Only the subresource API writes it; the node
// agent that runs the instance does once what each ID asks for.
const AnnotationPowerRequest = "virtwright.dev/power-request"

// FinalizerNode is on an instance that a node agent has claimed: until the agent
// has taken down what it runs of it.
const FinalizerNode = "virtwright.dev/node"

// ExtraNodeName is what API servers know about the user of a token that is bound
// to a pod: the name of the node on which it is.
const ExtraNodeName = "authentication.kubernetes.io/node-name"

// AnnotationPrefix begins every annotation and finalizer of virtwright's.
const AnnotationPrefix = GroupName + "/"

// UserAnnotations are the annotations of virtwright's that people write. All
// others that begin with AnnotationPrefix are reserved.
func UserAnnotations() []string {
	return []string{AnnotationPresets, AnnotationExclude, AnnotationReapply, AnnotationGenerateTemplate, AnnotationSeedNames}
}

// ConditionReady is the type of the condition that says whether every live serving replica uses this generation.
const ConditionReady = "Ready"

// Reasons of ConditionReady.
const (
	// ReasonCompiled stands with status True: the preset is in use.
	ReasonCompiled = "Compiled"

	// ReasonPending stands with status False: the preset is right, and replicas that the message names do not use it yet.
	ReasonPending = "Pending"

	// ReasonInvalid stands with status False: the preset cannot be right, and the message says why. Nothing of it acts.
	ReasonInvalid = "Invalid"
)

// ConditionActive is the type of the condition that says whether an exception is in force.
const ConditionActive = "Active"

// Reasons of ConditionActive, beside ReasonInvalid.
const (
	// ReasonInForce stands with status True.
	ReasonInForce = "InForce"

	// ReasonEndsSoon stands with status True: the exception ends within a week.
	ReasonEndsSoon = "EndsSoon"

	// ReasonExpired stands with status False: until is past.
	ReasonExpired = "Expired"
)

// ConditionDeprecated is the type of the condition of a stored preset that could not be
// created any more. The preset keeps acting; the message says what to change.
const ConditionDeprecated = "Deprecated"

// Conditions of a preset that does not work with the other presets. They are absent while they
// do not hold.
const (
	// ConditionConflicting is for a preset that sets a field to another value than a preset of
	// the same scope and priority.
	ConditionConflicting = "Conflicting"
	// ConditionShadowed is for a preset that stronger ones overrule on every VM.
	ConditionShadowed = "Shadowed"
	// ConditionUnreachable is for a preset that can match no VM.
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
