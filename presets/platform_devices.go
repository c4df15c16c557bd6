package presets

// requiredDevices adds the object that KubeVirt's schema requires of every VM.
func (d *defaulter) requiredDevices() { d.domain.setDefault("devices", map[string]any{}) }

func (d *defaulter) acpi() {
	d.domain.child("features").child("acpi").setDefault("enabled", d.arch() != s390x)
}

// enable sets the state, such as enabled, of each feature that is present without one.
func (c *cursor) enable(state string, features ...string) {
	for _, name := range features {
		if feature := c.child(name); feature.exists() {
			feature.setDefault(state, true)
		}
	}
}

func (d *defaulter) features() {
	features := d.domain.child("features")
	features.enable("enabled", "apic", "smm", "pvspinlock")
	hyperv := features.child("hyperv")
	hyperv.enable("enabled", "relaxed", "vapic", "spinlocks", "vpindex", "runtime", "synic", "synictimer", "reset", "vendorid",
		"frequencies", "reenlightenment", "tlbflush", "ipi", "evmcs")
	hyperv.child("synictimer").enable("enabled", "direct")
	hyperv.child("tlbflush").enable("enabled", "direct", "extended")
	if spinlocks := hyperv.child("spinlocks"); spinlocks.get("enabled") == true {
		spinlocks.setDefault("spinlocks", int64(4096))
	}
}

func (d *defaulter) timers() {
	d.domain.child("clock").child("timer").enable("present", "hpet", "pit", "kvm", "rtc", "hyperv")
}

var diskTargets = []string{"disk", "cdrom", "lun"}

func (d *defaulter) disks() {
	bus, cdrom := "sata", "sata"
	if arch := d.arch(); arch == arm64 || arch == s390x {
		bus, cdrom = "virtio", "scsi" // a cdrom cannot be on the virtio bus
	}
	buses := map[string]string{"disk": bus, "cdrom": cdrom, "lun": "scsi"} // a lun passes SCSI commands through
	for _, disk := range d.devices.elements("disks") {
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
		disk.child("blockSize").enable("enabled", "matchVolume")
	}
}

func (d *defaulter) gpus() {
	for _, gpu := range d.devices.elements("gpus") {
		gpu.child("virtualGPUOptions").child("display").enable("enabled", "ramFB")
	}
}

// inputDevice adds the tablet that autoattachInputDevice asks for, with KubeVirt's name.
func (d *defaulter) inputDevice() {
	if d.devices.get("autoattachInputDevice") == true && !nonEmpty(d.devices.get("inputs")) {
		d.devices.add("inputs", "default-0")
	}
}

func (d *defaulter) inputs() {
	for _, input := range d.devices.elements("inputs") {
		if d.arch() == s390x {
			input.setDefault("bus", "virtio")
		}
		input.setDefault("bus", "usb")
		input.setDefault("type", "tablet")
	}
}

func (d *defaulter) probes() {
	for _, name := range []string{"livenessProbe", "readinessProbe"} {
		probe := d.spec.child(name)
		if !probe.exists() {
			continue
		}
		probe.setDefault("timeoutSeconds", int64(1))
		probe.setDefault("periodSeconds", int64(10))
		probe.setDefault("successThreshold", int64(1))
		probe.setDefault("failureThreshold", int64(3))
	}
}

// hypervNeeds are the enlightenments that others require, in KubeVirt's order.
var hypervNeeds = []struct{ feature, needs string }{
	{"evmcs", "vapic"}, {"ipi", "vpindex"}, {"tlbflush", "vpindex"}, {"synictimer", "synic"}, {"synic", "vpindex"},
}

// hyperv enables required enlightenments, up to one that the user disabled: validation reports it.
func (d *defaulter) hyperv() {
	hyperv := d.domain.child("features").child("hyperv")
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
		d.requireVMX()
	}
}

func (d *defaulter) requireVMX() {
	cpu := d.domain.child("cpu")
	for _, f := range cpu.elements("features") {
		if f.text("name") == "vmx" {
			f.setDefault("policy", "require")
			return
		}
	}
	cpu.add("features", "vmx").setDefault("policy", "require")
}

func (d *defaulter) watchdog() {
	watchdog := d.devices.child("watchdog")
	if !watchdog.exists() {
		return
	}
	model := "i6300esb" // KubeVirt treats unknown architectures as amd64
	switch d.arch() {
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

// confidential sets the socket of the host's quote service for a TDX guest.
func (d *defaulter) confidential() {
	if d.domain.child("launchSecurity").child("tdx").exists() {
		d.meta.child("annotations").setDefault("kubevirt.io/qgs-socket-path", "/var/run/tdx-qgs/qgs.socket")
	}
}
