package presets

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/presets/tree"
	"github.com/virtwright/virtwright/presets/vmschema"
)

const (
	amd64 = "amd64"
	arm64 = "arm64"
	s390x = "s390x"
)

var builtInMachineTypes = map[string]string{amd64: "q35", arm64: "virt", s390x: "s390-ccw-virtio"}

// runStrategy: a VM without a run strategy does not run.
func (d *defaulter) runStrategy() {
	if !d.isVMI && !d.platform.Alongside && !d.vm.has("running") {
		d.vm.setDefault("runStrategy", "Halted")
	}
}

func (d *defaulter) architecture() {
	d.spec.setDefault("architecture", cmp.Or(d.platform.Architecture, amd64))
}

func (d *defaulter) arch() string { return cmp.Or(d.spec.text("architecture"), amd64) }

func (d *defaulter) machineType() {
	at := d.domain.child("machine")
	if at.get("type") == "" {
		return // the user wrote it
	}
	at.setDefault("type", cmp.Or(builtInMachineTypes[d.arch()], builtInMachineTypes[amd64]))
}

// pciTopology fixes the layout of PCI devices, so that a guest finds them in the same place after
// an upgrade. A VM that was created without it keeps its layout.
func (d *defaulter) pciTopology() {
	pinned := slices.ContainsFunc(d.state.previousSources, func(s provenance.Source) bool {
		return s == provenance.Source{Preset: d.layer.name, Role: provenance.Platform}
	})
	if arch := d.arch(); d.state.stored && !pinned || arch != amd64 && arch != arm64 {
		return
	}
	t := d.domain.child("machine").text("type")
	if t == "" || strings.Contains(t, "q35") || strings.HasPrefix(t, "virt") {
		d.meta.child("annotations").setDefault("kubevirt.io/pci-topology-version", "v3")
	}
}

func (d *defaulter) cpuRequest() {
	resources := d.domain.child("resources")
	if limit := resources.child("limits").get("cpu"); limit != nil {
		resources.child("requests").setDefault("cpu", limit)
	}
}

// memoryGuest sets the memory to the request, or else the limit, or else the huge page size.
func (d *defaulter) memoryGuest() {
	memory, resources := d.domain.child("memory"), d.domain.child("resources")
	d.domain.setDefault("memory", map[string]any{})
	for _, from := range []any{
		resources.child("requests").get("memory"), resources.child("limits").get("memory"), memory.child("hugepages").get("pageSize"),
	} {
		if _, err := tree.ParseQuantity(from); err == nil {
			memory.setDefault("guest", from)
			return
		}
	}
}

// cpuTopology completes a topology; sockets are the CPU resources, rounded up.
func (d *defaulter) cpuTopology() {
	cpu := d.domain.child("cpu")
	none := isZero(cpu.get("sockets")) && isZero(cpu.get("cores")) && isZero(cpu.get("threads"))
	sockets := int64(1)
	if none {
		resources := d.domain.child("resources")
		for _, name := range []string{"limits", "requests"} {
			if v := resources.child(name).get("cpu"); v != nil {
				sockets = d.wholeCPUs(v, "spec.template.spec.domain.resources."+name+".cpu")
				break
			}
		}
	}
	cpu.setDefault("sockets", sockets)
	cpu.setDefault("cores", int64(1))
	cpu.setDefault("threads", int64(1))
}

func isZero(v any) bool { return v == nil || tree.Equal(v, int64(0)) }

// maxCPUs is more than any host has.
const maxCPUs = 1 << 20

func (d *defaulter) wholeCPUs(v any, at string) int64 {
	q, err := tree.ParseQuantity(v)
	if err != nil || q.CmpInt64(maxCPUs) > 0 {
		d.state.errs = append(d.state.errs, field.Invalid(field.NewPath(at), v, "must be a quantity such as 2 or 500m"))
		return 1
	}
	return max(1, q.ScaledValue(resource.Scale(0)))
}

// imagePullPolicy follows the kubelet: Always for a mutable tag.
func (d *defaulter) imagePullPolicy() {
	for _, volume := range d.spec.elements("volumes") {
		disk := volume.child("containerDisk")
		if !disk.exists() || disk.text("image") == "" {
			continue
		}
		policy := "IfNotPresent"
		if floats(disk.text("image")) {
			policy = "Always"
		}
		disk.setDefault("imagePullPolicy", policy)
	}
}

// floats reports whether an image reference has no tag and no digest, or the tag latest. A colon
// before the last slash is a port.
func floats(image string) bool {
	if strings.Contains(image, "@") {
		return false
	}
	name := image[strings.LastIndexByte(image, '/')+1:]
	_, tag, tagged := strings.Cut(name, ":")
	return !tagged || tag == "latest"
}

func (d *defaulter) evictionStrategy() {
	d.spec.setDefault("evictionStrategy", cmp.Or(d.platform.EvictionStrategy, "None"))
}

// podNetwork adds the pod network to a VM without networks. If only its interface or its network
// exists, it adds the other one; KubeVirt does not.
func (d *defaulter) podNetwork() {
	name := provenance.Segment{Name: "default", Kind: provenance.Element}
	hasInterface, hasNetwork := d.devices.names("interfaces")[name.Name], d.spec.names("networks")[name.Name]
	isBare := !nonEmpty(d.spec.get("networks")) && !nonEmpty(d.devices.get("interfaces"))
	switch {
	case d.devices.get("autoattachPodInterface") == false || !isBare && (d.platform.Alongside || hasInterface == hasNetwork),
		d.devices.removed(provenance.Segment{Name: "interfaces"}, name), d.spec.removed(provenance.Segment{Name: "networks"}, name):
		return // half a pair is worse than none
	case !hasNetwork && d.state.hasOther(vmschema.DefaultNetwork, name):
		return // another network is the default one
	}
	if !hasInterface {
		d.devices.add("interfaces", name.Name).setChoice(cmp.Or(d.platform.NetworkInterface, "masquerade"))
	}
	if !hasNetwork {
		d.spec.add("networks", name.Name).setChoice("pod")
	}
}

func nonEmpty(v any) bool {
	list, ok := v.([]any)
	return v != nil && (!ok || len(list) > 0)
}

func (d *defaulter) diskForVolume() {
	used := d.devices.names("disks")
	maps.Copy(used, d.devices.names("filesystems"))
	for _, volume := range d.spec.elements("volumes") {
		if name := volume.text("name"); !used[name] && !volume.has("memoryDump") {
			d.devices.add("disks", name)
		}
	}
}

// firmware turns secure boot off on arm64, which KubeVirt does for VMIs only.
func (d *defaulter) firmware() {
	if d.arch() != arm64 || d.platform.Alongside && !d.isVMI {
		return
	}
	bootloader := d.domain.child("firmware").child("bootloader")
	if !bootloader.has("bios") {
		bootloader.child("efi").setDefault("secureBoot", false)
	}
}

func (d *defaulter) cpuModel() {
	model := cmp.Or(d.platform.CPUModel, "host-model")
	if d.arch() == arm64 {
		model = "host-passthrough"
	}
	d.domain.child("cpu").setDefault("model", model)
}

// FixedMemory are fields of guests to which KubeVirt adds no memory.
var FixedMemory = []provenance.Path{
	vmschema.TemplateSpec.Field("domain").Field("launchSecurity"), vmschema.TemplateSpec.Field("domain").Field("cpu").Field("realtime"),
	vmschema.TemplateSpec.Field("domain").Field("cpu").Field("numa").Field("guestMappingPassthrough"),
}

const (
	// HotplugRatio is the ratio of the maximum to the initial CPUs and memory of a VMI.
	HotplugRatio = 4
	// maxHotplugCPUs is the maximum of vCPUs that the default of maxSockets allows. KubeVirt allows
	// 512, but libvirt 9.0 rejects more than 255 for a guest without an IOMMU.
	maxHotplugCPUs = 255
	// MinHotplugMemory is the least memory of a guest with memory hotplug, in bytes.
	MinHotplugMemory = 1 << 30
	// HotplugBlock is the unit in which memory grows, in bytes, without huge pages of 1Gi.
	HotplugBlock = 2 << 20
)

// hotplugs reports whether the defaults for CPU and memory hotplug apply. They are set when a VMI
// is created: in a stored VM they would fix the maxima of its first size. They make no valid VMI
// invalid, so a dry run omits them.
func (d *defaulter) hotplugs() bool {
	return !d.state.dryRun && d.isVMI && !d.platform.NoLiveUpdate && d.arch() != arm64
}

func (d *defaulter) maxSockets() {
	cpu := d.domain.child("cpu")
	sockets, perSocket := whole(cpu.get("sockets")), whole(cpu.get("cores"))*whole(cpu.get("threads"))
	if !d.hotplugs() || sockets <= 0 || sockets > maxCPUs || perSocket <= 0 {
		return
	}
	cpu.setMaximum("maxSockets", max(sockets, min(HotplugRatio*sockets, maxHotplugCPUs/perSocket)))
}

// maxGuest allows the memory of a VMI to grow, if KubeVirt can add memory.
func (d *defaulter) maxGuest() {
	if !d.hotplugs() || d.arch() != amd64 || d.memoryStays() {
		return
	}
	memory := d.domain.child("memory")
	q, err := tree.ParseQuantity(memory.get("guest"))
	if err != nil {
		return
	}
	block := int64(HotplugBlock)
	if memory.child("hugepages").text("pageSize") == "1Gi" {
		block = MinHotplugMemory
	}
	guest := q.Value()
	if guest < MinHotplugMemory || guest%block != 0 || guest > math.MaxInt64/HotplugRatio {
		return
	}
	memory.setMaximum("maxGuest", resource.NewQuantity(HotplugRatio*guest, resource.BinarySI).String())
}

func (d *defaulter) memoryStays() bool {
	return slices.ContainsFunc(FixedMemory, func(p provenance.Path) bool { return vmschema.Value(d.state.root, p) != nil })
}

// setMaximum sets a default unless a preset forbids it: the VMI of a VM that presets accept must
// not be rejected.
func (c *cursor) setMaximum(name string, value any) {
	at := c.path().Field(name)
	forbids := func(p *Compiled) bool {
		return p != nil && slices.ContainsFunc(p.forbids, func(f rule) bool { return f.path.Equal(at) })
	}
	if !slices.ContainsFunc(c.state.sourcePresets, forbids) {
		c.setDefault(name, value)
	}
}
