package hypervisor

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// verdict is a test that notes how it ends.
type verdict struct{ skipped, failed string }

func (*verdict) Helper()             {}
func (*verdict) Cleanup(func())      {}
func (*verdict) Logf(string, ...any) {}

func (v *verdict) Skipf(format string, args ...any)  { v.skipped = fmt.Sprintf(format, args...) }
func (v *verdict) Fatalf(format string, args ...any) { v.failed = fmt.Sprintf(format, args...) }

var _ T = (*testing.T)(nil)

func TestLacking(t *testing.T) {
	for name, row := range map[string]struct {
		absent []string
		want   string
	}{
		"nothing":            {nil, ""},
		"one program":        {[]string{"virsh"}, " libvirt-clients"},
		"two of one package": {[]string{"virsh", "virt-xml-validate"}, " libvirt-clients"},
		"two of two":         {[]string{"busybox", "libvirtd"}, " libvirt-daemon busybox-static"},
		"a file, no program": {[]string{"/usr/lib/*/libvirt/connection-driver/libvirt_driver_qemu.so"}, " libvirt-daemon-driver-qemu"},
	} {
		t.Run(name, func(t *testing.T) {
			got := lacking(func(thing string) bool {
				return !slices.Contains(row.absent, thing)
			})
			if !strings.HasSuffix(got, row.want) || (row.want == "") != (got == "") || strings.Contains(got, "\n") {
				t.Errorf("lacking says %q", got)
			}
		})
	}
}

// TestCI proves that CI installs the needed packages, and requires them.
func TestCI(t *testing.T) {
	script, err := os.ReadFile("../../.ci/run")
	if err != nil {
		t.Fatal(err)
	}
	for _, need := range needs {
		if !regexp.MustCompile(`[:(]` + need.debian + `\b`).Match(script) {
			t.Errorf(".ci/run does not install %s", need.debian)
		}
	}
	if !strings.Contains(string(script), "export "+requireVariable+"="+requireValue+"\n") {
		t.Errorf(".ci/run does not set %s", requireVariable)
	}
}

func TestRequire(t *testing.T) {
	if testing.Short() {
		t.Skip("with -short, Require always skips")
	}
	t.Setenv("PATH", t.TempDir())
	t.Setenv(requireVariable, "")
	var v verdict
	Require(&v)
	if v.failed != "" || !strings.Contains(v.skipped, "qemu-system-x86") {
		t.Errorf("without the programs: %+v", v)
	}
	t.Setenv(requireVariable, requireValue)
	v = verdict{}
	Require(&v)
	if v.skipped != "" || !strings.Contains(v.failed, "qemu-system-x86") {
		t.Errorf("without the programs, which are required: %+v", v)
	}
}

func TestValidate(t *testing.T) {
	Require(t)
	if err := validate(idle("good")); err != nil {
		t.Error(err)
	}
	if err := validate(strings.Replace(idle("bad"), "<devices>", "<devices><bogus/>", 1)); err == nil || !strings.Contains(err.Error(), "fails to validate") {
		t.Errorf("an unknown element: %v", err)
	}
}
