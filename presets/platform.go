package presets

import (
	"slices"
	"sync"

	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/presets/tree"
	"github.com/virtwright/virtwright/presets/vmschema"
)

// Platform holds the platform defaults that an administrator can choose. They are the weakest
// layer; see platformRules. The zero value holds KubeVirt's built-in choices.
type Platform struct {
	// Alongside holds what KubeVirt itself assumes when it validates a VM: instancetypes and
	// preferences set fields, and a VM has the template, the run strategy and the pairs of networks
	// and interfaces that its author wrote.
	Alongside bool
	// Architecture of VMs that name none; empty means amd64.
	Architecture string
	// EvictionStrategy of VMs that name none; empty means None.
	EvictionStrategy string
	// NetworkInterface is the binding of the default network: masquerade (the default) or bridge,
	// which is impossible in the pod of a VMI.
	NetworkInterface string
	// CPUModel of VMs that name none; empty means host-model.
	CPUModel string
	// NoLiveUpdate says that VMIs never change while they run, so they get no hotplug maxima.
	NoLiveUpdate bool
}

// A platformRule is one of KubeVirt's defaults. Later rules read the values that earlier ones set.
type platformRule struct {
	name string
	set  func(d *defaulter)
}

// platformRules are the platform defaults, in the order in which they act. They cover every
// deterministic default of KubeVirt's webhooks for VMs and VMIs, except status and finalizers.
var platformRules = []platformRule{
	{"run-strategy", (*defaulter).runStrategy},
	{"architecture", (*defaulter).architecture},
	{"machine-type", (*defaulter).machineType},
	{"pci-topology", (*defaulter).pciTopology},
	{"cpu-request", (*defaulter).cpuRequest},
	{"memory-guest", (*defaulter).memoryGuest},
	{"cpu-topology", (*defaulter).cpuTopology},
	{"image-pull-policy", (*defaulter).imagePullPolicy},
	{"eviction-strategy", (*defaulter).evictionStrategy},
	{"pod-network", (*defaulter).podNetwork},
	{"disk-for-volume", (*defaulter).diskForVolume},
	{"acpi", (*defaulter).acpi},
	{"features", (*defaulter).features},
	{"timers", (*defaulter).timers},
	{"disks", (*defaulter).disks},
	{"gpus", (*defaulter).gpus},
	{"input-device", (*defaulter).inputDevice},
	{"inputs", (*defaulter).inputs},
	{"probes", (*defaulter).probes},
	{"hyperv", (*defaulter).hyperv},
	{"watchdog", (*defaulter).watchdog},
	{"firmware", (*defaulter).firmware},
	{"cpu-model", (*defaulter).cpuModel},
	{"confidential", (*defaulter).confidential},
	{"max-sockets", (*defaulter).maxSockets},
	{"max-guest", (*defaulter).maxGuest},
}

// platformFields are the fields that platform rules may set, at or beneath the leaves.
var platformFields = sync.OnceValue(func() *fieldNode {
	root := &fieldNode{}
	for _, p := range slices.Concat(
		fieldsIn("spec", "runStrategy"),
		fieldsIn("spec.template.metadata.annotations", `["kubevirt.io/pci-topology-version"]`, `["kubevirt.io/qgs-socket-path"]`),
		fieldsIn("spec.template.spec", "architecture", "evictionStrategy", "livenessProbe", "readinessProbe", "networks[default]", "volumes[*].containerDisk.imagePullPolicy"),
		fieldsIn("spec.template.spec.domain", "clock.timer", "features", "firmware.bootloader.efi", "machine.type", "resources.requests.cpu"),
		fieldsIn("spec.template.spec.domain.cpu", "cores", "features", "maxSockets", "model", "sockets", "threads"),
		fieldsIn("spec.template.spec.domain.memory", "guest", "maxGuest"),
		fieldsIn("spec.template.spec.domain.devices", "gpus[*].virtualGPUOptions", "inputs", "interfaces[default]", "watchdog"),
		fieldsIn("spec.template.spec.domain.devices.disks[*]", "blockSize", "cdrom", "disk", "lun", "name"),
	) {
		f := root
		for i := range p {
			kid := f.find(p[i : i+1])
			if kid == nil {
				kid = &fieldNode{segment: p[i]}
				f.children = append(f.children, kid)
			}
			f = kid
		}
		f.leaf = true
	}
	return root
})

func fieldsIn(path string, fields ...string) (out []provenance.Path) {
	for _, name := range fields {
		if name[0] != '[' {
			name = "." + name
		}
		p, err := provenance.ParsePath(path + name)
		if err != nil {
			panic(err) // a constant
		}
		out = append(out, p)
	}
	return out
}

type defaulter struct {
	platform *Platform
	state    *mergeState
	layer    layer
	// isVMI says that the object is a VMI, so that only its template counts.
	isVMI bool

	vm, meta, spec, domain, devices *cursor
}

// alongsideRules are the platform defaults of an engine without a platform: what KubeVirt's
// webhooks require before they set their own defaults.
var alongsideRules = []platformRule{{"devices", (*defaulter).requiredDevices}}

func (r *mergeState) applyPlatform(p *Platform) {
	d, rules := &defaulter{platform: p, state: r, isVMI: r.sentVMI != nil}, platformRules
	if p == nil {
		rules = alongsideRules
	}
	d.layer = layer{state: r, role: provenance.Platform, reserved: r.reservedFields(provenance.Platform) & (ownedByInstancetype | ownedByPreference | templateAnnotation)}
	root := r.cursor(&d.layer)
	d.vm = root.child("spec")
	template := d.vm.child("template")
	if !d.isVMI && !template.exists() && (p == nil || p.Alongside) {
		return // KubeVirt rejects a VM without a template
	}
	d.meta, d.spec = template.child("metadata"), template.child("spec")
	d.domain = d.spec.child("domain")
	d.devices = d.domain.child("devices")
	for _, rule := range rules {
		d.layer.name, d.layer.source = rule.name, provenance.NoSource
		rule.set(d)
	}
}

func (c *cursor) has(name string) bool { return c.get(name) != nil }

func (c *cursor) text(name string) string {
	return tree.AsText(c.get(name))
}

func (c *cursor) exists() bool { return c.object != nil && !c.closed }

// setDefault sets a field, unless it is set, removed, or left to an instancetype or preference.
func (c *cursor) setDefault(name string, value any) {
	seg := provenance.Segment{Name: name}
	if c.has(name) || c.layer.isWithheld(c.find(seg)) || c.closed {
		return
	}
	if c.layer.reserved != 0 {
		p := c.path().With(seg)
		if owner, _ := c.layer.reservedBy(&fieldNode{path: p, owner: ownerOf(p)}); owner != 0 {
			return
		}
	}
	c.set(name, value)
}

// setChoice sets a member of a one-of to {}, unless a preset chose another one for every element.
func (c *cursor) setChoice(name string) {
	if !slices.ContainsFunc(vmschema.VM().At(c.path()).Alternatives[name], c.has) {
		c.setDefault(name, map[string]any{})
	}
}

func (c *cursor) removed(path ...provenance.Segment) bool {
	for i := range path {
		if c.layer.removedByStronger(c.find(path[:i+1]...)) {
			return true
		}
	}
	return c.closed
}

// elements returns the elements of list field name, without those that have no name.
func (c *cursor) elements(name string) []*cursor {
	list := tree.AsList(c.get(name))
	if len(list) == 0 || c.removed(provenance.Segment{Name: name}) || !c.ensure() {
		return nil
	}
	if at := c.path().Field(name); !c.state.checkElements(list, vmschema.ByName, at.String()) {
		return nil
	}
	out := make([]*cursor, 0, len(list))
	for i, e := range list {
		if key, _ := tree.AsObject(e)["name"].(string); key != "" {
			out = append(out, c.element(name, key, i))
		}
	}
	return out
}

func (c *cursor) names(name string) map[string]bool {
	out := map[string]bool{}
	for _, e := range objectsIn(c.object, name) {
		if key, ok := e["name"].(string); ok {
			out[key] = true
		}
	}
	return out
}

// add appends an element to list field name, unless a preset removed that element or the list.
func (c *cursor) add(name, key string) *cursor {
	at := c.element(name, key, -1)
	_, isList := c.get(name).([]any)
	removed := c.removed(provenance.Segment{Name: name}, provenance.Segment{Name: key, Kind: provenance.Element})
	at.closed = at.closed || removed || !isList && c.has(name)
	at.set("name", key)
	at.applyWaiting(at.path())
	return at
}
