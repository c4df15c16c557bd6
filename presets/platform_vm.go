package presets

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtwright/virtwright/presets/provenance"
)

const (
	amd64 = "amd64"
	arm64 = "arm64"
	s390x = "s390x"
)

// builtInMachineTypes are KubeVirt's, by architecture.
var builtInMachineTypes = map[string]string{amd64: "q35", arm64: "virt", s390x: "s390-ccw-virtio"}

// runStrategy: a VM that says nothing of running does not run.
func (m *machine) runStrategy() {
	if !m.instance && !m.vm.has("running") {
		m.vm.setDefault("runStrategy", "Halted")
	}
}

func (m *machine) architecture() {
	m.spec.setDefault("architecture", orElse(m.platform.Architecture, amd64))
}

func (m *machine) arch() string { return orElse(m.spec.text("architecture"), amd64) }

func orElse(text, fallback string) string {
	if text != "" {
		return text
	}
	return fallback
}

func (m *machine) machineType() {
	at := m.domain.child("machine")
	if at.get("type") == "" {
		return // the user's, empty or not
	}
	configured := m.platform.MachineTypes[m.arch()]
	at.setDefault("type", orElse(orElse(configured, builtInMachineTypes[m.arch()]), builtInMachineTypes[amd64]))
}

// pciTopology pins how PCI devices are laid out, so that a guest finds them
// where they were after an upgrade. A VM that was created without it keeps its layout.
func (m *machine) pciTopology() {
	pinned := slices.ContainsFunc(m.w.before, func(s provenance.Source) bool {
		return s == provenance.Source{Preset: m.layer.name, Role: provenance.Platform}
	})
	if arch := m.arch(); m.w.stored && !pinned || arch != amd64 && arch != arm64 {
		return
	}
	t := m.domain.child("machine").text("type")
	if t == "" || strings.Contains(t, "q35") || strings.HasPrefix(t, "virt") {
		m.meta.child("annotations").setDefault("kubevirt.io/pci-topology-version", "v3")
	}
}

func (m *machine) cpuRequest() {
	resources := m.domain.child("resources")
	limit := resources.child("limits").get("cpu")
	if limit != nil && !resources.child("requests").has("cpu") {
		resources.child("requests").setDefault("cpu", limit)
	}
}

// memoryGuest takes the guest's memory from the request, else the limit, else the huge page.
func (m *machine) memoryGuest() {
	memory, resources := m.domain.child("memory"), m.domain.child("resources")
	m.domain.setDefault("memory", map[string]any{})
	for _, from := range []any{
		resources.child("requests").get("memory"), resources.child("limits").get("memory"), memory.child("hugepages").get("pageSize"),
	} {
		if _, err := parseQuantity(from); err == nil {
			memory.setDefault("guest", from)
			return
		}
	}
}

// cpuTopology completes a topology; sockets follow from CPU resources, rounded up.
func (m *machine) cpuTopology() {
	cpu := m.domain.child("cpu")
	none := isZero(cpu.get("sockets")) && isZero(cpu.get("cores")) && isZero(cpu.get("threads"))
	sockets := int64(1)
	if none {
		resources := m.domain.child("resources")
		for _, name := range []string{"limits", "requests"} {
			if v := resources.child(name).get("cpu"); v != nil {
				sockets = m.wholeCPUs(v, "spec.template.spec.domain.resources."+name+".cpu")
				break
			}
		}
	}
	cpu.setDefault("sockets", sockets)
	cpu.setDefault("cores", int64(1))
	cpu.setDefault("threads", int64(1))
}

// isZero reports whether a number is 0 or absent.
func isZero(v any) bool { return v == nil || equalJSON(v, int64(0)) }

// maxCPUs is more than any machine has.
const maxCPUs = 1 << 20

func (m *machine) wholeCPUs(v any, at string) int64 {
	q, err := parseQuantity(v)
	if err != nil || q.CmpInt64(maxCPUs) > 0 {
		m.w.errs = append(m.w.errs, field.Invalid(field.NewPath(at), v, "must be a quantity such as 2 or 500m"))
		return 1
	}
	return max(1, q.ScaledValue(resource.Scale(0)))
}

// imagePullPolicy follows the kubelet: Always for a floating tag.
func (m *machine) imagePullPolicy() {
	for _, volume := range m.spec.elements("volumes") {
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

// floats reports whether an image reference has no tag and no digest, or the
// tag latest. A colon before the last slash is a port.
func floats(image string) bool {
	if strings.Contains(image, "@") {
		return false
	}
	name := image[strings.LastIndexByte(image, '/')+1:]
	_, tag, tagged := strings.Cut(name, ":")
	return !tagged || tag == "latest"
}

func (m *machine) evictionStrategy() {
	m.spec.setDefault("evictionStrategy", orElse(m.platform.EvictionStrategy, "None"))
}

// podNetwork gives a VM without any network the pod network. Where one half of that is
// there, under the same name, it gives the other half.
func (m *machine) podNetwork() {
	name := provenance.Segment{Name: "default", Kind: provenance.Element}
	hasInterface, hasNetwork := m.devices.names("interfaces")[name.Name], m.spec.names("networks")[name.Name]
	isBare := !nonEmpty(m.spec.get("networks")) && !nonEmpty(m.devices.get("interfaces"))
	switch {
	case m.devices.get("autoattachPodInterface") == false || !isBare && hasInterface == hasNetwork,
		m.devices.removed(provenance.Segment{Name: "interfaces"}, name), m.spec.removed(provenance.Segment{Name: "networks"}, name):
		return // half a pair is worse than none
	case !hasNetwork && m.w.hasOther(singletons[0], name):
		return // another network is the default one
	}
	if !hasInterface {
		m.devices.add("interfaces", name.Name).setDefault(orElse(m.platform.NetworkInterface, "bridge"), map[string]any{})
	}
	if !hasNetwork {
		m.spec.add("networks", name.Name).setDefault("pod", map[string]any{})
	}
}

func nonEmpty(v any) bool {
	list, ok := v.([]any)
	return v != nil && (!ok || len(list) > 0)
}

// diskForVolume gives a volume that nothing uses a disk.
func (m *machine) diskForVolume() {
	used := m.devices.names("disks")
	maps.Copy(used, m.devices.names("filesystems"))
	for _, volume := range m.spec.elements("volumes") {
		if name := volume.text("name"); !used[name] && !volume.has("memoryDump") {
			m.devices.add("disks", name)
		}
	}
}

func (m *machine) firmware() {
	if m.arch() != arm64 {
		return
	}
	bootloader := m.domain.child("firmware").child("bootloader")
	if !bootloader.has("bios") {
		bootloader.child("efi").setDefault("secureBoot", false)
	}
}

func (m *machine) cpuModel() {
	model := orElse(m.platform.CPUModel, "host-model")
	if m.arch() == arm64 {
		model = "host-passthrough"
	}
	m.domain.child("cpu").setDefault("model", model)
}
