package domain

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/api/v1alpha1"
)

// videoTypes are the display adapters of all architectures.
var videoTypes = []string{"", "vga", "cirrus", "qxl", "virtio", "ramfb", "bochs", "none"}

// checkFrontendSettings returns the errors of settings below a path: those of the settings
// themselves, and those of a guest with them, of each of the architectures (by default: of all). It
// checks what the CRD's schema checks too, since it is also used without a cluster.
func checkFrontendSettings(s *v1alpha1.FrontendSettings, architectures []v1alpha1.Architecture, at *field.Path) field.ErrorList {
	errs := oneOf(at.Child("guestFamily"), s.GuestFamily, "", v1alpha1.GuestFamilyLinux, v1alpha1.GuestFamilyWindows, v1alpha1.GuestFamilyOther)
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
	return checkByRendering(s, architectures, at)
}

// settingsOf maps fields of a VMI to the settings that fill them.
var settingsOf = []struct{ vmi, settings string }{
	{"spec.domain.clock.timer", "timers"},
	{"spec.domain.features.hyperv", "hyperv"},
	{"spec.domain.machine.type", "machine"},
	{"spec.domain.devices.video", "video"},
}

// checkByRendering renders a guest of each architecture, and returns the errors that the settings
// cause, each once.
func checkByRendering(s *v1alpha1.FrontendSettings, architectures []v1alpha1.Architecture, at *field.Path) field.ErrorList {
	if len(architectures) == 0 {
		architectures = allArchitectures
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
			for _, p := range settingsOf {
				if rest, ok := strings.CutPrefix(err.Field, p.vmi); ok {
					err.Field = at.Child(p.settings).String() + rest
					errs = append(errs, err)
				}
			}
		}
	}
	seen := sets.Set[string]{}
	return slices.DeleteFunc(errs, func(err *field.Error) bool {
		again := seen.Has(err.Error())
		seen.Insert(err.Error())
		return again
	})
}

// oneOf rejects a value that is not known. An empty one may be known; the message does not list it.
func oneOf[T ~string](at *field.Path, value T, known ...T) field.ErrorList {
	if slices.Contains(known, value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(at, value, slices.DeleteFunc(slices.Clone(known), func(t T) bool { return t == "" }))}
}

// The limits of the CRD's schema.
const (
	maxIOThreads    = 64
	maxStatsSeconds = 3600
	maxNetworkRules = 64
)

// checkBackendSettings returns the errors of settings below a path. It checks what the CRD's schema
// checks too, since it is also used without a cluster.
func checkBackendSettings(s *v1alpha1.BackendSettings, at *field.Path) field.ErrorList {
	errs := oneOf(at.Child("softwareEmulation"), s.SoftwareEmulation, "", v1alpha1.SoftwareEmulationForbid, v1alpha1.SoftwareEmulationAllow)
	errs = append(errs, checkFile(at.Child("emulator"), s.Emulator)...)
	errs = append(errs, checkFile(at.Child("entropy"), s.Entropy)...)
	errs = append(errs, checkNumber(at.Child("balloonStatsSeconds"), s.BalloonStatsSeconds, maxStatsSeconds)...)
	if s.Disks != nil {
		errs = append(errs, checkDiskBacking(s.Disks, at.Child("disks"))...)
	}
	if s.CPU != nil {
		errs = append(errs, checkCPUs(at.Child("cpu", "vcpus"), s.CPU.VCPUs)...)
		errs = append(errs, checkCPUs(at.Child("cpu", "emulator"), s.CPU.Emulator)...)
		errs = append(errs, checkCPUs(at.Child("cpu", "ioThreads"), s.CPU.IOThreads)...)
	}
	if s.Memory != nil {
		errs = append(errs, oneOf(at.Child("memory", "source"), s.Memory.Source, "", v1alpha1.MemoryAnonymous, v1alpha1.MemoryMemfd)...)
	}
	errs = append(errs, checkNetworks(s.Networks, at.Child("networks"))...)
	if s.Paths != nil {
		errs = append(errs, checkPaths(s.Paths, at.Child("paths"))...)
	}
	return errs
}

func checkFile(at *field.Path, name string) field.ErrorList {
	if name != "" && !strings.HasPrefix(name, "/") {
		return field.ErrorList{field.Invalid(at, name, "must be an absolute path")}
	}
	return nil
}

func checkDiskBacking(d *v1alpha1.DiskBacking, at *field.Path) field.ErrorList {
	errs := oneOf(at.Child("cache"), d.Cache, "", kubevirtv1.CacheNone, kubevirtv1.CacheWriteThrough, kubevirtv1.CacheWriteBack)
	errs = append(errs, oneOf(at.Child("io"), d.IO, "", kubevirtv1.IONative, kubevirtv1.IOThreads)...)
	errs = append(errs, oneOf(at.Child("discard"), d.Discard, "", "unmap", "ignore")...)
	errs = append(errs, oneOf(at.Child("errorPolicy"), d.ErrorPolicy, "", kubevirtv1.DiskErrorPolicyStop, kubevirtv1.DiskErrorPolicyReport,
		kubevirtv1.DiskErrorPolicyIgnore, kubevirtv1.DiskErrorPolicyEnospace)...)
	if d.IO == kubevirtv1.IONative && d.Cache != "" && d.Cache != kubevirtv1.CacheNone {
		errs = append(errs, field.Invalid(at.Child("io"), d.IO, "needs the cache mode none, and cache is "+string(d.Cache)))
	}
	return append(errs, checkNumber(at.Child("ioThreads"), d.IOThreads, maxIOThreads)...)
}

func checkNumber(at *field.Path, value *int32, most int32) field.ErrorList {
	if n := ptr.Deref(value, 0); n < 0 || n > most {
		return field.ErrorList{field.Invalid(at, n, fmt.Sprintf("must be between 0 and %d", most))}
	}
	return nil
}

// cpuListForm is a list of CPUs in the kernel's notation.
var cpuListForm = regexp.MustCompile(`^[0-9]{1,9}(-[0-9]{1,9})?(,[0-9]{1,9}(-[0-9]{1,9})?)*$`)

// checkCPUs checks that a list is in order, without duplicates, and of CPUs that hosts can have.
func checkCPUs(at *field.Path, list string) field.ErrorList {
	if list == "" {
		return nil
	}
	if !cpuListForm.MatchString(list) {
		return field.ErrorList{field.Invalid(at, list, "must be a list of CPUs such as 0-3,8")}
	}
	next := 0
	for part := range strings.SplitSeq(list, ",") {
		from, to, several := strings.Cut(part, "-")
		first, _ := strconv.Atoi(from) // nine digits at most
		last := first
		if several {
			last, _ = strconv.Atoi(to)
		}
		switch {
		case first < next || last < first:
			return field.ErrorList{field.Invalid(at, list, "must be in order, without duplicates: "+part+" is out of order")}
		case last >= maxVCPUs:
			return field.ErrorList{field.Invalid(at, list, fmt.Sprintf("CPUs are numbered up to %d", maxVCPUs-1))}
		}
		next = last + 1
	}
	return nil
}

// deviceForm is the name of a network device of Linux.
var deviceForm = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,15}$`)

// checkNetworks checks the rules, and that each of them can be the first one that matches.
func checkNetworks(rules []v1alpha1.NetworkRule, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(rules) > maxNetworkRules {
		errs = append(errs, field.TooMany(at, len(rules), maxNetworkRules))
	}
	seen := map[string]int{}
	for i := range rules {
		rule, at := &rules[i], at.Index(i)
		errs = append(errs, checkNetworkRule(rule, at)...)
		for _, before := range []string{rule.Network, "*"} {
			if n, ok := seen[before]; ok {
				errs = append(errs, field.Invalid(at.Child("network"), rule.Network, fmt.Sprintf("never applies: networks[%d] is for %s, and the first rule that matches applies", n, before)))
				break
			}
		}
		if _, ok := seen[rule.Network]; !ok {
			seen[rule.Network] = i
		}
	}
	return errs
}

func checkNetworkRule(rule *v1alpha1.NetworkRule, at *field.Path) field.ErrorList {
	errs := oneOf(at.Child("type"), rule.Type, v1alpha1.NetworkTap, v1alpha1.NetworkManagedTap, v1alpha1.NetworkBridge, v1alpha1.NetworkUser)
	bridge := rule.Type == v1alpha1.NetworkBridge
	switch {
	case bridge && rule.Bridge == "":
		errs = append(errs, field.Required(at.Child("bridge"), "name the host's bridge"))
	case bridge && !deviceForm.MatchString(rule.Bridge):
		errs = append(errs, field.Invalid(at.Child("bridge"), rule.Bridge, "must be the name of a network device such as br0, 15 characters at most"))
	case !bridge && rule.Bridge != "":
		errs = append(errs, field.Forbidden(at.Child("bridge"), "must be left out unless the type is Bridge"))
	}
	if rule.Network == "" {
		errs = append(errs, field.Required(at.Child("network"), "name a network: pod, the networkName of a secondary network, or * for all"))
	}
	if rule.Type == v1alpha1.NetworkUser && rule.Vhost != nil {
		errs = append(errs, field.Forbidden(at.Child("vhost"), "must be left out for the type User, which does not use the kernel"))
	}
	return errs
}

// checkPaths checks that path rules never give two things one path. The built-in ones can, since
// they are for a pod with one VMI.
func checkPaths(p *v1alpha1.Paths, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, rule := range pathRules {
		template := rule.of(p)
		if template == "" {
			continue
		}
		err := rule.check(template)
		if err == nil {
			err = rule.checkNeeds(template)
		}
		if err != nil {
			errs = append(errs, field.Invalid(at.Child(rule.name), template, err.Error()))
		}
	}
	return errs
}
