package validation

import "slices"

// A Rule is one named check.
type Rule struct {
	// ID names the rule in messages and docs, in kebab-case.
	ID string
	// Requirement states in one sentence what the rule requires.
	Requirement string
	// Scope selects the objects that the rule validates.
	Scope Scope
	// Strictness compares the rule with KubeVirt's own validation.
	Strictness Strictness
	// ClusterConfigured marks rules that depend on KubeVirt's configuration. Alongside KubeVirt
	// they are skipped, because only KubeVirt knows its configuration.
	ClusterConfigured bool
	// LiveUpdate marks rules that depend on the rollout strategy, and on nothing else of KubeVirt's
	// configuration. Alongside KubeVirt they are skipped unless the strategy is assumed.
	LiveUpdate bool
	// Gate is a feature gate that allows what the rule forbids. Setting it implies
	// ClusterConfigured, and Check runs only if the gate is disabled.
	Gate Gate
	// Leaf marks rules whose result depends only on the value of the reported field, on the
	// architecture and on the cluster. Such a rule also validates the values that presets set.
	Leaf bool
	// Check reports problems. It takes time linear in the size of the object.
	Check func(vm *ExpandedVM, r *Report)
}

// A Scope selects the objects that a rule validates.
type Scope int

// Scopes.
const (
	// VMISpecs selects VMIs and the templates of VMs. Check does not run on a VM without template.
	VMISpecs Scope = iota
	// VirtualMachines selects VMs.
	VirtualMachines
)

// A Strictness compares a rule with KubeVirt's own validation. Stricter rules reject objects in
// standalone mode, and warn alongside KubeVirt.
type Strictness int

// Strictness values.
const (
	// SameAsKubeVirt is for rules that KubeVirt enforces too.
	SameAsKubeVirt Strictness = iota
	// EarlierThanKubeVirt is for rules that KubeVirt enforces on VMIs only. KubeVirt admits a VM
	// that breaks the rule, but the VM cannot start.
	EarlierThanKubeVirt
	// StricterThanKubeVirt is for rules that KubeVirt does not enforce.
	StricterThanKubeVirt
)

// DependsOnConfig reports whether the result of the rule depends on KubeVirt's configuration.
func (rule *Rule) DependsOnConfig() bool {
	return rule.ClusterConfigured || rule.LiveUpdate || rule.Gate != ""
}

// A group is the rules for one part of a VM.
type group struct {
	// title is the title of the group's page in docs/rules.
	title string
	rules []Rule
}

// groups lists the rules, in the order of the docs.
var groups = []group{
	{"VirtualMachines", slices.Concat(metadataRules, virtualMachineRules, runStrategyRules, dataVolumeRules, instancetypeRules, volumeRequestRules, inProgressRules)},
	{"CPU", slices.Concat(cpuRules, dedicatedCPURules)},
	{"Memory", slices.Concat(memoryRules, memoryHotplugRules)},
	{"Boot", slices.Concat(firmwareRules, kernelBootRules, bootRules, launchSecurityRules)},
	{"Disks and volumes", slices.Concat(diskRules, diskGeometryRules, volumeRules, volumeContentRules, volumePathRules, cloudInitRules, credentialRules)},
	{"Networks", slices.Concat(networkRules, interfaceRules, bindingRules, portRules)},
	{"Devices", slices.Concat(deviceRules, passthroughRules, graceGPURules, resourceClaimRules, hypervRules)},
	{"Pods", slices.Concat(schedulingRules, resourceNameRules, downwardAPIRules, affinityRules, topologySpreadRules, probeRules, dnsRules)},
}

// warnsOnly reports whether a problem of vm is only a warning.
func (p *problem) warnsOnly(c *Config, vm *ExpandedVM) bool {
	return c.Addon && (p.strictness == StricterThanKubeVirt || p.strictness == EarlierThanKubeVirt && vm.VM != nil)
}

// appliesTo reports whether the rule validates vm.
func (rule *Rule) appliesTo(c *Config, vm *ExpandedVM) bool {
	switch {
	case c.Addon && rule.DependsOnConfig() && !(rule.LiveUpdate && c.AssumedStrategy), rule.Gate != "" && c.Enabled(rule.Gate):
		return false
	case rule.Scope == VirtualMachines:
		return vm.VM != nil
	}
	return vm.Spec != nil
}
