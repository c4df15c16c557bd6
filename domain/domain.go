package domain

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"

	"github.com/virtwright/virtwright/api/v1alpha1"
)

// A Partial is a domain as its guest sees it: the outcome of stage 2. By
// itself it is not valid for libvirt, which wants sources, paths and a type.
type Partial struct {
	// Domain holds what the guest sees.
	Domain libvirtxml.Domain
	// Instance is what Domain was made of, with what the frontend settings added.
	Instance *kubevirtv1.VirtualMachineInstance
	// Late are the placeholders that stage 3 must resolve.
	Late []Late
}

// A Whole is a complete domain: the outcome of stage 3.
type Whole struct {
	// Domain is complete: libvirt defines and starts it as it is.
	Domain libvirtxml.Domain
	// Decisions are what stage 3 resolved, chose and went without, in the order
	// of its steps.
	Decisions []Decision
}

// A Decision is something that stage 3 decided about a domain and an
// administrator may want to read.
type Decision struct {
	// Field is the field of the instance that it is about; empty where it is none.
	Field string `json:"field,omitempty"`
	// Element is the part of the domain, as an XPath below <domain>.
	Element string `json:"element"`
	// Value is what was decided; empty where the element was left out.
	Value string `json:"value,omitempty"`
	// Reason is why.
	Reason string `json:"reason"`
	// Degraded says that the guest gets less than the instance asks for.
	Degraded bool `json:"degraded,omitempty"`
}

// String is the decision as one line.
func (d Decision) String() string {
	text := d.Element
	if d.Value != "" {
		text += " = " + d.Value
	}
	if d.Field != "" {
		text += " (" + d.Field + ")"
	}
	return text + ": " + d.Reason
}

// A guest is a partial domain in the making: what steps of stage 2 work on.
type guest struct {
	vmi *kubevirtv1.VirtualMachineInstance
	// spec is that of vmi.
	spec     *kubevirtv1.VirtualMachineInstanceSpec
	settings *v1alpha1.FrontendSettings
	arch     *architecture
	domain   *libvirtxml.Domain
	devices  *libvirtxml.DomainDeviceList
	late     []Late
	// named are the aliases that are given.
	named map[string]bool
	// networks are those of spec by name, once somebody has asked.
	networks map[string]*kubevirtv1.Network
	errs     field.ErrorList
}

// A frontendStep writes one part of what a guest sees.
type frontendStep struct {
	name string
	run  func(*guest)
}

// frontendSteps are stage 2, in order. A step reads what earlier ones wrote.
var frontendSteps = []frontendStep{
	{"text", (*guest).texts},
	{"identity", (*guest).identity},
	{"os", (*guest).operatingSystem},
	{"firmware", (*guest).firmware},
	{"kernel", (*guest).kernel},
	{"sysinfo", (*guest).sysinfo},
	{"cpu", (*guest).cpu},
	{"memory", (*guest).memory},
	{"numa", (*guest).numa},
	{"features", (*guest).features},
	{"hyperv", (*guest).hyperv},
	{"clock", (*guest).clock},
	{"disks", (*guest).disks},
	{"filesystems", (*guest).filesystems},
	{"interfaces", (*guest).interfaces},
	{"inputs", (*guest).inputs},
	{"video", (*guest).video},
	{"serial", (*guest).serial},
	{"channels", (*guest).channels},
	{"rng", (*guest).rng},
	{"balloon", (*guest).balloon},
	{"watchdog", (*guest).watchdog},
	{"tpm", (*guest).tpm},
	{"sound", (*guest).sound},
	{"panic", (*guest).panics},
	{"vsock", (*guest).vsock},
	{"redirection", (*guest).redirection},
	{"host-devices", (*guest).hostDevices},
	{"controllers", (*guest).controllers},
	{"launch-security", (*guest).launchSecurity},
}

// Frontend is stage 2: what the guest of an instance sees. The instance is one
// that stage 1 has completed, or that an API server has stored; it is not
// changed. Nil settings are what is built in. Errors name fields of the instance:
// what is missing, wrong, or not supported.
func Frontend(vmi *kubevirtv1.VirtualMachineInstance, settings *v1alpha1.FrontendSettings) (*Partial, field.ErrorList) {
	arch, err := architectureOf(vmi.Spec.Architecture)
	if err != nil {
		return nil, field.ErrorList{err}
	}
	if settings == nil {
		settings = new(builtinFrontend())
	}
	completed := completed(vmi, settings)
	partial := &Partial{Instance: completed, Domain: libvirtxml.Domain{Devices: &libvirtxml.DomainDeviceList{}}}
	g := &guest{
		vmi: completed, spec: &completed.Spec, settings: settings, arch: arch,
		domain: &partial.Domain, devices: partial.Domain.Devices,
	}
	g.errs = append(g.errs, unsupported(completed)...)
	for _, step := range frontendSteps {
		step.run(g)
	}
	if len(g.errs) > 0 {
		return nil, g.errs
	}
	partial.Late = g.late
	return partial, nil
}

// A host is a complete domain in the making: what steps of stage 3 work on.
type host struct {
	partial  *Partial
	vmi      *kubevirtv1.VirtualMachineInstance
	spec     *kubevirtv1.VirtualMachineInstanceSpec
	settings *v1alpha1.BackendSettings
	facts    *HostFacts
	arch     *architecture
	domain   *libvirtxml.Domain
	devices  *libvirtxml.DomainDeviceList
	// adapters are those of devices by alias, once somebody has asked.
	adapters map[string]*libvirtxml.DomainInterface
	// networks are those of spec by name, likewise.
	networks map[string]*kubevirtv1.Network
	// emulated says that the guest runs without hardware virtualization.
	emulated  bool
	decisions []Decision
	errs      field.ErrorList
}

// A backendStep maps one part of a guest to a host.
type backendStep struct {
	name string
	run  func(*host)
}

// backendSteps are stage 3, in order.
var backendSteps = []backendStep{
	{"accelerator", (*host).accelerator},
	{"emulation", (*host).emulation},
	{"late", (*host).resolveLate},
	{"metadata", (*host).metadata},
	{"firmware", (*host).firmware},
	{"kernel", (*host).kernel},
	{"memory", (*host).memory},
	{"cpu-placement", (*host).cpuPlacement},
	{"disks", (*host).disks},
	{"io-threads", (*host).ioThreads},
	{"filesystems", (*host).filesystems},
	{"interfaces", (*host).interfaces},
	{"graphics", (*host).graphics},
	{"serial", (*host).serial},
	{"channels", (*host).channels},
	{"rng", (*host).rng},
	{"balloon", (*host).balloon},
	{"tpm", (*host).tpm},
	{"redirection", (*host).redirection},
	{"launch-security", (*host).launchSecurity},
}

// Backend is stage 3: how a host provides what a guest sees. The partial is
// not changed, so that it can be given to several backends. Errors name fields
// of the instance, or facts of the host that are missing.
func Backend(partial *Partial, settings *v1alpha1.BackendSettings, facts *HostFacts) (*Whole, field.ErrorList) {
	return complete(partial, copied(&partial.Domain), settings, facts)
}

// complete is Backend on a domain that it may change.
func complete(partial *Partial, domain *libvirtxml.Domain, settings *v1alpha1.BackendSettings, facts *HostFacts) (*Whole, field.ErrorList) {
	arch, err := architectureOf(partial.Instance.Spec.Architecture)
	if err != nil {
		return nil, field.ErrorList{err}
	}
	whole := &Whole{Domain: *domain}
	h := &host{
		partial: partial, vmi: partial.Instance, spec: &partial.Instance.Spec, settings: settings, facts: facts,
		arch: arch, domain: &whole.Domain, devices: whole.Domain.Devices,
	}
	for _, step := range backendSteps {
		step.run(h)
	}
	if len(h.errs) > 0 {
		return nil, h.errs
	}
	whole.Decisions = h.decisions
	return whole, nil
}

// Render writes a domain as libvirt reads it.
func Render(d *libvirtxml.Domain) (string, error) {
	text, err := d.Marshal()
	if err != nil {
		return "", fmt.Errorf("cannot write the domain as XML: %w", err)
	}
	return text + "\n", nil
}

// refuse notes an error about a field of the instance.
func (g *guest) refuse(err *field.Error) { g.errs = append(g.errs, err) }

// bind leaves a placeholder.
func (g *guest) bind(l Late) { g.late = append(g.late, l) }

// refuse notes an error about a field of the instance or a missing fact.
func (h *host) refuse(err *field.Error) { h.errs = append(h.errs, err) }

// decide notes a decision.
func (h *host) decide(d Decision) { h.decisions = append(h.decisions, d) }
