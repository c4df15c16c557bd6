package validation

import "slices"

// A Rule is one named check.
type Rule struct {
	// ID names the rule in messages and docs, in kebab-case.
	ID string
	// Says is what must hold, in one sentence.
	Says string
	// Scope is which machines the rule concerns.
	Scope Scope
	// Reach says how far the rule goes beyond KubeVirt's own validation.
	Reach Reach
	// Cluster says that KubeVirt's verdict depends on its configuration, such as
	// a feature gate. Beside KubeVirt only KubeVirt knows that, and decides.
	Cluster bool
	// Leaf says that a problem of the rule depends on the value of the field that it names,
	// on the architecture and on the cluster's setup, and on no other field. The rule then
	// also checks the values that presets set.
	Leaf bool
	// Check reports what is wrong. It takes time linear in the size of the machine.
	Check func(m *Machine, r *Report)
}

// A Scope is which machines a rule concerns.
type Scope int

// Scopes.
const (
	// Instances concerns what runs: a VirtualMachineInstance, or the template of
	// a VirtualMachine. Check is called only when there is a template.
	Instances Scope = iota
	// VirtualMachines concerns what only a VirtualMachine has.
	VirtualMachines
)

// A Reach is how far a rule goes beyond KubeVirt's own validation. What goes
// beyond refuses in standalone mode, and warns beside KubeVirt.
type Reach int

// Reaches.
const (
	// AsKubeVirt is for rules that KubeVirt has too.
	AsKubeVirt Reach = iota
	// EarlierThanKubeVirt is for rules that KubeVirt applies to instances only, so
	// that it admits a VirtualMachine that can never start.
	EarlierThanKubeVirt
	// BeyondKubeVirt is for rules that KubeVirt has not.
	BeyondKubeVirt
)

// Rules are all rules, in the order of the docs.
func Rules() []Rule { return slices.Concat(groups...) }

// groups are the rules by concern, one file each.
var groups = [][]Rule{
	metadataRules,
	virtualMachineRules, runStrategyRules, dataVolumeRules, instancetypeRules, volumeRequestRules, inProgressRules,
	cpuRules, cpuTopologyRules, dedicatedCPURules,
	memoryRules, memoryPageRules, memoryHotplugRules,
	firmwareRules, firmwareTableRules, kernelBootRules, bootRules, launchSecurityRules,
	diskRules, diskGeometryRules, volumeRules, volumePathRules, cloudInitRules, credentialRules,
	networkRules, networkClaimRules, interfaceRules, bindingRules, portRules,
	deviceRules, deviceNameRules, passthroughRules, graceGPURules, resourceClaimRules, hypervRules,
	schedulingRules, affinityRules, topologySpreadRules, probeRules, dnsRules,
}

// warnsOnly reports whether a problem found on m is a warning.
func (p *problem) warnsOnly(c *Config, m *Machine) bool {
	return c.Addon && (p.reach == BeyondKubeVirt || p.reach == EarlierThanKubeVirt && m.VM != nil)
}

// concerns reports whether the rule looks at m.
func (rule *Rule) concerns(c *Config, m *Machine) bool {
	switch {
	case rule.Cluster && c.Addon:
		return false
	case rule.Scope == VirtualMachines:
		return m.VM != nil
	}
	return m.Spec != nil
}
