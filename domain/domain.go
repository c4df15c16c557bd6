// Package domain renders a VMI as a libvirt domain, in two stages. Frontend (stage 2) renders what
// the guest sees, from the VMI and frontend settings. Backend (stage 3) renders how a host provides
// it, from backend settings and facts of the host. Stage 1 is the presets engine.
//
// A stage is a list of small steps, one for each concern: methods of guest and of host. Values that
// a guest sees and only a host knows are Placeholders, which stage 3 must resolve. Stage 3 records
// what it resolves, chooses or must omit as Decisions. The mapping follows KubeVirt's virt-launcher
// (pkg/virt-launcher/virtwrap); docs/domain.md lists the differences, and the laws that are tested.
package domain

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"

	"github.com/virtwright/virtwright/api/v1alpha1"
)

// A GuestDomain is a domain as its guest sees it: the result of stage 2. It is not valid for
// libvirt, which requires sources, paths and a type.
type GuestDomain struct {
	// Domain has what the guest sees.
	Domain libvirtxml.Domain
	// VMI is the VMI with the additions of the frontend settings.
	VMI *kubevirtv1.VirtualMachineInstance
	// Placeholders must be resolved by stage 3.
	Placeholders []Placeholder
}

// A HostDomain is a complete domain: the result of stage 3.
type HostDomain struct {
	// Domain can be defined and started by libvirt.
	Domain libvirtxml.Domain
	// Decisions of stage 3, in the order of its steps.
	Decisions []Decision
}

// A Decision is a choice of stage 3 that an administrator may want to know.
type Decision struct {
	// Field of the VMI that the decision is about; empty if there is none.
	Field string `json:"field,omitempty"`
	// Element of the domain, as an XPath below <domain>.
	Element string `json:"element"`
	// Value that was chosen; empty if the element was left out.
	Value string `json:"value,omitempty"`
	// Reason for the choice.
	Reason string `json:"reason"`
	// Degraded says that the guest gets less than the VMI asks for.
	Degraded bool `json:"degraded,omitempty"`
}

// String returns the decision as one line.
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

// A guest is the state of stage 2.
type guest struct {
	vmi          *kubevirtv1.VirtualMachineInstance
	spec         *kubevirtv1.VirtualMachineInstanceSpec
	settings     *v1alpha1.FrontendSettings
	arch         *architecture
	domain       *libvirtxml.Domain
	devices      *libvirtxml.DomainDeviceList
	placeholders []Placeholder
	// aliases that devices have.
	aliases  map[string]bool
	networks map[string]*kubevirtv1.Network
	errs     field.ErrorList
}

// frontendSteps are stage 2, in order. Steps depend on the results of earlier ones.
var frontendSteps = []func(*guest){
	(*guest).texts,
	(*guest).identity,
	(*guest).operatingSystem,
	(*guest).firmware,
	(*guest).kernel,
	(*guest).sysinfo,
	(*guest).cpu,
	(*guest).memory,
	(*guest).numa,
	(*guest).features,
	(*guest).hyperv,
	(*guest).clock,
	(*guest).disks,
	(*guest).filesystems,
	(*guest).interfaces,
	(*guest).inputs,
	(*guest).video,
	(*guest).serial,
	(*guest).channels,
	(*guest).rng,
	(*guest).balloon,
	(*guest).watchdog,
	(*guest).tpm,
	(*guest).sound,
	(*guest).panics,
	(*guest).vsock,
	(*guest).redirection,
	(*guest).hostDevices,
	(*guest).controllers,
	(*guest).launchSecurity,
}

// Frontend runs stage 2: it renders what the guest of a VMI sees. The VMI must have been through
// stage 1, or have been stored by an API server; it is not changed. Without settings the built-in
// ones apply. Errors name fields of the VMI that are missing, invalid or not supported.
func Frontend(vmi *kubevirtv1.VirtualMachineInstance, settings *v1alpha1.FrontendSettings) (*GuestDomain, field.ErrorList) {
	arch, err := architectureOf(vmi.Spec.Architecture)
	if err != nil {
		return nil, field.ErrorList{err}
	}
	if settings == nil {
		settings = new(builtinFrontend())
	}
	completed := completed(vmi, settings)
	out := &GuestDomain{VMI: completed, Domain: libvirtxml.Domain{Devices: &libvirtxml.DomainDeviceList{}}}
	g := &guest{
		vmi: completed, spec: &completed.Spec, settings: settings, arch: arch,
		domain: &out.Domain, devices: out.Domain.Devices, errs: rejectSet(completed, unsupportedFields),
		aliases: map[string]bool{}, networks: networksByName(&completed.Spec),
	}
	for _, step := range frontendSteps {
		step(g)
	}
	if len(g.errs) > 0 {
		return nil, g.errs
	}
	out.Placeholders = g.placeholders
	return out, nil
}

// A host is the state of stage 3.
type host struct {
	guest    *GuestDomain
	vmi      *kubevirtv1.VirtualMachineInstance
	spec     *kubevirtv1.VirtualMachineInstanceSpec
	settings *v1alpha1.BackendSettings
	facts    *HostFacts
	arch     *architecture
	domain   *libvirtxml.Domain
	devices  *libvirtxml.DomainDeviceList
	// adapters by alias; nil until they are needed.
	adapters map[string]*libvirtxml.DomainInterface
	networks map[string]*kubevirtv1.Network
	// emulated says that the guest runs without hardware virtualization.
	emulated  bool
	decisions []Decision
	errs      field.ErrorList
}

// backendSteps are stage 3, in order.
var backendSteps = []func(*host){
	(*host).accelerator,
	(*host).emulation,
	(*host).placeholders,
	(*host).metadata,
	(*host).firmware,
	(*host).kernel,
	(*host).memory,
	(*host).cpuPlacement,
	(*host).disks,
	(*host).ioThreads,
	(*host).filesystems,
	(*host).interfaces,
	(*host).graphics,
	(*host).serial,
	(*host).channels,
	(*host).rng,
	(*host).balloon,
	(*host).tpm,
	(*host).redirection,
	(*host).launchSecurity,
}

// Backend runs stage 3: it renders how a host provides what a guest sees. It does not change the
// guest domain, which can be given to several backends. Errors name fields of the VMI, or facts of
// the host that are missing.
func Backend(g *GuestDomain, settings *v1alpha1.BackendSettings, facts *HostFacts) (*HostDomain, field.ErrorList) {
	return complete(g, *copied(&g.Domain), settings, facts)
}

// complete runs stage 3 on a domain that it may change.
func complete(g *GuestDomain, d libvirtxml.Domain, settings *v1alpha1.BackendSettings, facts *HostFacts) (*HostDomain, field.ErrorList) {
	arch, err := architectureOf(g.VMI.Spec.Architecture)
	if err != nil {
		return nil, field.ErrorList{err}
	}
	out := &HostDomain{Domain: d}
	h := &host{
		guest: g, vmi: g.VMI, spec: &g.VMI.Spec, settings: settings, facts: facts,
		arch: arch, domain: &out.Domain, devices: out.Domain.Devices, networks: networksByName(&g.VMI.Spec),
	}
	h.setDefaults()
	for _, step := range backendSteps {
		step(h)
	}
	if len(h.errs) > 0 {
		return nil, h.errs
	}
	out.Decisions = h.decisions
	return out, nil
}

// Render writes a domain as XML.
func Render(d *libvirtxml.Domain) (string, error) {
	text, err := d.Marshal()
	if err != nil {
		return "", fmt.Errorf("cannot write the domain as XML: %w", err)
	}
	return text + "\n", nil
}

func (g *guest) reject(err *field.Error) { g.errs = append(g.errs, err) }

func (h *host) reject(err *field.Error) { h.errs = append(h.errs, err) }

func (h *host) decide(d Decision) { h.decisions = append(h.decisions, d) }

// A Plan is the result of both stages for a VMI.
type Plan struct {
	Guest *GuestDomain
	Host  *HostDomain
	// FrontendProfiles and BackendProfiles are the names of the profiles that match, strongest
	// first.
	FrontendProfiles, BackendProfiles []string
}

// Plan runs both stages for a VMI under the profiles that match it, given the labels of its
// namespace. Without facts it assumes those of AssumedFacts; what it rejects then can run on no
// host.
func (p *Profiles) Plan(vmi *kubevirtv1.VirtualMachineInstance, namespace map[string]string, facts *HostFacts) (*Plan, field.ErrorList) {
	return p.plan(vmi, namespace, facts, Backend)
}

// Check returns the errors of Plan under AssumedFacts. It needs no copy of the guest domain.
func (p *Profiles) Check(vmi *kubevirtv1.VirtualMachineInstance, namespace map[string]string) field.ErrorList {
	_, errs := p.plan(vmi, namespace, nil, func(g *GuestDomain, settings *v1alpha1.BackendSettings, facts *HostFacts) (*HostDomain, field.ErrorList) {
		return complete(g, g.Domain, settings, facts)
	})
	return errs
}

func (p *Profiles) plan(
	vmi *kubevirtv1.VirtualMachineInstance, namespace map[string]string, facts *HostFacts,
	backend func(*GuestDomain, *v1alpha1.BackendSettings, *HostFacts) (*HostDomain, field.ErrorList),
) (*Plan, field.ErrorList) {
	frontendSettings, frontendProfiles := p.Frontend(vmi, namespace)
	backendSettings, backendProfiles := p.Backend(vmi, namespace)
	guest, errs := Frontend(vmi, frontendSettings)
	if len(errs) > 0 {
		return nil, errs
	}
	if facts == nil {
		facts = AssumedFacts(guest.VMI)
	}
	host, errs := backend(guest, backendSettings, facts)
	if len(errs) > 0 {
		return nil, errs
	}
	return &Plan{Guest: guest, Host: host, FrontendProfiles: frontendProfiles, BackendProfiles: backendProfiles}, nil
}

// An Input is all that a launcher needs to run a guest and cannot find in its pod.
type Input struct {
	// VMI has name, namespace, UID, labels and spec.
	VMI *kubevirtv1.VirtualMachineInstance `json:"vmi"`
	// Frontend and Backend are the settings of the profiles that match the VMI.
	Frontend *v1alpha1.FrontendSettings `json:"frontend"`
	Backend  *v1alpha1.BackendSettings  `json:"backend"`
	// FrontendProfiles and BackendProfiles are the names of these profiles, strongest first.
	FrontendProfiles []string `json:"frontendProfiles,omitempty"`
	BackendProfiles  []string `json:"backendProfiles,omitempty"`
	// Volumes by name, if their folder is not enough to know about them.
	Volumes map[string]InputVolume `json:"volumes,omitempty"`
}

// An InputVolume describes a volume to a launcher.
type InputVolume struct {
	// Capacity is the size of the disk image that the launcher creates if the volume has none.
	Capacity *resource.Quantity `json:"capacity,omitempty"`
	// Block says that the volume is a device below BlockFolder.
	Block bool `json:"block,omitempty"`
}
