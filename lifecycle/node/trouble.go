package node

import (
	"errors"
	"regexp"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"

	"github.com/virtwright/virtwright/lifecycle/node/files"
)

type libvirtDomain = libvirtxml.Domain

var namespaces = schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}

var (
	errNoLibvirt = errors.New("libvirtd cannot be reached")
	errNotLooked = errors.New("the host has not been looked at yet")
)

// Reasons of the condition Synchronized beside those of package files.
const (
	// ReasonNoLibvirt is a daemon that cannot be reached.
	ReasonNoLibvirt = "LibvirtUnreachable"
	// ReasonUnsupported is something that this agent does not do.
	ReasonUnsupported = "Unsupported"
	// ReasonNotRendered is an instance that stages 2 and 3 refuse.
	ReasonNotRendered = "DomainNotRendered"
	// ReasonNotDefined is a domain that libvirt refuses.
	ReasonNotDefined = "DomainNotDefined"
	// ReasonDuplicate is a domain whose UUID another one has.
	ReasonDuplicate = "DuplicateUUID"
	// ReasonNotStarted is a domain that libvirt or QEMU cannot start.
	ReasonNotStarted = "DomainNotStarted"
	// ReasonNameTaken is a domain of somebody else's that has the name.
	ReasonNameTaken = "DomainNameTaken"
	// ReasonPower is a reset or reboot that could not be done.
	ReasonPower = "PowerRequestNotDone"
	// ReasonOther is anything else.
	ReasonOther = "NotSynchronized"
)

// A Trouble is what keeps an instance from being as it shall be.
type Trouble struct {
	// Reason is one of the reasons above.
	Reason string
	Err    error
}

// stamp is the time at which QEMU wrote a message.
var stamp = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z:? ?`)

// Error is what is wrong, without the times that messages of QEMU begin with:
// what goes wrong in the same way twice is said in the same words.
func (t *Trouble) Error() string { return stamp.ReplaceAllString(t.Err.Error(), "") }

// Unwrap is what is wrong.
func (t *Trouble) Unwrap() error { return t.Err }

// troubleOf is an error as a trouble.
func troubleOf(err error) *Trouble {
	if ours, ok := errors.AsType[*Trouble](err); ok {
		return ours
	}
	if theirs, ok := errors.AsType[*files.Trouble](err); ok {
		return &Trouble{theirs.Reason, err}
	}
	return &Trouble{ReasonOther, err}
}

// beyond is what an instance asks for outside its domain, and this agent does
// not do. It must not seem to be done.
func beyond(vmi *kubevirtv1.VirtualMachineInstance) field.ErrorList {
	var errs field.ErrorList
	spec, at := &vmi.Spec, field.NewPath("spec")
	devices := &spec.Domain.Devices
	forbid := func(is bool, at *field.Path, why string) {
		if is {
			errs = append(errs, field.Forbidden(at, why))
		}
	}
	ping := spec.ReadinessProbe != nil && spec.ReadinessProbe.GuestAgentPing != nil
	forbid(spec.ReadinessProbe != nil && !ping, at.Child("readinessProbe"), "this agent knows only guestAgentPing")
	forbid(spec.LivenessProbe != nil, at.Child("livenessProbe"), "this agent runs no such probe")
	forbid(len(spec.AccessCredentials) > 0, at.Child("accessCredentials"), "this agent does not hand credentials to guests; use cloud-init")
	forbid(len(spec.ResourceClaims) > 0, at.Child("resourceClaims"), "this agent has no devices to claim")
	forbid(len(devices.Filesystems) > 0, at.Child("domain", "devices", "filesystems"), "this agent runs no virtiofsd")
	forbid(devices.DownwardMetrics != nil, at.Child("domain", "devices", "downwardMetrics"), "this agent serves no metrics to guests")
	tpm := devices.TPM
	forbid(tpm != nil && tpm.Persistent != nil && *tpm.Persistent, at.Child("domain", "devices", "tpm", "persistent"), "this agent keeps nothing of a guest beyond its instance")
	if f := spec.Domain.Firmware; f != nil && f.Bootloader != nil && f.Bootloader.EFI != nil {
		efi := f.Bootloader.EFI
		forbid(efi.Persistent != nil && *efi.Persistent, at.Child("domain", "firmware", "bootloader", "efi", "persistent"), "this agent keeps nothing of a guest beyond its instance")
	}
	for i := range devices.Disks {
		lun := devices.Disks[i].LUN
		forbid(lun != nil && lun.Reservation, at.Child("domain", "devices", "disks").Index(i).Child("lun", "reservation"), "this agent runs no helper for reservations")
	}
	return errs
}
