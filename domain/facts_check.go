package domain

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The bounds of Linux on what goes over a network device.
const (
	minMTU = 68
	maxMTU = 65535
)

// Check says what is wrong with facts: what no host can say of itself. Paths
// begin with facts. It says nothing of what is missing, which only an instance
// that needs it makes wrong.
func (f *HostFacts) Check() field.ErrorList {
	at := field.NewPath("facts")
	var errs field.ErrorList
	if f.Architecture != "" {
		errs = append(errs, checkArchitecture(at.Child("architecture"), f.Architecture)...)
	}
	for _, arch := range sortedKeys(f.Emulators) {
		errs = append(errs, checkArchitecture(at.Child("emulators"), arch)...)
		errs = append(errs, checkHostPath(at.Child("emulators").Key(arch), f.Emulators[arch])...)
	}
	for _, arch := range sortedKeys(f.Machines) {
		errs = append(errs, checkArchitecture(at.Child("machines"), arch)...)
	}
	for i := range f.Firmware {
		errs = append(errs, f.Firmware[i].check(at.Child("firmware").Index(i))...)
	}
	if f.VSOCKCID > 0 && f.VSOCKCID < firstCID {
		errs = append(errs, field.Invalid(at.Child("vsockCID"), f.VSOCKCID, fmt.Sprintf("must be at least %d: those below are the host's", firstCID)))
	}
	errs = append(errs, checkHostPath(at.Child("quoteSocket"), f.QuoteSocket)...)
	for _, name := range sortedKeys(f.Volumes) {
		volume := f.Volumes[name]
		errs = append(errs, volume.check(at.Child("volumes").Key(name))...)
	}
	for _, name := range sortedKeys(f.Interfaces) {
		nic := f.Interfaces[name]
		errs = append(errs, nic.check(at.Child("interfaces").Key(name))...)
	}
	for _, name := range sortedKeys(f.Devices) {
		device := f.Devices[name]
		errs = append(errs, device.check(at.Child("devices").Key(name))...)
	}
	return errs
}

func sortedKeys[V any](of map[string]V) []string { return slices.Sorted(maps.Keys(of)) }

// checkArchitecture wants Kubernetes' names.
func checkArchitecture(at *field.Path, name string) field.ErrorList {
	known := make([]string, len(architectures))
	for i, a := range architectures {
		known[i] = a.name
	}
	return oneOf(at, name, known...)
}

// checkHostPath wants an absolute path without detours; empty is none.
func checkHostPath(at *field.Path, file string) field.ErrorList {
	if file != "" && (!isHostPath(file) || path.Clean(file) != file) {
		return field.ErrorList{field.Invalid(at, file, "must be an absolute path without detours")}
	}
	return nil
}

func (f *Firmware) check(at *field.Path) field.ErrorList {
	errs := checkArchitecture(at.Child("architecture"), f.Architecture)
	if f.Code == "" {
		errs = append(errs, field.Required(at.Child("code"), "name the file"))
	}
	errs = append(errs, checkHostPath(at.Child("code"), f.Code)...)
	errs = append(errs, checkHostPath(at.Child("vars"), f.Vars)...)
	return append(errs, oneOf(at.Child("confidential"), f.Confidential, "", "SEV", "SEV-SNP", "TDX")...)
}

func (v *VolumeFacts) check(at *field.Path) field.ErrorList {
	errs := checkHostPath(at.Child("path"), v.Path)
	errs = append(errs, oneOf(at.Child("format"), v.Format, "", "raw", "qcow2")...)
	for _, size := range []struct {
		name  string
		bytes uint
	}{{"logicalBlockSize", v.LogicalBlockSize}, {"physicalBlockSize", v.PhysicalBlockSize}} {
		if n := size.bytes; n != 0 && (n < minBlockSize || n > maxBlockSize || n&(n-1) != 0) {
			errs = append(errs, field.Invalid(at.Child(size.name), n, fmt.Sprintf("must be a power of two from %d to %d", minBlockSize, maxBlockSize)))
		}
	}
	return errs
}

// unicastForm is an address of one adapter: its first byte is even.
var unicastForm = regexp.MustCompile(`^[0-9a-fA-F][02468aceACE](:[0-9a-fA-F]{2}){5}$`)

func (n *InterfaceFacts) check(at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if n.MAC != "" && !unicastForm.MatchString(n.MAC) {
		errs = append(errs, field.Invalid(at.Child("mac"), n.MAC, "must be the address of one adapter, such as 02:00:00:00:00:01"))
	}
	if n.MTU != 0 && (n.MTU < minMTU || n.MTU > maxMTU) {
		errs = append(errs, field.Invalid(at.Child("mtu"), n.MTU, fmt.Sprintf("must be between %d and %d", minMTU, maxMTU)))
	}
	if n.Device != "" && (!bridgeForm.MatchString(n.Device) || n.Device == "." || n.Device == "..") {
		errs = append(errs, field.Invalid(at.Child("device"), n.Device, "must be the name of a network device such as tap0, 15 characters at most"))
	}
	return append(errs, checkPCI(at.Child("pci"), n.PCI)...)
}

func checkPCI(at *field.Path, address string) field.ErrorList {
	if address != "" && hostAddress(address) == nil {
		return field.ErrorList{field.Invalid(at, address, "must be a PCI address such as 0000:81:00.2")}
	}
	return nil
}

// mdevForm is a UUID as the kernel names mediated devices.
var mdevForm = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)

func (d *DeviceFacts) check(at *field.Path) field.ErrorList {
	errs := checkPCI(at.Child("pci"), d.PCI)
	if d.MDev != "" && !mdevForm.MatchString(d.MDev) {
		errs = append(errs, field.Invalid(at.Child("mdev"), d.MDev, "must be the UUID of a mediated device"))
	}
	usb, said := d.USBBus > 0 || d.USBDevice > 0, 0
	for _, one := range []bool{d.PCI != "", d.MDev != "", usb} {
		if one {
			said++
		}
	}
	if said > 1 {
		errs = append(errs, field.Forbidden(at, "a device is one of pci, mdev and usbBus with usbDevice; leave out the others"))
	}
	if usb && (d.USBBus == 0 || d.USBDevice == 0) {
		errs = append(errs, field.Required(at, "usbBus and usbDevice belong together, and are counted from 1"))
	}
	return errs
}
