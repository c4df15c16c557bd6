package domain

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/api/v1alpha1"
)

// What the schema of the kind says too.
const (
	maxIOThreads    = 64
	maxStatsSeconds = 3600
	maxNetworkRules = 64
)

// CheckBackendSettings says what is wrong with settings, below a path. It
// does not rely on the schema of the kind, since manifests reach it offline.
func CheckBackendSettings(s *v1alpha1.BackendSettings, at *field.Path) field.ErrorList {
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
		errs = append(errs, field.Invalid(at.Child("io"), d.IO, "needs the cache mode none, and cache says "+string(d.Cache)))
	}
	return append(errs, checkNumber(at.Child("ioThreads"), d.IOThreads, maxIOThreads)...)
}

func checkNumber(at *field.Path, value *int32, most int32) field.ErrorList {
	if n := ptr.Deref(value, 0); n < 0 || n > most {
		return field.ErrorList{field.Invalid(at, n, fmt.Sprintf("must be between 0 and %d", most))}
	}
	return nil
}

// cpuListForm is a list of CPUs as the kernel writes it.
var cpuListForm = regexp.MustCompile(`^[0-9]{1,9}(-[0-9]{1,9})?(,[0-9]{1,9}(-[0-9]{1,9})?)*$`)

// checkCPUs wants a list in order, without a CPU twice, of CPUs that hosts
// have.
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
			return field.ErrorList{field.Invalid(at, list, "must be in order, without a CPU twice: "+part+" is out of place")}
		case last >= maxVCPUs:
			return field.ErrorList{field.Invalid(at, list, fmt.Sprintf("CPUs are numbered up to %d", maxVCPUs-1))}
		}
		next = last + 1
	}
	return nil
}

// bridgeForm is the name of a network device of Linux.
var bridgeForm = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,15}$`)

// checkNetworks wants rules each of which can be the first that matches.
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
				errs = append(errs, field.Invalid(at.Child("network"), rule.Network, fmt.Sprintf("never decides: networks[%d] is for %s, and the first rule that matches decides", n, before)))
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
	case bridge && !bridgeForm.MatchString(rule.Bridge):
		errs = append(errs, field.Invalid(at.Child("bridge"), rule.Bridge, "must be the name of a network device such as br0, 15 characters at most"))
	case !bridge && rule.Bridge != "":
		errs = append(errs, field.Forbidden(at.Child("bridge"), "only the type Bridge has one"))
	}
	if rule.Network == "" {
		errs = append(errs, field.Required(at.Child("network"), "name a network: pod, the networkName of a secondary network, or * for all"))
	}
	if rule.Type == v1alpha1.NetworkUser && rule.Vhost != nil {
		errs = append(errs, field.Forbidden(at.Child("vhost"), "the type User has no packets that the kernel could move"))
	}
	return errs
}

// checkPaths wants rules that keep things apart, also those that say what is
// built in: that is for a pod, in which there is one instance.
func checkPaths(p *v1alpha1.Paths, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, rule := range pathRules {
		template := rule.of(p)
		if template == "" {
			continue
		}
		err := rule.check(template)
		if err == nil {
			err = rule.checkApart(template)
		}
		if err != nil {
			errs = append(errs, field.Invalid(at.Child(rule.name), template, err.Error()))
		}
	}
	return errs
}
