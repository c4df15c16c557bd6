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
}

// A platformRule is one row of KubeVirt's defaulting, as a function of the
// machine so far. Later rules see what earlier ones set.
type platformRule struct {
	name string
	set  func(m *machine)
}

// platformRules are the platform defaults, in the order in which they act.
// Everything that is deterministic in KubeVirt's webhooks for VMs and VMIs is
// here, except status, finalizers and the hotplug maxima, which belong to the
// instance that runs.
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
}

// machine is a VM on which platform rules act.
type machine struct {
	platform *Platform
	w        *work
	layer    *layer
	// instance says that the object is a VMI, so that only its template counts.
	instance bool
	// foreign are the fields that instancetype and preference fill.
	foreign ownership

	vm, meta, spec, domain, devices *spot
}

// applyPlatform lets every rule act on w.
func (w *work) applyPlatform(p *Platform) {
	m := &machine{platform: p, w: w, instance: w.instance != nil, foreign: w.barred(provenance.Platform) & (ownedByInstancetype | ownedByPreference)}
	root := &spot{m: m, obj: w.root, node: w.rec.Root()}
	m.vm = root.in("spec")
	template := m.vm.in("template")
	m.meta, m.spec = template.in("metadata"), template.in("spec")
	m.domain = m.spec.in("domain")
	m.devices = m.domain.in("devices")
	for _, rule := range platformRules {
		m.layer = &layer{w: w, role: provenance.Platform, name: rule.name, source: provenance.NoSource}
		rule.set(m)
	}
}

// A spot is one object in a machine, there or not yet. Setting a field makes
// what is missing on the way.
type spot struct {
	m      *machine
	parent *spot
	name   string
	// key of the element of list name; "" where name is a field.
	key  string
	obj  map[string]any
	node *provenance.Node
	// dead spots lie where a preset took something away, or where the
	// user wrote something that is no object.
	dead  bool
	fresh bool
}

// in returns the spot of the object in field name.
func (s *spot) in(name string) *spot {
	out := &spot{m: s.m, parent: s, name: name, dead: s.dead}
	if s.node != nil {
		out.node = s.node.Find(provenance.Segment{Name: name})
	}
	if s.obj != nil && !s.dead {
		switch at := s.obj[name].(type) {
		case nil:
		case map[string]any:
			out.obj = at
		default:
			out.dead = true
			s.m.w.wrongType(&part{path: out.path().String()}, at, "an object")
		}
	}
	out.fresh = s.fresh || out.node != nil && out.node.Change == provenance.Added
	out.dead = out.dead || s.m.w.takenAway(out.node)
	return out
}

// path is where the spot lies.
func (s *spot) path() provenance.Path {
	if s.parent == nil {
		return nil
	}
	at := s.parent.path().With(provenance.Segment{Name: s.name})
	if s.key != "" {
		at = at.With(provenance.Segment{Name: s.key, Kind: provenance.Element})
	}
	return at
}

// get returns the value of a field; nil where there is none.
func (s *spot) get(name string) any {
	if s.obj == nil {
		return nil
	}
	return s.obj[name]
}

func (s *spot) has(name string) bool { return s.get(name) != nil }

// text returns the value of a string field, "" where there is none.
func (s *spot) text(name string) string {
	v, _ := s.get(name).(string)
	return v
}

// exists reports whether the object is there.
func (s *spot) exists() bool { return s.obj != nil && !s.dead }

// set gives a field a value unless it has one, a preset took it away, or it is
// for an instancetype or a preference to fill.
func (s *spot) set(name string, value any) {
	seg := provenance.Segment{Name: name}
	if s.has(name) || s.taken(seg) || s.m.foreign != 0 && ownerOf(s.path().With(seg))&s.m.foreign != 0 || !s.make() {
		return
	}
	n := s.m.w.rec.Child(s.node, seg)
	s.obj[name] = value
	if !s.fresh {
		n.Change, n.Value = provenance.Added, value
	}
	s.m.layer.decides(n)
}

// taken reports whether a preset took away what lies at segs.
func (s *spot) taken(segs ...provenance.Segment) bool {
	n := s.node
	for _, seg := range segs {
		if n == nil {
			break
		}
		if n = n.Find(seg); s.m.w.takenAway(n) {
			return true
		}
	}
	return s.dead
}

// make makes the object where it is missing, and reports whether it is there.
func (s *spot) make() bool {
	if s.dead || s.parent != nil && s.node == nil && !s.locate() {
		return false
	}
	if s.obj != nil {
		s.node.WasEmpty = s.node.WasEmpty || len(s.obj) == 0 && !s.fresh && s.node.Source == provenance.NoSource
		return true
	}
	if !s.parent.make() {
		return false
	}
	s.makeIn()
	return true
}

// makeIn makes the object in its parent.
func (s *spot) makeIn() {
	if made, ok := s.parent.obj[s.name].(map[string]any); ok {
		s.obj = made
		return
	}
	s.obj = map[string]any{}
	s.parent.obj[s.name] = s.obj
	if !s.fresh && !s.parent.fresh {
		s.node.Change, s.node.Value = provenance.Added, s.obj
	}
	s.fresh = true
}

// locate gives the spot its node in the record.
func (s *spot) locate() bool {
	if !s.parent.make() {
		return false
	}
	s.node = s.m.w.rec.Child(s.parent.node, provenance.Segment{Name: s.name})
	s.fresh = s.fresh || s.parent.fresh
	return true
}
