package domain

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

var featurePolicies = []string{"force", "require", "optional", "disable", "forbid"}

// maxVCPUs is more than the CPUs of a host that QEMU can use.
const maxVCPUs = 4096

// cpu sets the guest's CPUs. A model like the host's is left to the host. As in KubeVirt,
// maxSockets has an effect on amd64 only: other guests cannot be given CPUs later.
func (g *guest) cpu() {
	c := orNew(g.spec.Domain.CPU)
	at := field.NewPath("spec", "domain", "cpu")
	sockets, cores, threads := max(c.Sockets, 1), max(c.Cores, 1), max(c.Threads, 1)
	all, most := sockets, g.arch.vcpus
	if g.arch.name == "amd64" {
		all = max(sockets, c.MaxSockets)
	}
	if uint64(all)*uint64(cores) > most || uint64(all)*uint64(cores)*uint64(threads) > most {
		g.reject(field.Invalid(at, fmt.Sprintf("%d sockets x %d cores x %d threads", all, cores, threads), fmt.Sprintf("must not be more than %d in all", most)))
		return
	}
	g.domain.CPU = &libvirtxml.DomainCPU{Topology: &libvirtxml.DomainCPUTopology{Sockets: int(all), Cores: int(cores), Threads: int(threads)}}
	g.domain.VCPU = &libvirtxml.DomainVCPU{Placement: "static", Value: uint(all * cores * threads)}
	if all > sockets {
		g.hotplugCPUs(uint(sockets*cores*threads), uint(cores*threads))
	}
	g.cpuModel(c, at)
	g.cpuFeatures(c, at)
}

// hotplugCPUs lists all CPUs: those of the first socket are fixed, others can be plugged.
func (g *guest) hotplugCPUs(enabled, fixed uint) {
	g.domain.VCPU.Current = enabled
	g.domain.VCPUs = &libvirtxml.DomainVCPUs{}
	for id := range g.domain.VCPU.Value {
		g.domain.VCPUs.VCPU = append(g.domain.VCPUs.VCPU, libvirtxml.DomainVCPUsVCPU{
			Id: new(id), Enabled: yesNo(id < enabled), Hotpluggable: yesNo(id >= fixed),
		})
	}
}

func (g *guest) cpuModel(c *kubevirtv1.CPU, at *field.Path) {
	switch c.Model {
	case "", kubevirtv1.CPUModeHostModel:
		g.domain.CPU.Mode = kubevirtv1.CPUModeHostModel
	case kubevirtv1.CPUModeHostPassthrough:
		g.domain.CPU.Mode = kubevirtv1.CPUModeHostPassthrough
	default:
		g.domain.CPU.Mode = "custom"
		g.domain.CPU.Model = &libvirtxml.DomainCPUModel{Value: c.Model}
		return
	}
	g.leaveToHost(kindHostCPU, at.Child("model"), "")
}

// cpuFeatures adds and removes features. As in KubeVirt, custom models of amd64 have no MPX unless
// the VMI asks for it: no newer CPU has it, and QEMU still lists it in old models.
func (g *guest) cpuFeatures(c *kubevirtv1.CPU, at *field.Path) {
	seen := map[string]bool{}
	for i, f := range c.Features {
		policy, at := cmp.Or(f.Policy, "require"), at.Child("features").Index(i)
		if !slices.Contains(featurePolicies, policy) {
			g.reject(field.NotSupported(at.Child("policy"), policy, featurePolicies))
		}
		switch {
		case f.Name == "":
			g.reject(field.Required(at.Child("name"), "must be the name of a CPU feature such as vmx"))
		case seen[f.Name]:
			g.reject(field.Duplicate(at.Child("name"), f.Name))
		}
		seen[f.Name] = true
		g.domain.CPU.Features = append(g.domain.CPU.Features, libvirtxml.DomainCPUFeature{Name: f.Name, Policy: policy})
	}
	named := slices.ContainsFunc(c.Features, func(f kubevirtv1.CPUFeature) bool { return f.Name == "mpx" })
	if g.domain.CPU.Mode == "custom" && g.arch.name == "amd64" && !named {
		g.domain.CPU.Features = append(g.domain.CPU.Features, libvirtxml.DomainCPUFeature{Name: "mpx", Policy: "disable"})
	}
}
