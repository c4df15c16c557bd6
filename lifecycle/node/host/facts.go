// Package host says what a host is and can do, for stage 3 of the pipeline: its
// architecture, its machines and emulators, its processors, its UEFI builds,
// and whether it runs guests in hardware, which is tried and not believed.
package host

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"libvirt.org/go/libvirtxml"

	"github.com/virtwright/virtwright/domain"
)

// architectures are libvirt's names and Kubernetes' for the same.
var architectures = map[string]string{"x86_64": "amd64", "aarch64": "arm64", "s390x": "s390x"}

// Facts are those that do not depend on an instance.
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

// machines are the types behind their names, most of which are their own.
func machines(arch *libvirtxml.CapsGuestArch) map[string]string {
	out := map[string]string{}
	all := arch.Machines
	for i := range arch.Domains {
		all = append(slices.Clip(all), arch.Domains[i].Machines...)
	}
	for _, m := range all {
		canonical := m.Canonical
		if canonical == "" {
			canonical = m.Name
		}
		if _, known := out[m.Name]; !known {
			out[m.Name] = canonical
		}
	}
	return out
}

// topology says where the host's processors are.
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

func number(given *int, otherwise int) uint {
	if given == nil {
		return uint(otherwise)
	}
	return uint(max(*given, 0))
}

// A descriptor is what QEMU's firmware descriptors say, as far as it matters.
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

// FirmwareFolders are where descriptors are, the weakest first, as libvirt has
// it.
var FirmwareFolders = []string{"/usr/share/qemu/firmware", "/etc/qemu/firmware"}

// Firmware are the UEFI builds that descriptors below a root name, in the order
// of their names. A file in a later folder stands for that of the same name in
// an earlier one.
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
	names := make([]string, 0, len(files))
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	var out []domain.Firmware
	for _, name := range names {
		var d descriptor
		text, err := os.ReadFile(files[name])
		if err != nil || json.Unmarshal(text, &d) != nil {
			continue // an empty file takes one of the same name away
		}
		out = append(out, d.builds()...)
	}
	return out, nil
}

// builds is a descriptor as facts, for each architecture.
func (d *descriptor) builds() []domain.Firmware {
	if !slices.Contains(d.Interfaces, "uefi") {
		return nil
	}
	build := domain.Firmware{Secure: slices.Contains(d.Features, "secure-boot") && slices.Contains(d.Features, "enrolled-keys")}
	switch {
	case d.Mapping.Device == "flash" && d.Mapping.Executable.Format == "raw" && d.Mapping.Variables.Format == "raw":
		// An empty variable store under a build that can enforce secure boot
		// enforces nothing, and is for machines with SMM alone: not for either.
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
