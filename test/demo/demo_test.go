// Package demo runs the tour that newcomers see, so that it keeps working.
package demo

import (
	"os/exec"
	"strings"
	"testing"
)

func TestDemo(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a control plane")
	}
	out, err := exec.CommandContext(t.Context(), "./demo.sh").CombinedOutput()
	if err != nil {
		t.Fatalf("the tour ended early: %v\n%s", err, out)
	}
	for _, want := range []string{
		"golden-image (default)",                         // who gave what
		"image: quay.io/containerdisks/fedora:42",        // the VM, whole
		"platform (machine-type)",                        // its explanation
		"labels do not match os=windows",                 // why others did not act
		"no passthrough in production",                   // a refused VM
		`unknown field "memroy"; did you mean "memory"?`, // a refused preset
		"controllers write owner references",             // a protected field
		`"ledger" is invalid: spec.template.spec.domain.devices.disks[0].name: Not found: "ledger-dsik"`, // what could not start
		"1 refused with 1 problem",  // the same offline
		"No guest runs: a stand-in", // what follows is no more than that
		"VM netboot: Running",       // a start
		"VM netboot: Stopped",       // a stop
		"Stopped the virtual machine by deleting the virtual machine instance", // an event
		"ConfigMap netboot-golden created in namespace lab",                    // a template
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the tour does not show %q", want)
		}
	}
	if t.Failed() {
		t.Logf("%s", out)
	}
}
