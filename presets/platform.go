package presets

import (
	"github.com/virtwright/virtwright/presets/provenance"
)

// Platform holds what a cluster's administrator may choose of the platform
// defaults. They are the weakest layer; see platformRules. The zero value
// reproduces KubeVirt's built-in choices.
type Platform struct {
	// Instancetypes says that KubeVirt serves instancetypes and preferences, which
	// a VM may then name.
	Instancetypes bool
	// Architecture of machines that name none; empty means amd64.
	Architecture string
	// EvictionStrategy of machines that name none; empty means None.
	EvictionStrategy string
	// NetworkInterface is the binding of the default network: bridge (the
	// default) or masquerade.
	NetworkInterface string
	// CPUModel of machines that name none; empty means host-model.
	CPUModel string
	// MachineTypes by architecture; absent ones mean KubeVirt's.
	MachineTypes map[string]string
	// NoLiveUpdate says that VMIs never change while they run. They get no maximum of CPUs
	// and memory then.
	NoLiveUpdate bool
}

// A platformRule is one row of KubeVirt's defaulting, as a function of the
// machine so far. Later rules see what earlier ones set.
type platformRule struct {
	name string
	set  func(m *machine)
}

// platformRules are the platform defaults, in the order in which they act.
// Everything that is deterministic in KubeVirt's webhooks for VMs and VMIs is
// here, except status and finalizers.
var platformRules = []platformRule{
	{"run-strategy", (*machine).runStrategy},
	{"architecture", (*machine).architecture},
	{"machine-type", (*machine).machineType},
	{"pci-topology", (*machine).pciTopology},
	{"cpu-request", (*machine).cpuRequest},
	{"memory-guest", (*machine).memoryGuest},
	{"cpu-topology", (*machine).cpuTopology},
	{"image-pull-policy", (*machine).imagePullPolicy},
	{"eviction-strategy", (*machine).evictionStrategy},
	{"pod-network", (*machine).podNetwork},
	{"disk-for-volume", (*machine).diskForVolume},
	{"acpi", (*machine).acpi},
	{"features", (*machine).features},
	{"timers", (*machine).timers},
	{"disks", (*machine).disks},
	{"gpus", (*machine).gpus},
	{"inputs", (*machine).inputs},
	{"probes", (*machine).probes},
	{"hyperv", (*machine).hyperv},
	{"watchdog", (*machine).watchdog},
	{"firmware", (*machine).firmware},
	{"cpu-model", (*machine).cpuModel},
	{"confidential", (*machine).confidential},
	{"max-sockets", (*machine).maxSockets},
	{"max-guest", (*machine).maxGuest},
}

// machine is a VM on which platform rules act.
type machine struct {
	platform *Platform
	w        *resolution
	// layer of the rule that acts.
	layer layer
	// instance says that the object is a VMI, so that only its template counts.
	instance bool

	vm, meta, spec, domain, devices *cursor
}

// applyPlatform lets every rule act on w.
func (w *resolution) applyPlatform(p *Platform) {
	m := &machine{platform: p, w: w, instance: w.instance != nil}
	m.layer = layer{w: w, role: provenance.Platform, reserved: w.reservedFields(provenance.Platform) & (ownedByInstancetype | ownedByPreference | templateAnnotation)}
	root := w.cursor(&m.layer)
	m.vm = root.child("spec")
	template := m.vm.child("template")
	m.meta, m.spec = template.child("metadata"), template.child("spec")
	m.domain = m.spec.child("domain")
	m.devices = m.domain.child("devices")
	for _, rule := range platformRules {
		m.layer.name, m.layer.source = rule.name, provenance.NoSource
		rule.set(m)
	}
}

func (c *cursor) has(name string) bool { return c.get(name) != nil }

// text returns the value of a string field, "" where it is absent.
func (c *cursor) text(name string) string {
	v, _ := c.get(name).(string)
	return v
}

// exists reports whether the object exists.
func (c *cursor) exists() bool { return c.obj != nil && !c.closed }

// setDefault sets a field unless it has a value, a preset removed it, or an
// instancetype or a preference may fill it.
func (c *cursor) setDefault(name string, value any) {
	seg := provenance.Segment{Name: name}
	if c.has(name) || c.removed(seg) {
		return
	}
	if c.l.reserved != 0 {
		p := c.path().With(seg)
		if owner, _ := c.l.reservedBy(&fieldNode{at: p, owner: ownerOf(p)}); owner != 0 {
			return
		}
	}
	c.set(name, value)
}

// removed reports whether a preset removed what lies at path.
func (c *cursor) removed(path ...provenance.Segment) bool {
	for i := range path {
		if c.l.blocked(c.find(path[:i+1]...)) {
			return true
		}
	}
	return c.closed
}
