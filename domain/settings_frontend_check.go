package domain

import (
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/api/v1alpha1"
)

// videoTypes are the display adapters that guests can have.
var videoTypes = []string{"", "vga", "cirrus", "qxl", "virtio", "ramfb", "bochs", "none"}

// CheckFrontendSettings says what is wrong with settings, below a path: with
// the settings themselves, and with what guests of these architectures (none
// named: of all) would become under them. It does not rely on the schema of the
// kind, since manifests reach it offline.
func CheckFrontendSettings(s *v1alpha1.FrontendSettings, architectures []v1alpha1.Architecture, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	errs = append(errs, oneOf(at.Child("guestFamily"), s.GuestFamily, "", v1alpha1.GuestFamilyLinux, v1alpha1.GuestFamilyWindows, v1alpha1.GuestFamilyOther)...)
	errs = append(errs, oneOf(at.Child("virtio"), s.Virtio, "", v1alpha1.VirtioNonTransitional, v1alpha1.VirtioTransitional)...)
	errs = append(errs, oneOf(at.Child("usbController"), s.USBController, "", v1alpha1.ControllerAlways, v1alpha1.ControllerAsNeeded)...)
	errs = append(errs, oneOf(at.Child("scsiController"), s.SCSIController, "", v1alpha1.ControllerAlways, v1alpha1.ControllerAsNeeded)...)
	if v := s.Video; v != nil {
		errs = append(errs, oneOf(at.Child("video", "type"), v.Type, videoTypes...)...)
		if v.VRAM != 0 && (v.VRAM < 1024 || v.VRAM > 1<<20) {
			errs = append(errs, field.Invalid(at.Child("video", "vram"), v.VRAM, "must be between 1024 and 1048576 (KiB)"))
		}
	}
	if b := s.SMBIOS; b != nil {
		for _, one := range []struct{ name, text string }{
			{"manufacturer", b.Manufacturer}, {"family", b.Family}, {"product", b.Product}, {"version", b.Version}, {"sku", b.SKU},
		} {
			errs = append(errs, checkText(at.Child("smbios", one.name), one.text)...)
		}
	}
	if len(errs) > 0 {
		return errs
	}
	return tried(s, architectures, at)
}

// probed says which field of settings stands behind a field of an instance.
var probed = []struct{ instance, settings string }{
	{"spec.domain.clock.timer", "timers"},
	{"spec.domain.features.hyperv", "hyperv"},
	{"spec.domain.machine.type", "machine"},
	{"spec.domain.devices.video", "video"},
}

// tried makes a guest under the settings, of each architecture, and says what
// is wrong with it that is the settings' doing.
func tried(s *v1alpha1.FrontendSettings, architectures []v1alpha1.Architecture, at *field.Path) field.ErrorList {
	if len(architectures) == 0 {
		architectures = []v1alpha1.Architecture{v1alpha1.ArchitectureAMD64, v1alpha1.ArchitectureARM64, v1alpha1.ArchitectureS390X}
	}
	settings := s.DeepCopy()
	builtin := builtinFrontend()
	fill(reflect.ValueOf(settings).Elem(), reflect.ValueOf(&builtin).Elem())
	var errs field.ErrorList
	for _, arch := range architectures {
		vmi := &kubevirtv1.VirtualMachineInstance{}
		vmi.Name, vmi.Namespace = "any", "any"
		vmi.Spec.Architecture = string(arch)
		vmi.Spec.Domain.Memory = &kubevirtv1.Memory{Guest: resource.NewQuantity(1<<30, resource.BinarySI)}
		_, found := Frontend(vmi, settings)
		for _, err := range found {
			for _, p := range probed {
				if rest, ok := strings.CutPrefix(err.Field, p.instance); ok {
					err.Field = at.Child(p.settings).String() + rest
					errs = append(errs, err)
				}
			}
		}
	}
	return unique(errs)
}

// unique are errors without those that say again what another one says.
func unique(errs field.ErrorList) field.ErrorList {
	seen := map[string]bool{}
	return slices.DeleteFunc(errs, func(err *field.Error) bool {
		again := seen[err.Error()]
		seen[err.Error()] = true
		return again
	})
}

// oneOf refuses a value that is not one of those that are known.
func oneOf[T ~string](at *field.Path, value T, known ...T) field.ErrorList {
	if slices.Contains(known, value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(at, value, slices.DeleteFunc(slices.Clone(known), func(t T) bool { return t == "" }))}
}
