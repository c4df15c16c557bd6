package hypervisor

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// requireVariable, when it says requireValue, makes missing programs a failure.
const (
	requireVariable = "VIRTWRIGHT_HYPERVISOR"
	requireValue    = "require"
)

// T is what this package needs of a test: a *testing.T, a *testing.B and Ginkgo's GinkgoT() have
// it.
type T interface {
	Helper()
	Cleanup(func())
	Logf(format string, args ...any)
	Skipf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// needs are the things that must be there, and the Debian package of each. A thing with a slash is
// a pattern of a file, another is a program.
var needs = []struct{ thing, debian string }{
	{"libvirtd", "libvirt-daemon"},
	{"/usr/lib/*/libvirt/connection-driver/libvirt_driver_qemu.so", "libvirt-daemon-driver-qemu"},
	{"virsh", "libvirt-clients"},
	{"virt-xml-validate", "libvirt-clients"},
	{"xmllint", "libxml2-utils"},
	{"qemu-system-x86_64", "qemu-system-x86"},
	{"qemu-img", "qemu-utils"},
	{"/usr/share/OVMF/OVMF_CODE_4M.fd", "ovmf"},
	{"swtpm", "swtpm"},
	{"swtpm_setup", "swtpm-tools"},
	{"busybox", "busybox-static"},
	{"genisoimage", "genisoimage"},
}

// Require skips the test with -short and where libvirt or QEMU is missing. With
// VIRTWRIGHT_HYPERVISOR=require, it fails where one is missing.
func Require(t T) {
	t.Helper()
	if testing.Short() {
		t.Skipf("needs a hypervisor")
	}
	reason := lacking(present)
	if reason == "" {
		return
	}
	if os.Getenv(requireVariable) == requireValue {
		t.Fatalf("%s (%s=%s)", reason, requireVariable, requireValue)
		return
	}
	t.Skipf("%s", reason)
}

// lacking says in one line what keeps this machine from running domains, and is empty when nothing
// does.
func lacking(present func(thing string) bool) string {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		return "libvirt and QEMU are tested on Linux, amd64, only"
	}
	var packages []string
	for _, need := range needs {
		if !present(need.thing) && !slices.Contains(packages, need.debian) {
			packages = append(packages, need.debian)
		}
	}
	if packages == nil {
		return ""
	}
	return "libvirt or QEMU is missing: apt-get install --no-install-recommends " + strings.Join(packages, " ")
}

// present tells whether a thing of needs is on this machine.
func present(thing string) bool {
	if thing == "busybox" {
		_, err := readBusybox() // another package's needs libraries
		return err == nil
	}
	if strings.Contains(thing, "/") {
		found, _ := filepath.Glob(thing) // the patterns are well-formed
		return len(found) > 0
	}
	_, err := lookup(thing)
	return err == nil
}

// lookup finds a program, also where only an administrator's PATH leads.
func lookup(program string) (string, error) {
	if path, err := exec.LookPath(program); err == nil {
		return path, nil
	}
	path, err := exec.LookPath(filepath.Join("/usr/sbin", program))
	if err != nil {
		return "", fmt.Errorf("cannot find %s: %w", program, err)
	}
	return path, nil
}
