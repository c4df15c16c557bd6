package domain

import (
	"crypto/sha1" //nolint:gosec // what RFC 9562 names for UUIDs made of names
	"encoding/hex"
	"regexp"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// uuidForm is how libvirt and Kubernetes write UUIDs.
var uuidForm = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// identity gives the domain the UUID that the guest's firmware shows. Where
// the instance names none it is the UID of the VM that controls it, so that a
// guest keeps it from start to start; else the instance's own UID, which tells
// replicas apart; else one made of namespace and name (RFC 9562, version 5).
func (g *guest) identity() {
	uuid := ""
	if f := g.spec.Domain.Firmware; f != nil {
		uuid = strings.ToLower(string(f.UUID))
	}
	at := field.NewPath("spec", "domain", "firmware", "uuid")
	if uuid != "" && !uuidForm.MatchString(uuid) {
		g.refuse(field.Invalid(at, uuid, "must be a UUID such as 5d307ca9-b3ef-428c-8861-06e72d69f223"))
		return
	}
	if owner := metav1.GetControllerOf(g.vmi); uuid == "" && owner != nil && isVM(owner) {
		uuid = string(owner.UID)
	}
	if uuid == "" {
		uuid = string(g.vmi.UID)
	}
	if !uuidForm.MatchString(uuid) {
		uuid = namedUUID(g.vmi.Namespace + "/" + g.vmi.Name)
	}
	g.domain.UUID = uuid
}

// isVM says whether an owner is a VirtualMachine.
func isVM(owner *metav1.OwnerReference) bool {
	kind := kubevirtv1.VirtualMachineGroupVersionKind
	group, _, _ := strings.Cut(owner.APIVersion, "/")
	return group == kind.Group && owner.Kind == kind.Kind
}

// namedUUID is the version 5 UUID of a name, in the name space of URLs of RFC
// 9562.
func namedUUID(name string) string {
	space, _ := hex.DecodeString("6ba7b8119dad11d180b400c04fd430c8")
	sum := sha1.Sum(append(space, "virtwright.dev/"+name...)) //nolint:gosec // see the import
	sum[6] = sum[6]&0x0f | 0x50
	sum[8] = sum[8]&0x3f | 0x80
	text := hex.EncodeToString(sum[:16])
	return strings.Join([]string{text[:8], text[8:12], text[12:16], text[16:20], text[20:]}, "-")
}
