package domain

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtwright/virtwright/api/v1alpha1"
)

// videoTypes are the display adapters that guests can have.
var videoTypes = []string{"", "vga", "cirrus", "qxl", "virtio", "ramfb", "bochs", "none"}

// CheckFrontendSettings says what is wrong with settings, below a path. It
// does not rely on the schema of the kind, since manifests reach it offline.
func CheckFrontendSettings(s *v1alpha1.FrontendSettings, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	errs = append(errs, oneOf(at.Child("guestFamily"), s.GuestFamily, "", v1alpha1.GuestFamilyLinux, v1alpha1.GuestFamilyWindows, v1alpha1.GuestFamilyOther)...)
	errs = append(errs, oneOf(at.Child("virtio"), s.Virtio, "", v1alpha1.VirtioNonTransitional, v1alpha1.VirtioTransitional)...)
	errs = append(errs, oneOf(at.Child("usbController"), s.USBController, "", v1alpha1.ControllerAlways, v1alpha1.ControllerAsNeeded)...)
	errs = append(errs, oneOf(at.Child("scsiController"), s.SCSIController, "", v1alpha1.ControllerAlways, v1alpha1.ControllerAsNeeded)...)
	if s.Machine != "" && !machineForm.MatchString(s.Machine) {
		errs = append(errs, field.Invalid(at.Child("machine"), s.Machine, "must be the name of a machine type such as pc-q35-7.2"))
	}
	if v := s.Video; v != nil {
		errs = append(errs, oneOf(at.Child("video", "type"), v.Type, videoTypes...)...)
		if v.VRAM != 0 && (v.VRAM < 1024 || v.VRAM > 1<<20) {
			errs = append(errs, field.Invalid(at.Child("video", "vram"), v.VRAM, "must be between 1024 and 1048576 (KiB)"))
		}
	}
	return errs
}

// oneOf refuses a value that is not one of those that are known.
func oneOf[T ~string](at *field.Path, value T, known ...T) field.ErrorList {
	if slices.Contains(known, value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(at, value, slices.DeleteFunc(slices.Clone(known), func(t T) bool { return t == "" }))}
}
