// Package host gathers the facts of a pod for stage 3 of the pipeline: architecture, machine types
// and QEMU, CPUs, UEFI builds, devices, and whether hardware virtualization works, which is tried.
package host

import (
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"

	"github.com/virtwright/virtwright/domain"
)

// architectures maps libvirt's names to Kubernetes'.
var architectures = map[string]string{"x86_64": "amd64", "aarch64": "arm64", "s390x": "s390x"}

// Facts returns the facts that do not depend on a VMI.
func Facts(caps *libvirtxml.Caps, firmware []domain.Firmware) *domain.HostFacts {
	out := &domain.HostFacts{
		Emulators: map[string]string{}, Machines: map[string]map[string]string{},
		Firmware: firmware, Distances: map[uint]map[uint]uint{},
	}
	if caps.Host.CPU != nil {
		out.Architecture = architectures[caps.Host.CPU.Arch]
		if c := caps.Host.CPU.Counter; c != nil && c.Name == "tsc" {
			out.TSCFrequency = uint64(c.Frequency)
		}
	}
	for i := range caps.Guests {
		arch := architectures[caps.Guests[i].Arch.Name]
		if arch == "" || caps.Guests[i].OSType != "hvm" || out.Machines[arch] != nil {
			continue
		}
		out.Emulators[arch] = caps.Guests[i].Arch.Emulator
		out.Machines[arch] = machines(&caps.Guests[i].Arch)
	}
	topology(out, caps.Host.NUMA)
	return out
}

// machines maps machine types and aliases to versioned machine types.
func machines(arch *libvirtxml.CapsGuestArch) map[string]string {
	out := map[string]string{}
	all := arch.Machines
	for i := range arch.Domains {
		all = append(slices.Clip(all), arch.Domains[i].Machines...)
	}
	for _, m := range all {
		if _, known := out[m.Name]; !known {
			out[m.Name] = cmp.Or(m.Canonical, m.Name)
		}
	}
	return out
}

func topology(out *domain.HostFacts, numa *libvirtxml.CapsHostNUMATopology) {
	if numa == nil || numa.Cells == nil {
		return
	}
	for i := range numa.Cells.Cells {
		cell := &numa.Cells.Cells[i]
		node := uint(cell.ID)
		if cell.Distances != nil {
			out.Distances[node] = map[uint]uint{}
			for _, s := range cell.Distances.Siblings {
				out.Distances[node][uint(s.ID)] = uint(s.Value)
			}
		}
		if cell.CPUS == nil {
			continue
		}
		for _, c := range cell.CPUS.CPUs {
			out.CPUs = append(out.CPUs, domain.HostCPU{ID: uint(c.ID), Core: number(c.CoreID, c.ID), Socket: number(c.SocketID, 0), Node: node})
		}
	}
	slices.SortFunc(out.CPUs, func(a, b domain.HostCPU) int { return int(a.ID) - int(b.ID) })
}

func number(given *int, byDefault int) uint { return uint(max(ptr.Deref(given, byDefault), 0)) }

// A descriptor is the part of QEMU's firmware descriptors that is used.
type descriptor struct {
	Interfaces []string `json:"interface-types"`
	Mapping    struct {
		Device     string `json:"device"`
		Filename   string `json:"filename"`
		Executable struct {
			Filename string `json:"filename"`
			Format   string `json:"format"`
		} `json:"executable"`
		Variables struct {
			Filename string `json:"filename"`
			Format   string `json:"format"`
		} `json:"nvram-template"`
	} `json:"mapping"`
	Targets []struct {
		Architecture string `json:"architecture"`
	} `json:"targets"`
	Features []string `json:"features"`
}

// FirmwareFolders have the descriptors, as in libvirt. Later folders override earlier ones.
var FirmwareFolders = []string{"/usr/share/qemu/firmware", "/etc/qemu/firmware"}

// Firmware returns the UEFI builds of the descriptors below a root, in the order of their file
// names. A file in a later folder overrides one of the same name in an earlier folder.
func Firmware(root string, folders []string) ([]domain.Firmware, error) {
	files := map[string]string{}
	for _, folder := range folders {
		entries, err := os.ReadDir(filepath.Join(root, folder))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		for _, e := range entries {
			if strings.HasSuffix(e.Name(), ".json") {
				files[e.Name()] = filepath.Join(root, folder, e.Name())
			}
		}
	}
	var out []domain.Firmware
	for _, name := range slices.Sorted(maps.Keys(files)) {
		var d descriptor
		text, err := os.ReadFile(files[name])
		if err != nil || json.Unmarshal(text, &d) != nil {
			continue // an empty file disables one of the same name
		}
		out = append(out, d.builds()...)
	}
	return out, nil
}

// builds returns the builds of a descriptor, one for each architecture.
func (d *descriptor) builds() []domain.Firmware {
	if !slices.Contains(d.Interfaces, "uefi") {
		return nil
	}
	build := domain.Firmware{Secure: slices.Contains(d.Features, "secure-boot") && slices.Contains(d.Features, "enrolled-keys")}
	switch {
	case d.Mapping.Device == "flash" && d.Mapping.Executable.Format == "raw" && d.Mapping.Variables.Format == "raw":
		// A build for secure boot does not enforce it while its variable store is empty, and it
		// needs SMM. It is used neither with secure boot nor without.
		if slices.Contains(d.Features, "secure-boot") && !build.Secure {
			return nil
		}
		build.Code, build.Vars = d.Mapping.Executable.Filename, d.Mapping.Variables.Filename
	case d.Mapping.Device == "memory":
		build.Code = d.Mapping.Filename
		build.Confidential = confidential(d.Features)
		if build.Confidential == "" {
			return nil
		}
	default:
		return nil
	}
	var out []domain.Firmware
	for _, t := range d.Targets {
		arch := architectures[t.Architecture]
		if arch == "" {
			continue
		}
		build.Architecture = arch
		out = append(out, build)
		if build.Confidential == "" && !build.Secure && slices.Contains(d.Features, "amd-sev") {
			sev := build
			sev.Confidential = "SEV"
			out = append(out, sev)
		}
	}
	return out
}

func confidential(features []string) string {
	for _, f := range []struct{ feature, name string }{{"intel-tdx", "TDX"}, {"amd-sev-snp", "SEV-SNP"}, {"amd-sev", "SEV"}} {
		if slices.Contains(features, f.feature) {
			return f.name
		}
	}
	return ""
}

// Allowed returns the CPUs that this process may use: those that the kubelet assigned to the pod.
func Allowed(cpus []domain.HostCPU) []domain.HostCPU {
	var set unix.CPUSet
	if unix.SchedGetaffinity(0, &set) != nil {
		return cpus
	}
	return slices.DeleteFunc(cpus, func(c domain.HostCPU) bool { return !set.IsSet(int(c.ID)) })
}

// Devices returns the facts about GPUs and host devices of a VMI, by their name in the VMI. Device
// plugins set the addresses of a resource in an environment variable. It omits devices without an
// address.
func Devices(devices *kubevirtv1.Devices, env func(string) string) map[string]domain.DeviceFacts {
	out, left := map[string]domain.DeviceFacts{}, map[string][]string{}
	take := func(name, resource string) {
		for _, prefix := range []string{"PCI_RESOURCE_", "MDEV_PCI_RESOURCE_"} {
			variable := prefix + variableName(resource)
			addresses, seen := left[variable]
			if !seen {
				addresses = strings.FieldsFunc(env(variable), func(r rune) bool { return r == ',' })
			}
			if len(addresses) == 0 {
				continue
			}
			left[variable] = addresses[1:]
			if prefix == "PCI_RESOURCE_" {
				out[name] = domain.DeviceFacts{PCI: addresses[0]}
			} else {
				out[name] = domain.DeviceFacts{MDev: addresses[0]}
			}
			return
		}
	}
	for i := range devices.GPUs {
		take(devices.GPUs[i].Name, devices.GPUs[i].DeviceName)
	}
	for i := range devices.HostDevices {
		take(devices.HostDevices[i].Name, devices.HostDevices[i].DeviceName)
	}
	return out
}

// variableName returns a resource name as a part of the name of an environment variable.
func variableName(resource string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, strings.ToUpper(resource))
}
