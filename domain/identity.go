package domain

import (
	"bytes"
	"crypto/sha1" //nolint:gosec // RFC 9562 requires it for UUIDs of names
	"encoding/hex"
	"encoding/xml"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// uuidForm is the notation of libvirt and Kubernetes.
var uuidForm = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// identity sets the UUID that the guest's firmware shows. By default it is the UID of the VM that
// controls the VMI, so that restarts keep it; else the VMI's own UID, which tells replicas apart;
// else one that is derived from namespace and name (RFC 9562, version 5).
func (g *guest) identity() {
	uuid := ""
	if f := g.spec.Domain.Firmware; f != nil {
		uuid = strings.ToLower(string(f.UUID))
	}
	at := field.NewPath("spec", "domain", "firmware", "uuid")
	if uuid != "" && !uuidForm.MatchString(uuid) {
		g.reject(field.Invalid(at, uuid, "must be a UUID such as 5d307ca9-b3ef-428c-8861-06e72d69f223"))
		return
	}
	if owner := metav1.GetControllerOf(g.vmi); uuid == "" && owner != nil &&
		schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind).GroupKind() == kubevirtv1.VirtualMachineGroupVersionKind.GroupKind() {
		uuid = string(owner.UID)
	}
	if uuid == "" {
		uuid = string(g.vmi.UID)
	}
	if !uuidForm.MatchString(uuid) {
		uuid = namedUUID(urlNamespace, "virtwright.dev/"+g.vmi.Namespace+"/"+g.vmi.Name)
	}
	g.domain.UUID = uuid
}

// Namespaces of UUIDs that are derived from names.
const (
	urlNamespace      = "6ba7b8119dad11d180b400c04fd430c8" // of RFC 9562
	firmwareNamespace = "0b0c7f0e3f0c5a0e9d638b0e7f4f9f5a" // of FirmwareIdentity
)

// FirmwareIdentity returns the UUID that the VMIs of a VM have as firmware UUID and serial unless
// its template sets them. It is derived from the UID of the VM: it survives restarts, and no other
// VM has it.
func FirmwareIdentity(vmUID types.UID) string { return namedUUID(firmwareNamespace, string(vmUID)) }

// namedUUID returns the version 5 UUID of a name in a namespace, which is hexadecimal.
func namedUUID(namespace, name string) string {
	space, _ := hex.DecodeString(namespace)
	sum := sha1.Sum(append(space, name...)) //nolint:gosec // see the import
	sum[6] = sum[6]&0x0f | 0x50
	sum[8] = sum[8]&0x3f | 0x80
	text := hex.EncodeToString(sum[:16])
	return strings.Join([]string{text[:8], text[8:12], text[12:16], text[16:20], text[20:]}, "-")
}

// sysinfo sets the firmware tables that identify the hardware, in KubeVirt's order. It omits
// entries without a value, which libvirt rejects.
func (g *guest) sysinfo() {
	if !g.arch.smbios {
		if g.spec.Domain.Chassis != nil {
			g.reject(field.Forbidden(field.NewPath("spec", "domain", "chassis"), "guests of "+g.arch.name+" have no SMBIOS tables; remove it"))
		}
		return
	}
	type entry = libvirtxml.DomainSysInfoEntry
	set := func(all []entry) []entry {
		return slices.DeleteFunc(all, func(e entry) bool { return e.Value == "" })
	}
	s, c, serial := orNew(g.settings.SMBIOS), orNew(g.spec.Domain.Chassis), orNew(g.spec.Domain.Firmware).Serial
	tables := &libvirtxml.DomainSysInfoSMBIOS{System: &libvirtxml.DomainSysInfoSystem{Entry: set([]entry{
		{Name: "uuid", Value: g.domain.UUID}, {Name: "manufacturer", Value: s.Manufacturer}, {Name: "family", Value: s.Family},
		{Name: "product", Value: s.Product}, {Name: "sku", Value: s.SKU}, {Name: "version", Value: s.Version}, {Name: "serial", Value: serial},
	})}}
	chassis := set([]entry{
		{Name: "manufacturer", Value: c.Manufacturer}, {Name: "version", Value: c.Version}, {Name: "serial", Value: c.Serial},
		{Name: "asset", Value: c.Asset}, {Name: "sku", Value: c.Sku},
	})
	if len(chassis) > 0 {
		tables.Chassis = &libvirtxml.DomainSysInfoChassis{Entry: chassis}
	}
	g.domain.SysInfo = []libvirtxml.DomainSysInfo{{SMBIOS: tables}}
}

const metadataNamespace = "http://virtwright.dev/domain/v1"

// metadata names the domain namespace_name, as KubeVirt does, and records which VMI it belongs to.
// The name is unique: Kubernetes names contain no underscore.
func (h *host) metadata() {
	var text bytes.Buffer // an xml.Encoder takes longer than the rest of the stage
	text.WriteString("\n    <instance xmlns=\"" + metadataNamespace + "\">\n")
	for _, entry := range [][2]string{{"namespace", h.vmi.Namespace}, {"name", h.vmi.Name}, {"uid", string(h.vmi.UID)}} {
		if entry[1] == "" && entry[0] == "uid" {
			continue
		}
		text.WriteString("      <" + entry[0] + ">")
		_ = xml.EscapeText(&text, []byte(entry[1])) // a Buffer never fails
		text.WriteString("</" + entry[0] + ">\n")
	}
	text.WriteString("    </instance>\n  ")
	h.domain.Name = h.vmi.Namespace + "_" + h.vmi.Name
	h.domain.Metadata = &libvirtxml.DomainMetadata{XML: text.String()}
}
