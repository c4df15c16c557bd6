// Command kubevirt prints the domain that KubeVirt makes of an instance: KubeVirt's own defaults,
// then its own converter, on a host that has what the instance asks for.
//
// It is a Go module of its own, so that KubeVirt's dependencies never reach virtwright's go.mod.
// KubeVirt's packages import two generated clients that the converter never calls; the modules in
// stubs stand in for them.
package main

import (
	"encoding/xml"
	"fmt"
	"io"
	"os"

	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/client-go/log"
	"sigs.k8s.io/yaml"

	"kubevirt.io/kubevirt/pkg/defaults"
	cmdv1 "kubevirt.io/kubevirt/pkg/handler-launcher-com/cmd/v1"
	"kubevirt.io/kubevirt/pkg/os/disk"
	"kubevirt.io/kubevirt/pkg/testutils"
	"kubevirt.io/kubevirt/pkg/util"
	"kubevirt.io/kubevirt/pkg/virt-launcher/virtwrap/api"
	"kubevirt.io/kubevirt/pkg/virt-launcher/virtwrap/converter"
	"kubevirt.io/kubevirt/pkg/virt-launcher/virtwrap/converter/arch"
	"kubevirt.io/kubevirt/pkg/virt-launcher/virtwrap/converter/types"
)

// hostCPUs is how many CPUs the host has, each a core of its own, all on one node.
const hostCPUs = 64

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer) error {
	log.Log = log.DefaultLogger()
	log.Log.SetIOWriter(io.Discard)
	manifest, err := io.ReadAll(in)
	if err != nil {
		return fmt.Errorf("cannot read the instance: %w", err)
	}
	vmi := &v1.VirtualMachineInstance{}
	if err := yaml.UnmarshalStrict(manifest, vmi); err != nil {
		return fmt.Errorf("cannot parse the instance: %w", err)
	}
	config, _, _ := testutils.NewFakeClusterConfigUsingKVConfig(&v1.KubeVirtConfiguration{})
	if err := defaults.SetDefaultVirtualMachineInstance(config, vmi); err != nil {
		return fmt.Errorf("cannot set defaults: %w", err)
	}
	domain := &api.Domain{}
	context := contextOf(vmi)
	if err := converter.Convert_v1_VirtualMachineInstance_To_api_Domain(vmi, domain, context); err != nil {
		return fmt.Errorf("cannot convert: %w", err)
	}
	api.NewDefaulter(context.Architecture.GetArchitecture()).SetObjectDefaults_Domain(domain)
	for i := range domain.Spec.Devices.Disks {
		if err := converter.SetDriverCacheMode(&domain.Spec.Devices.Disks[i], directIO{}); err != nil {
			return fmt.Errorf("cannot set the cache mode of a disk: %w", err)
		}
	}
	text, err := xml.MarshalIndent(domain.Spec, "", "  ")
	if err != nil {
		return fmt.Errorf("cannot write the domain: %w", err)
	}
	_, err = fmt.Fprintln(out, string(text))
	return err
}

// contextOf is what KubeVirt's launcher would know of a host that has what vmi asks for.
func contextOf(vmi *v1.VirtualMachineInstance) *types.ConverterContext {
	c := &types.ConverterContext{
		Architecture:                    arch.NewConverter(vmi.Spec.Architecture),
		VirtualMachine:                  vmi,
		HypervisorDeviceAvailable:       true,
		SMBios:                          &cmdv1.SMBios{Manufacturer: "KubeVirt", Family: "KubeVirt", Product: "None"},
		MemBalloonStatsPeriod:           10,
		EphemeraldiskCreator:            ephemeralDisks{},
		DisksInfo:                       map[string]*disk.DiskInfo{},
		IsBlockPVC:                      map[string]bool{},
		UseLaunchSecuritySEV:            util.IsSEVVMI(vmi),
		UseLaunchSecurityTDX:            util.IsTDXVMI(vmi),
		UseLaunchSecurityPV:             util.IsSecureExecutionVMI(vmi),
		FreePageReporting:               !vmi.IsHighPerformanceVMI(),
		SerialConsoleLog:                true,
		BochsForEFIGuests:               true,
		DomainAttachmentByInterfaceName: map[string]string{},
		Topology:                        &cmdv1.Topology{NumaCells: []*cmdv1.Cell{{}}},
	}
	for id := range hostCPUs {
		c.CPUSet = append(c.CPUSet, id)
		c.Topology.NumaCells[0].Cpus = append(c.Topology.NumaCells[0].Cpus, &cmdv1.CPU{Id: uint32(id)})
	}
	for _, volume := range vmi.Spec.Volumes {
		if volume.ContainerDisk != nil {
			c.DisksInfo[volume.Name] = &disk.DiskInfo{Format: "qcow2"}
		}
	}
	for _, i := range vmi.Spec.Domain.Devices.Interfaces {
		if i.Bridge != nil || i.Masquerade != nil {
			c.DomainAttachmentByInterfaceName[i.Name] = string(v1.Tap)
		}
	}
	for _, disk := range vmi.Spec.Domain.Devices.Disks {
		c.IsBlockPVC[disk.Name] = disk.LUN != nil // only a block device is a lun
	}
	if vmi.IsBootloaderEFI() {
		c.EFIConfiguration = firmware(vmi.Spec.Architecture, vmi.Spec.Domain.Firmware.Bootloader.EFI)
	}
	return c
}

func firmware(architecture string, efi *v1.EFI) *types.EFIConfiguration {
	if architecture == "arm64" {
		return &types.EFIConfiguration{EFICode: "/usr/share/AAVMF/AAVMF_CODE.fd", EFIVars: "/usr/share/AAVMF/AAVMF_VARS.fd"}
	}
	if efi.SecureBoot == nil || *efi.SecureBoot {
		return &types.EFIConfiguration{EFICode: "/usr/share/OVMF/OVMF_CODE_4M.ms.fd", EFIVars: "/usr/share/OVMF/OVMF_VARS_4M.ms.fd", SecureLoader: true}
	}
	return &types.EFIConfiguration{EFICode: "/usr/share/OVMF/OVMF_CODE_4M.fd", EFIVars: "/usr/share/OVMF/OVMF_VARS_4M.fd"}
}

// directIO says that every file can be read directly.
type directIO struct{}

func (directIO) CheckBlockDevice(string) (bool, error) { return true, nil }
func (directIO) CheckFile(string) (bool, error)        { return true, nil }

// ephemeralDisks names the overlays of volumes, and makes none.
type ephemeralDisks struct{}

func (ephemeralDisks) CreateBackedImageForVolume(v1.Volume, string, string) error { return nil }
func (ephemeralDisks) CreateEphemeralImages(*v1.VirtualMachineInstance, *api.Domain) error {
	return nil
}
func (ephemeralDisks) GetFilePath(volume string) string {
	return "/var/run/libvirt/kubevirt-ephemeral-disk/" + volume + "/disk.qcow2"
}
func (ephemeralDisks) Init() error { return nil }
