// Package demo runs the tour that newcomers see, so that it keeps working.
package demo

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestDemo runs two tours side by side, each with its own control plane.
func TestDemo(t *testing.T) {
	if testing.Short() {
		t.Skip("starts control planes")
	}
	for _, name := range []string{"one", "another"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tour(t)
		})
	}
}

// TestOthersControlPlane checks that a run leaves a control plane alone that it did not start.
func TestOthersControlPlane(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a control plane")
	}
	name := fmt.Sprintf("others-%d", os.Getpid())
	controlplane := func(args ...string) (string, error) {
		command := exec.Command("go", append([]string{"run", "../controlplane/cmd/controlplane", "--name", name}, args...)...)
		out, err := command.CombinedOutput()
		return string(out), err
	}
	if out, err := controlplane("start", fmt.Sprintf("--while=%d", os.Getpid())); err != nil {
		t.Fatalf("cannot start: %v\n%s", err, out)
	}
	defer func() { _, _ = controlplane("stop") }()
	command := exec.CommandContext(t.Context(), "./demo.sh")
	command.Env = append(os.Environ(), "NAME="+name)
	out, err := command.CombinedOutput()
	if err == nil || !strings.Contains(string(out), fmt.Sprintf("control plane %q runs already", name)) {
		t.Errorf("want a rejection, got %v\n%s", err, out)
	}
	if out, err := controlplane("kubectl", "get", "namespaces"); err != nil {
		t.Errorf("the control plane is gone: %v\n%s", err, out)
	}
}

func tour(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "./demo.sh").CombinedOutput()
	if err != nil {
		t.Fatalf("the tour ended early: %v\n%s", err, out)
	}
	for _, want := range []string{
		"golden-image (default)",                         // who gave what
		"image: quay.io/containerdisks/fedora:42",        // the VM, whole
		"platform (machine-type)",                        // its explanation
		"labels do not match os=windows",                 // why others did not act
		"no passthrough in production",                   // a rejected VM
		`unknown field "memroy"; did you mean "memory"?`, // a rejected preset
		"controllers write owner references",             // a protected field
		`--type merge -p '{"metadata": {"owner`,          // a command that can be pasted
		"VirtualMachine lab/tiny (standard input",        // the output of a pipeline
		`"ledger" is invalid: spec.template.spec.domain.devices.disks[0].name: Not found: "ledger-dsik"`, // what could not start
		"1 rejected with 1 problem", // the same offline
		"No guest runs: a stand-in", // what follows is no more than that
		"VM netboot: Running",       // a start
		"VM netboot: Stopped",       // a stop
		"Stopped the virtual machine by deleting the virtual machine instance", // an event
		"ConfigMap netboot-golden created in namespace lab",                    // a template
		"bin/virtwright playground",                                            // what to do next
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the tour does not show %q", want)
		}
	}
	if t.Failed() {
		t.Logf("%s", out)
	}
}
