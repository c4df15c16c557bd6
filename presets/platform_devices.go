package presets

func (m *machine) acpi() {
	m.domain.in("features").in("acpi").set("enabled", m.arch() != s390x)
}

// states turns on each feature that is there without saying so.
func (m *machine) states(at *spot, names ...string) {
	for _, name := range names {
		if feature := at.in(name); feature.exists() {
			feature.set("enabled", true)
		}
	}
}

func (m *machine) features() {
	features := m.domain.in("features")
	m.states(features, "apic", "smm", "pvspinlock")
	hyperv := features.in("hyperv")
	m.states(hyperv, "relaxed", "vapic", "spinlocks", "vpindex", "runtime", "synic", "synictimer", "reset", "vendorid",
		"frequencies", "reenlightenment", "tlbflush", "ipi", "evmcs")
	m.states(hyperv.in("synictimer"), "direct")
	m.states(hyperv.in("tlbflush"), "direct", "extended")
	if spinlocks := hyperv.in("spinlocks"); spinlocks.get("enabled") == true {
		spinlocks.set("spinlocks", int64(4096))
	}
}

func (m *machine) timers() {
	timer := m.domain.in("clock").in("timer")
	for _, name := range []string{"hpet", "pit", "kvm", "rtc", "hyperv"} {
		if t := timer.in(name); t.exists() {
			t.set("present", true)
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
			disk.in("disk").set("bus", bus)
		}
		for _, name := range diskTargets {
			target := disk.in(name)
			if !target.exists() {
				continue
			}
			target.set("bus", buses[name])
			if name == "cdrom" {
				target.set("readonly", true)
				target.set("tray", "closed")
			}
		}
		m.states(disk.in("blockSize"), "matchVolume")
	}
}

func (m *machine) gpus() {
	for _, gpu := range m.devices.elements("gpus") {
		m.states(gpu.in("virtualGPUOptions").in("display"), "ramFB")
	}
}

func (m *machine) inputs() {
	for _, input := range m.devices.elements("inputs") {
		input.set("bus", "usb")
		input.set("type", "tablet")
	}
}

func (m *machine) probes() {
	for _, name := range []string{"livenessProbe", "readinessProbe"} {
		probe := m.spec.in(name)
		if !probe.exists() {
			continue
		}
		probe.set("timeoutSeconds", int64(1))
		probe.set("periodSeconds", int64(10))
		probe.set("successThreshold", int64(1))
		probe.set("failureThreshold", int64(3))
	}
}

// hypervNeeds are the enlightenments that others rest on, in KubeVirt's order.
var hypervNeeds = []struct{ feature, needs string }{
	{"evmcs", "vapic"}, {"ipi", "vpindex"}, {"tlbflush", "vpindex"}, {"synictimer", "synic"}, {"synic", "vpindex"},
}

// hyperv turns on what an enlightenment needs. It stops where the user turned
// one of them off, and leaves that to validation.
func (m *machine) hyperv() {
	hyperv := m.domain.in("features").in("hyperv")
	for _, need := range hypervNeeds {
		if hyperv.in(need.feature).get("enabled") != true {
			continue
		}
		if hyperv.in(need.needs).get("enabled") == false {
			return
		}
		hyperv.in(need.needs).set("enabled", true)
	}
	if evmcs := hyperv.in("evmcs"); evmcs.exists() && evmcs.get("enabled") != false {
		m.requireVMX()
	}
}

func (m *machine) requireVMX() {
	cpu := m.domain.in("cpu")
	for _, f := range cpu.elements("features") {
		if f.text("name") == "vmx" {
			f.set("policy", "require")
			return
		}
	}
	cpu.add("features", "vmx").set("policy", "require")
}

// watchdog gives a watchdog the model of its architecture and an action.
func (m *machine) watchdog() {
	watchdog := m.devices.in("watchdog")
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
		watchdog.in(model).set("action", "reset")
	}
}

// confidential names the socket of the host's quote service to a TDX guest.
func (m *machine) confidential() {
	if m.domain.in("launchSecurity").in("tdx").exists() {
		m.meta.in("annotations").set("kubevirt.io/qgs-socket-path", "/var/run/tdx-qgs/qgs.socket")
	}
}
