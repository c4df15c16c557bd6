package presets

func (m *machine) acpi() {
	m.domain.child("features").child("acpi").setDefault("enabled", m.arch() != s390x)
}

// states turns on each feature that is there without saying so.
func (m *machine) states(at *cursor, names ...string) {
	for _, name := range names {
		if feature := at.child(name); feature.exists() {
			feature.setDefault("enabled", true)
		}
	}
}

func (m *machine) features() {
	features := m.domain.child("features")
	m.states(features, "apic", "smm", "pvspinlock")
	hyperv := features.child("hyperv")
	m.states(hyperv, "relaxed", "vapic", "spinlocks", "vpindex", "runtime", "synic", "synictimer", "reset", "vendorid",
		"frequencies", "reenlightenment", "tlbflush", "ipi", "evmcs")
	m.states(hyperv.child("synictimer"), "direct")
	m.states(hyperv.child("tlbflush"), "direct", "extended")
	if spinlocks := hyperv.child("spinlocks"); spinlocks.get("enabled") == true {
		spinlocks.setDefault("spinlocks", int64(4096))
	}
}

func (m *machine) timers() {
	timer := m.domain.child("clock").child("timer")
	for _, name := range []string{"hpet", "pit", "kvm", "rtc", "hyperv"} {
		if t := timer.child(name); t.exists() {
			t.setDefault("present", true)
		}
	}
}

var diskTargets = []string{"disk", "cdrom", "lun"}

func (m *machine) disks() {
	bus := "sata"
	if arch := m.arch(); arch == arm64 || arch == s390x {
		bus = "virtio"
	}
	buses := map[string]string{"disk": bus, "cdrom": bus, "lun": "scsi"} // a lun passes SCSI commands through
	for _, disk := range m.devices.elements("disks") {
		if !disk.has("disk") && !disk.has("cdrom") && !disk.has("lun") {
			disk.child("disk").setDefault("bus", bus)
		}
		for _, name := range diskTargets {
			target := disk.child(name)
			if !target.exists() {
				continue
			}
			target.setDefault("bus", buses[name])
			if name == "cdrom" {
				target.setDefault("readonly", true)
				target.setDefault("tray", "closed")
			}
		}
		m.states(disk.child("blockSize"), "matchVolume")
	}
}

func (m *machine) gpus() {
	for _, gpu := range m.devices.elements("gpus") {
		m.states(gpu.child("virtualGPUOptions").child("display"), "ramFB")
	}
}

func (m *machine) inputs() {
	for _, input := range m.devices.elements("inputs") {
		input.setDefault("bus", "usb")
		input.setDefault("type", "tablet")
	}
}

func (m *machine) probes() {
	for _, name := range []string{"livenessProbe", "readinessProbe"} {
		probe := m.spec.child(name)
		if !probe.exists() {
			continue
		}
		probe.setDefault("timeoutSeconds", int64(1))
		probe.setDefault("periodSeconds", int64(10))
		probe.setDefault("successThreshold", int64(1))
		probe.setDefault("failureThreshold", int64(3))
	}
}

// hypervNeeds are the enlightenments that others rest on, in KubeVirt's order.
var hypervNeeds = []struct{ feature, needs string }{
	{"evmcs", "vapic"}, {"ipi", "vpindex"}, {"tlbflush", "vpindex"}, {"synictimer", "synic"}, {"synic", "vpindex"},
}

// hyperv turns on what an enlightenment needs. It stops where the user turned
// one of them off, and leaves that to validation.
func (m *machine) hyperv() {
	hyperv := m.domain.child("features").child("hyperv")
	for _, need := range hypervNeeds {
		if hyperv.child(need.feature).get("enabled") != true {
			continue
		}
		if hyperv.child(need.needs).get("enabled") == false {
			return
		}
		hyperv.child(need.needs).setDefault("enabled", true)
	}
	if evmcs := hyperv.child("evmcs"); evmcs.exists() && evmcs.get("enabled") != false {
		m.requireVMX()
	}
}

func (m *machine) requireVMX() {
	cpu := m.domain.child("cpu")
	for _, f := range cpu.elements("features") {
		if f.text("name") == "vmx" {
			f.setDefault("policy", "require")
			return
		}
	}
	cpu.add("features", "vmx").setDefault("policy", "require")
}

// watchdog gives a watchdog the model of its architecture and an action.
func (m *machine) watchdog() {
	watchdog := m.devices.child("watchdog")
	if !watchdog.exists() {
		return
	}
	model := "i6300esb" // KubeVirt treats what it does not know as amd64
	switch m.arch() {
	case s390x:
		model = "diag288"
	case arm64:
		model = ""
	}
	for _, other := range []string{"i6300esb", "diag288"} {
		if watchdog.has(other) {
			model = other
		}
	}
	if model != "" {
		watchdog.child(model).setDefault("action", "reset")
	}
}

// confidential names the socket of the host's quote service to a TDX guest.
func (m *machine) confidential() {
	if m.domain.child("launchSecurity").child("tdx").exists() {
		m.meta.child("annotations").setDefault("kubevirt.io/qgs-socket-path", "/var/run/tdx-qgs/qgs.socket")
	}
}
